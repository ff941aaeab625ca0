/*
 * intake.c: reads requests from the bytes of connections, decides them together, and answers them.
 *
 * The intake is the requests that a worker's loop has read and not decided yet. A work is a request
 * that is being processed.
 */
#include "server/loop/intake.h"

#include <stdlib.h>

#include "engine/pipeline.h"
#include "rules/model.h"
#include "server/access/permissions.h"
#include "server/admin/page.h"
#include "server/requests/split_batch.h"
#include "server/requests/handle.h"
#include "server/stores/reports.h"
#include "server/waiting/key_order.h"
#include "server/waiting/deferred.h"

/* About the bytes of a reply or an error, without request.reply_size. */
#define SHORT_REPLY_BYTES 256

/* Frees the memory of the intake's requests, to which nothing refers any more. */
static void free_requests(struct worker *worker)
{
	arena_reset(&worker->decider.arena);
	worker->intake.next_request = &worker->intake.first_request;
}

/*
 * Passes the rendered answers to their connections, those of consecutive works of a connection
 * together. Doing so while the intake is decided would drive the code that decides out of the
 * first-level cache with each write.
 */
static void write_answers(struct worker *worker)
{
	size_t start = 0;

	for (size_t i = 0; i < worker->intake.count; i++) {
		struct net_conn *conn = worker->intake.works[i].conn;
		size_t end = worker->intake.works[i].answer_end;

		if (i + 1 < worker->intake.count && worker->intake.works[i + 1].conn == conn)
			continue;
		pending_send(conn,
		             (struct slice){worker->waiting.pending.answers.data + start, end - start});
		start = end;
	}
	net_loop_flush(worker->loop);
	worker->waiting.pending.answers.len = 0;
	if (worker->waiting.pending.answers.capacity > INTAKE_OUT_RETAINED)
		buffer_free(&worker->waiting.pending.answers);
}

static void fetch_cells(void *context, size_t start, size_t end)
{
	const struct worker *worker = context;

	handle_prefetch_cells(worker->shared->table, worker->intake.works + start, end - start);
}

static void locate_cells(void *context, size_t start, size_t end)
{
	const struct worker *worker = context;

	handle_locate_cells(&worker->decider.context, worker->intake.works + start, end - start);
}

/*
 * Whether the work may outlive this iteration: as a batch with too much work for one, with steps at
 * a store, or behind an earlier request of its connection with the same key.
 */
static bool must_suspend(const struct waiting *waiting, const struct work *work)
{
	return work_has_items_to_begin(work) ||
	       (decider_uses_stores(waiting->decider) &&
	        (suspend_needed_for_store(work) || key_order_must_wait(&waiting->order, work)));
}

/* Decides works in their order. Each answer is rendered at once, or when the work has waited. */
static void decide_works(void *context, size_t start, size_t end)
{
	struct worker *worker = context;
	bool may_suspend =
	    decider_uses_stores(&worker->decider) || worker->waiting.intake_has_split_batch;
	struct reply reply;

	for (size_t i = start; i < end; i++) {
		struct work *work = &worker->intake.works[i];

		client_of(work->conn)->reply_bytes = 0;
		if (__builtin_expect(may_suspend, 0) && must_suspend(&worker->waiting, work)) {
			deferred_suspend_and_run(&worker->waiting, work);
		} else {
			handle_decide(&worker->decider, work, &reply);
			if (!reply.must_wait || !deferred_wait_for_key(&worker->waiting, work, &reply))
				pending_answer_new(&worker->waiting.pending, work, &reply);
		}
		work->answer_end = worker->waiting.pending.answers.len;
	}
}

/* The stages of deciding run one after the other, each for all works (engine/pipeline.h). */
void intake_answer(struct worker *worker)
{
	struct metrics_loop *metrics = worker->decider.metrics;
	size_t count = worker->intake.count;
	uint64_t end_ns;

	if (count == 0) {
		free_requests(worker);
		return;
	}
	decider_read_clock(&worker->decider);
	pipeline_run((struct pipeline){.block = count, {fetch_cells, locate_cells, decide_works}},
	             count, worker);
	write_answers(worker);
	if (__builtin_expect(worker->decider.new_event_stream_count > 0, 0))
		event_streams_begin(&worker->event_streams, worker->intake.works, count);
	end_ns = os_monotonic_ns();
	metrics_observe(metrics, METRICS_DURATION, sat_sub(end_ns, worker->intake.start_ns), count);
	metrics_observe(metrics, METRICS_INTAKE_SIZE, count, 1);
	worker->intake.start_ns = end_ns;
	worker->intake.count = 0;
	worker->intake.reply_bytes = 0;
	worker->waiting.intake_has_split_batch = false;
	worker->decider.pages.intake_number++;
	adhoc_release_limits(&worker->decider.adhoc);
	free_requests(worker);
}

static void on_open(void *context, struct net_conn *conn)
{
	struct worker *worker = context;
	uint64_t process_wide_id =
	    ++worker->intake.opened_count * worker->shared->threads + worker->index;

	protocol_of(conn)->codec->open(client_of(conn)->session, &worker->intake.bounds,
	                               process_wide_id);
}

void intake_use_newest_config(struct worker *worker)
{
	decider_use_newest_config(&worker->decider);
	reports_set_context(&worker->decider);
	worker->admission.has_stores = decider_uses_stores(&worker->decider);
}

void intake_begin_iteration(struct worker *worker)
{
	if (worker->intake.iteration_has_begun)
		return;
	worker->intake.iteration_has_begun = true;
	intake_use_newest_config(worker);
	worker->intake.start_ns = os_monotonic_ns();
}

/* The input of a connection that is being read. */
struct input {
	struct net_conn *conn;
	const struct worker_protocol *protocol;
	struct client *client;
	struct slice rest;     /* the bytes that are not consumed yet */
	size_t share_left;     /* how many requests the connection may still send in this iteration */
	bool is_above_maximum; /* there are more than max_connections: only operators are served */
};

static void consume_input(struct input *input, size_t bytes, size_t requests)
{
	input->rest = (struct slice){input->rest.data + bytes, input->rest.len - bytes};
	input->share_left = sat_sub(input->share_left, requests);
}

/* Returns how many more the request counts as: the items of a batch, or more for a long reply. */
static inline size_t extra_requests(const struct request *request)
{
	return u64_max(request->item_count, request->reply_size / SHORT_REPLY_BYTES);
}

/* The name of the user that sent the request, NULL for nobody; "default" if there are no users. */
static struct slice sender_name(const struct decider *decider)
{
	if (!decider->config->users)
		return SLICE("default");
	return decider->user ? slice_of(decider->user->rule->name) : (struct slice){NULL, 0};
}

/*
 * Charges a request that makes the engine do more than one unit of work (engine_work). The units
 * that consume_input has not counted come off the connection's share, and off the work that the
 * loop may do in this iteration. Suspends the connection after a batch that does not fit into one.
 */
__attribute__((noinline)) static void
charge_extra_units(struct waiting *waiting, struct input *input, const struct work *work)
{
	size_t counted = work->kind == REQUEST_BATCH ? work->full_request->item_count : 1;
	size_t extra = sat_sub(work_units(work), counted);

	input->share_left = sat_sub(input->share_left, extra);
	net_loop_charge(waiting->decider->loop, extra * BATCH_UNIT_BYTES);
	if (work_has_items_to_begin(work))
		deferred_begin_split_batch(waiting, work->conn);
}

/* About how much memory a work holds back, besides its reply, if it has to wait. */
static inline size_t bytes_while_waiting(const struct worker *worker, const struct client *client,
                                         const struct work *work)
{
	if (__builtin_expect(worker->admission.has_stores || client->has_split_batch, 0) &&
	    (client->has_split_batch || suspend_needed_for_store(work)))
		return suspend_size(work);
	return work->kind != REQUEST_ADHOC && handle_may_wait(work) ? PENDING_SIZE : 0;
}

/* Counts about the bytes of the reply to come, and of the work if it has to wait. */
static inline void count_expected_bytes(struct worker *worker, struct client *client,
                                        const struct work *work, size_t reply_bytes)
{
	size_t bytes = reply_bytes + bytes_while_waiting(worker, client, work);

	client->reply_bytes += bytes;
	worker->intake.reply_bytes += bytes;
}

/*
 * Adds the request to the intake. Returns false if the connection must not be read further now. An
 * ad hoc request, whose limit is in the request, is one unit of work and never waits. `page_bytes`
 * is the size of the page that the request is answered with, or 0.
 */
static inline bool add_request(struct worker *worker, struct request *request, struct input *input,
                               size_t page_bytes)
{
	/* a command such as ACL WHOAMI, which the codec answers, or a batch that may have one */
	const unsigned kinds_naming_sender = 1u << REQUEST_LOCAL | 1u << REQUEST_BATCH;
	struct work *work = &worker->intake.works[worker->intake.count++];
	size_t reply_bytes = SHORT_REPLY_BYTES + request->reply_size + page_bytes;

	work->conn = input->conn;
	if (1u << request->kind & kinds_naming_sender)
		request->name = sender_name(&worker->decider);
	if (request->kind == REQUEST_LOCAL && request->origin && request->origin->is_from_foreign_page)
		permissions_log_foreign(&worker->decider, input->conn);
	handle_prepare(&worker->decider, work, request);
	if (input->is_above_maximum)
		permissions_use_reserve(&worker->decider, work, request);
	if (work->kind != REQUEST_ADHOC && __builtin_expect(work_units(work) > 1, 0))
		charge_extra_units(&worker->waiting, input, work);
	count_expected_bytes(worker, input->client, work, reply_bytes);
	if (work->full_request == request) /* it stays: parse the next one elsewhere */
		worker->intake.next_request = arena_alloc(&worker->decider.arena, sizeof *request);
	if (work->close_after)
		net_conn_finish(work->conn);
	else if (page_bytes > 0)
		net_conn_yield(work->conn);
	return !work->close_after && page_bytes == 0 && !input->client->has_split_batch;
}

/*
 * Drops the work of a request that the client has cancelled. Returns false if the intake does not
 * have it.
 */
static bool drop_from_intake(struct worker *worker, struct net_conn *conn, unsigned stream)
{
	bool has_works = client_of(conn)->reply_bytes > 0;
	size_t i = has_works ? worker->intake.count : 0;

	while (i > 0 && (worker->intake.works[i - 1].conn != conn ||
	                 worker->intake.works[i - 1].stream != stream))
		i--;
	if (i > 0)
		deferred_drop(&worker->waiting, &worker->intake.works[i - 1]);
	return i > 0;
}

/*
 * Ends the requests that the client has cancelled, and returns whether there are any. A request
 * that is neither pending nor in the intake was put back until its login is checked.
 */
__attribute__((noinline)) static bool end_cancelled_requests(struct worker *worker,
                                                             const struct input *input)
{
	const struct codec *codec = input->protocol->codec;
	unsigned stream;
	bool any = false;

	for (; (stream = codec->next_cancelled(input->client->session)) != 0; any = true)
		if (!pending_cancel_stream(&worker->waiting.pending, input->conn, stream) &&
		    !drop_from_intake(worker, input->conn, stream))
			client_login_cancel(input->conn);
	return any;
}

/*
 * Searches input that can't be taken now for cancellations: one may end the request that the input
 * waits for. Returns true if so; then try to take the input again.
 */
static bool cancel_by_later_input(struct worker *worker, const struct input *input)
{
	const struct codec *codec = input->protocol->codec;

	if (input->rest.len == 0 || !codec->find_cancellations)
		return false;
	codec->find_cancellations(input->client->session, input->rest);
	return end_cancelled_requests(worker, input);
}

/* Makes the codec return the request that it has just parsed once more, when it is read again. */
static void put_back(struct input *input)
{
	const struct codec *codec = input->protocol->codec;

	if (codec->repeat_request)
		codec->repeat_request(input->client->session);
}

/* Whether a parsed request must be put back until its connection is read again. */
static inline bool must_put_back(struct worker *worker, const struct input *input,
                                 struct request *request, size_t page_bytes)
{
	if (__builtin_expect(worker->decider.config->users != NULL, 0) &&
	    !client_login_identify(&worker->decider, &worker->login_queue, input->conn, request))
		return true; /* until its password is checked */
	if (__builtin_expect(request->kind == REQUEST_BATCH, 0) &&
	    admission_delays_batch(&worker->admission, input->conn, request))
		return true; /* until the queue admits its client */
	if (page_bytes > 0 && net_loop_is_busy(worker->loop)) {
		net_conn_yield(input->conn);
		return true; /* until the next iteration */
	}
	return false;
}

/* Parses and adds the next request of a connection. Returns false if no more can be taken now. */
static inline bool take_request(struct worker *worker, struct input *input)
{
	const struct codec *codec = input->protocol->codec;
	struct request *request = worker->intake.next_request;
	size_t consumed = 0, page_bytes = 0;

	/* a transaction becomes a batch once it is parsed */
	if (__builtin_expect(worker->admission.batches >= ADMISSION_BATCHES, 0) &&
	    admission_delays_transaction(&worker->admission, input->conn))
		return false;
	switch (codec->parse(input->client->session, input->rest, &consumed, &worker->decider.arena,
	                     request)) {
	case CODEC_MORE:
		return false;
	case CODEC_SKIPPED:
		if (codec->next_cancelled)
			end_cancelled_requests(worker, input);
		consume_input(input, consumed, 1);
		return true;
	case CODEC_REQUEST:
		/* an interim answer, such as 100 Continue, to input that may also cancel requests */
		if (__builtin_expect(request->kind == REQUEST_INTERIM, 0))
			end_cancelled_requests(worker, input);
		break;
	}
	if (page_is_requested(request))
		page_bytes = page_size(&worker->decider.pages, request->kind);
	if (must_put_back(worker, input, request, page_bytes)) {
		put_back(input);
		return false;
	}
	consume_input(input, consumed, 1 + extra_requests(request));
	return add_request(worker, request, input, page_bytes);
}

/*
 * Whether the intake must be answered before it takes another request of this client: the client's
 * space for replies, or memory, or the intake is full.
 */
static inline bool must_answer_first(const struct worker *worker, const struct client *client,
                                     size_t space)
{
	return client->reply_bytes >= space || worker->intake.count == INTAKE_WORKS_MAX ||
	       !worker->intake.next_request || worker->intake.reply_bytes > INTAKE_OUT_MAX ||
	       worker->decider.arena.used > INTAKE_ARENA_MAX;
}

/*
 * Adds requests as long as their replies fit into `space` bytes. Returns true if more can be added
 * once the intake is answered; false if this input is done for now.
 */
static bool take_requests(struct worker *worker, struct input *input, size_t space)
{
	while (input->rest.len > 0) {
		if (input->share_left == 0) {
			net_conn_yield(input->conn);
			return false;
		}
		if (must_answer_first(worker, input->client, space))
			return true;
		if (!take_request(worker, input))
			return false;
	}
	return false;
}

/*
 * Whether the input must wait for the next iteration, because a long transaction may end with it
 * while the loop is busy. Many of them may end at once.
 */
static bool must_delay_transaction(const struct net_loop *loop, const struct input *input)
{
	const struct codec *codec = input->protocol->codec;

	return net_loop_is_busy(loop) && codec->next_request_count &&
	       codec->next_request_count(input->client->session) > INTAKE_COMMANDS_AT_ONCE;
}

/*
 * Called when a connection has input, with all its bytes that are not consumed. Reads requests from
 * them, and returns how many bytes are consumed now.
 */
static size_t on_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct worker *worker = context;
	struct input input = {
	    .conn = conn,
	    .protocol = net_conn_tag(conn),
	    .client = net_conn_data(conn),
	    .rest = bytes,
	    .share_left = net_loop_share(worker->loop, INTAKE_SHARE),
	    .is_above_maximum = !net_conn_admit(conn),
	};
	size_t space;

	if (must_delay_transaction(worker->loop, &input)) {
		net_conn_yield(conn);
		return 0;
	}
	intake_begin_iteration(worker);
	do {
		while (!input.client->has_split_batch &&
		       (space = admission_reply_space(&worker->admission, conn, input.rest.len)) > 0 &&
		       take_requests(worker, &input, space))
			intake_answer(worker);
	} while (cancel_by_later_input(worker, &input));
	if (input.protocol->codec->unfinished_request)
		net_conn_set_partial(conn,
		                     input.protocol->codec->unfinished_request(input.client->session));
	return bytes.len - input.rest.len;
}

static void on_client_close(void *context, struct net_conn *conn)
{
	struct worker *worker = context;
	const struct codec *codec = protocol_of(conn)->codec;
	struct client *client = net_conn_data(conn);

	admission_remove(&worker->admission, client);
	client_login_cancel(conn);
	if (net_conn_error(conn))
		listener_tls_log_failure(&worker->listener_tls, conn, worker->shared->log);
	if (client->unanswered.first) {
		pending_cancel(&worker->waiting.pending, conn);
		/* the next iteration sends the refunds of the cancelled requests to stores */
		net_loop_wake(worker->loop);
	}
	if (codec->close)
		codec->close(client->session);
}

/*
 * Called before the server closes a connection by itself. Sends the goodbye of its protocol, and
 * returns whether there is one.
 */
static bool on_stop(void *context, struct net_conn *conn)
{
	struct buffer goodbye = {0};
	bool has_goodbye;

	(void)context;
	protocol_of(conn)->codec->append_goodbye(client_of(conn)->session, &goodbye);
	has_goodbye = goodbye.len > 0;
	if (has_goodbye)
		buffer_add_slice(net_conn_output(conn), (struct slice){goodbye.data, goodbye.len});
	buffer_free(&goodbye);
	return has_goodbye;
}

struct net_kind intake_callbacks(struct worker *worker, const struct worker_protocol *protocol,
                                 bool secure)
{
	return (struct net_kind){
	    .open = on_open,
	    .data = on_data,
	    .close = on_client_close,
	    .stop = protocol->codec->append_goodbye ? on_stop : NULL,
	    .conn_size = sizeof(struct client) + protocol->codec->session_size,
	    .idle_timeout_ms = &worker->shared->idle_timeout_ms[protocol->metric],
	    .tag = protocol,
	    .filter = secure ? &worker->listener_tls.filter : NULL,
	};
}

int intake_open(struct worker *worker)
{
	struct intake *intake = &worker->intake;

	intake->bounds = worker->shared->bounds;
	intake->bounds.forwarded_attributes = &worker->decider.forwarded;
	intake->bounds.session_bytes = &worker->decider.metrics->transaction_bytes;
	intake->next_request = &intake->first_request;
	intake->works = calloc(INTAKE_WORKS_MAX, sizeof *intake->works);
	return intake->works ? WEIR_OK : WEIR_ENOMEM;
}
