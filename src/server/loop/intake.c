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
#define REPLY_SIZE 256

/* Frees the requests of the intake, to which nothing refers any more. */
static void reset_arena(struct worker *worker)
{
	arena_reset(&worker->decider.arena);
	worker->intake.next_request = &worker->intake.first_request;
}

/*
 * Writes the answers, once for each connection. Doing so while the intake is decided would drive
 * the code that decides out of the first-level cache with each write.
 */
static void write_answers(struct worker *worker)
{
	size_t from = 0;

	for (size_t i = 0; i < worker->intake.count; i++) {
		struct net_conn *conn = worker->intake.works[i].conn;
		size_t end = worker->intake.works[i].answer_end;

		if (i + 1 < worker->intake.count && worker->intake.works[i + 1].conn == conn)
			continue;
		pending_send(conn, (struct slice){worker->waiting.pending.answers.data + from, end - from});
		from = end;
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

static bool must_suspend(const struct waiting *waiting, const struct work *work)
{
	return work_split_batch(work) ||
	       (waiting->decider->config->stores != 0 &&
	        (suspend_needed_for_store(work) || key_order_must_wait(&waiting->order, work)));
}

static void decide_works(void *context, size_t start, size_t end)
{
	struct worker *worker = context;
	bool may_suspend =
	    worker->decider.config->stores != 0 || worker->waiting.intake_has_split_batch;
	struct reply reply;

	for (size_t i = start; i < end; i++) {
		struct work *work = &worker->intake.works[i];

		client_of(work->conn)->reply_bytes = 0;
		if (__builtin_expect(may_suspend, 0) && must_suspend(&worker->waiting, work)) {
			deferred_run(&worker->waiting, work);
		} else {
			handle_decide(&worker->decider, work, &reply);
			if (!reply.must_wait || !deferred_wait_for_key(&worker->waiting, work, &reply))
				pending_answer_new(&worker->waiting.pending, work, &reply);
		}
		work->answer_end = worker->waiting.pending.answers.len;
	}
}

void intake_answer(struct worker *worker)
{
	struct metrics_loop *metrics = worker->decider.metrics;
	uint64_t end_ns;

	if (worker->intake.count == 0) {
		reset_arena(worker);
		return;
	}
	decider_read_clock(&worker->decider);
	pipeline_run((struct pipeline){worker->intake.count, {fetch_cells, locate_cells, decide_works}},
	             worker->intake.count, worker);
	write_answers(worker);
	if (__builtin_expect(worker->decider.new_event_stream_count > 0, 0))
		event_streams_begin(&worker->event_streams, worker->intake.works, worker->intake.count);
	end_ns = os_monotonic_ns();
	metrics_observe(metrics, METRICS_DURATION, sat_sub(end_ns, worker->intake.start_ns),
	                worker->intake.count);
	metrics_observe(metrics, METRICS_INTAKE_SIZE, worker->intake.count, 1);
	worker->intake.start_ns = end_ns;
	worker->intake.count = 0;
	worker->intake.reply_bytes = 0;
	worker->waiting.intake_has_split_batch = false;
	worker->decider.pages.intake_number++;
	adhoc_release_limits(&worker->decider.adhoc);
	reset_arena(worker);
}

static void on_open(void *context, struct net_conn *conn)
{
	struct worker *worker = context;

	worker->intake.opened_count++;
	protocol_of(conn)->codec->open(client_of(conn)->session, &worker->intake.bounds,
	                               worker->intake.opened_count * worker->shared->threads +
	                                   worker->index);
}

void intake_begin_iteration(struct worker *worker)
{
	if (worker->intake.iteration_has_begun)
		return;
	worker->intake.iteration_has_begun = true;
	decider_use_newest_config(&worker->decider);
	worker->admission.has_stores = worker->decider.config->stores != 0;
	reports_begin(&worker->decider);
	worker->intake.start_ns = os_monotonic_ns();
}

/* The rest of a connection's bytes, and of its share of the iteration in requests. */
struct input {
	struct net_conn *conn;
	const struct worker_protocol *protocol;
	struct client *client;
	struct slice rest;
	size_t share;
	bool reserved; /* the connection is above max_connections */
};

static void consume_input(struct input *input, size_t bytes, size_t requests)
{
	input->rest = (struct slice){input->rest.data + bytes, input->rest.len - bytes};
	input->share = sat_sub(input->share, requests);
}

/* How many more requests than one this one counts as. */
static inline size_t extra_requests(const struct request *request)
{
	return u64_max(request->item_count, request->reply_size / REPLY_SIZE);
}

/* The name of the sender; NULL without a user. */
static struct slice user_name(const struct decider *decider)
{
	if (!decider->config->users)
		return SLICE("default");
	return decider->user ? slice_of(decider->user->rule->name) : (struct slice){NULL, 0};
}

/*
 * Takes the units of work beyond the first from the connection's share and from the loop's budget.
 */
__attribute__((noinline)) static void count_units(struct waiting *waiting, struct input *input,
                                                  const struct work *work)
{
	size_t counted = work->kind == REQUEST_BATCH ? work->full_request->item_count : 1;
	size_t more = sat_sub(work_units(work), counted);

	input->share = sat_sub(input->share, more);
	net_loop_charge(waiting->decider->loop, more * BATCH_UNIT_BYTES);
	if (work_split_batch(work))
		deferred_add_split(waiting, work->conn);
}

/*
 * Adds the request to the intake. Returns false if the connection must not be read further now. An
 * ad hoc request is one step on a bucket: it is one unit of work, and never waits.
 */
static inline bool add_request(struct worker *worker, struct request *request, struct input *input,
                               size_t page)
{
	struct work *work = &worker->intake.works[worker->intake.count++];
	struct client *client = input->client;
	size_t reply = REPLY_SIZE + request->reply_size + page;

	work->conn = input->conn;
	if (1u << request->kind & (1u << REQUEST_LOCAL | 1u << REQUEST_BATCH))
		request->name = user_name(&worker->decider);
	if (request->kind == REQUEST_LOCAL && request->origin && request->origin->foreign)
		permissions_log_foreign(&worker->decider, work);
	handle_prepare(&worker->decider, work, request);
	if (input->reserved)
		permissions_use_reserve(&worker->decider, work, request);
	if (work->kind != REQUEST_ADHOC && __builtin_expect(work_units(work) > 1, 0))
		count_units(&worker->waiting, input, work);
	if (__builtin_expect(worker->admission.has_stores || client->has_split_batch, 0) &&
	    (client->has_split_batch || suspend_needed_for_store(work)))
		reply += suspend_size(work);
	else if (work->kind != REQUEST_ADHOC && handle_may_wait(work))
		reply += PENDING_SIZE;
	client->reply_bytes += reply;
	worker->intake.reply_bytes += reply;
	if (work->full_request == request)
		worker->intake.next_request = arena_alloc(&worker->decider.arena, sizeof *request);
	if (work->close)
		net_conn_finish(work->conn);
	else if (page > 0)
		net_conn_yield(work->conn);
	return !work->close && page == 0 && !client->has_split_batch;
}

static bool drop_from_intake(struct worker *worker, struct net_conn *conn, unsigned stream)
{
	size_t i = client_of(conn)->reply_bytes > 0 ? worker->intake.count : 0;

	while (i > 0 && (worker->intake.works[i - 1].conn != conn ||
	                 worker->intake.works[i - 1].stream != stream))
		i--;
	if (i > 0)
		deferred_drop(&worker->waiting, &worker->intake.works[i - 1]);
	return i > 0;
}

/*
 * Ends the requests that the client has cancelled, and returns whether there are any. A request
 * that is neither pending nor in the intake was put back for its login.
 */
__attribute__((noinline)) static bool end_cancelled_requests(struct worker *worker,
                                                             const struct input *input)
{
	const struct codec *codec = input->protocol->codec;
	unsigned stream;
	bool any = false;

	for (; (stream = codec->cancelled(input->client->session)) != 0; any = true)
		if (!pending_cancel_stream(&worker->waiting.pending, input->conn, stream) &&
		    !drop_from_intake(worker, input->conn, stream))
			client_login_cancel(input->conn);
	return any;
}

/*
 * Parses input that can't be taken now, because it may cancel the request that stands in its way.
 */
static bool look_ahead(struct worker *worker, const struct input *input)
{
	const struct codec *codec = input->protocol->codec;

	if (input->rest.len == 0 || !codec->look_ahead)
		return false;
	codec->look_ahead(input->client->session, input->rest);
	return end_cancelled_requests(worker, input);
}

static void put_back(struct input *input)
{
	const struct codec *codec = input->protocol->codec;

	if (codec->put_back)
		codec->put_back(input->client->session);
}

/* Parses and adds the next request of a connection. Returns false if no more can be taken now. */
static inline bool take_request(struct worker *worker, struct input *input)
{
	const struct codec *codec = input->protocol->codec;
	struct request *request = worker->intake.next_request;
	size_t consumed = 0, page = 0;

	if (__builtin_expect(worker->admission.batches >= ADMISSION_BATCHES, 0) &&
	    admission_delays_transaction(&worker->admission, input->conn))
		return false;
	switch (codec->parse(input->client->session, input->rest, &consumed, &worker->decider.arena,
	                     request)) {
	case CODEC_MORE:
		return false;
	case CODEC_SKIPPED:
		if (codec->cancelled)
			end_cancelled_requests(worker, input);
		consume_input(input, consumed, 1);
		return true;
	case CODEC_REQUEST:
		if (__builtin_expect(request->kind == REQUEST_INTERIM, 0))
			end_cancelled_requests(worker, input);
		break;
	}
	if (__builtin_expect(worker->decider.config->users != NULL, 0) &&
	    !client_login_identify(&worker->decider, &worker->login_queue, input->conn, request)) {
		put_back(input);
		return false;
	}
	if (__builtin_expect(request->kind == REQUEST_BATCH, 0) &&
	    admission_delays_batch(&worker->admission, input->conn, request)) {
		put_back(input);
		return false;
	}
	if (page_is_requested(request)) {
		page = page_size(&worker->decider.pages, request->kind);
		if (net_loop_is_busy(worker->loop)) {
			net_conn_yield(input->conn);
			put_back(input);
			return false;
		}
	}
	consume_input(input, consumed, 1 + extra_requests(request));
	return add_request(worker, request, input, page);
}

/* Whether the intake must be answered before it takes another request of this client. */
static inline bool must_answer(const struct worker *worker, const struct client *client,
                               size_t space)
{
	return client->reply_bytes >= space || worker->intake.count == INTAKE_WORKS_MAX ||
	       !worker->intake.next_request || worker->intake.reply_bytes > INTAKE_OUT_MAX ||
	       worker->decider.arena.used > INTAKE_ARENA_MAX;
}

/*
 * Adds requests as long as their replies fit into `space`. Returns true if the intake must be
 * answered to go on.
 */
static bool take_requests(struct worker *worker, struct input *input, size_t space)
{
	while (input->rest.len > 0) {
		if (input->share == 0) {
			net_conn_yield(input->conn);
			return false;
		}
		if (must_answer(worker, input->client, space))
			return true;
		if (!take_request(worker, input))
			return false;
	}
	return false;
}

/* A long transaction is much work, and many of them may end at once. */
static bool must_yield(const struct net_loop *loop, const struct input *input)
{
	const struct codec *codec = input->protocol->codec;

	return net_loop_is_busy(loop) && codec->queued &&
	       codec->queued(input->client->session) > INTAKE_COMMANDS_AT_ONCE;
}

static size_t on_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct worker *worker = context;
	struct input input = {
	    .conn = conn,
	    .protocol = net_conn_tag(conn),
	    .client = net_conn_data(conn),
	    .rest = bytes,
	    .share = net_loop_share(worker->loop, INTAKE_SHARE),
	    .reserved = !net_conn_admit(conn),
	};
	size_t space;

	if (must_yield(worker->loop, &input)) {
		net_conn_yield(conn);
		return 0;
	}
	intake_begin_iteration(worker);
	do {
		while (!input.client->has_split_batch &&
		       (space = admission_reply_space(&worker->admission, conn, input.rest.len)) > 0 &&
		       take_requests(worker, &input, space))
			intake_answer(worker);
	} while (look_ahead(worker, &input));
	if (input.protocol->codec->unfinished)
		net_conn_set_partial(conn, input.protocol->codec->unfinished(input.client->session));
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
		/* an iteration sends to stores what the cancelled plans give back */
		net_loop_wake(worker->loop);
	}
	if (codec->close)
		codec->close(client->session);
}

static bool on_stop(void *context, struct net_conn *conn)
{
	struct buffer words = {0};
	bool any;

	(void)context;
	protocol_of(conn)->codec->stop(client_of(conn)->session, &words);
	any = words.len > 0;
	if (any)
		buffer_add_slice(net_conn_output(conn), (struct slice){words.data, words.len});
	buffer_free(&words);
	return any;
}

struct net_kind intake_callbacks(struct worker *worker, const struct worker_protocol *protocol,
                                 bool secure)
{
	return (struct net_kind){
	    .open = on_open,
	    .data = on_data,
	    .close = on_client_close,
	    .stop = protocol->codec->stop ? on_stop : NULL,
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
