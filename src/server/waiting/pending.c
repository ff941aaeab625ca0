/*
 * pending.c: writes answers to each connection in the order of its requests; with HTTP/2 each as
 * soon as it is done. It stores an answer that is ready while an earlier request still waits, and
 * an answer that may not be sent before the time at which a limit lets its request start. It
 * cancels the requests of a connection or stream that ends, and returns what they were charged.
 *
 * An unanswered work is a request whose answer is not written yet: its client lists it, and while
 * it waits it also stands in the worker's heap by its due time. `kind` says what it waits for.
 */
#include "server/waiting/pending.h"

#include <stdlib.h>

#include "server/requests/handle.h"
#include "server/waiting/rollback.h"

/* The bytes that malloc adds to the three allocations of a stored answer. */
#define MALLOC_BYTES 48

/* Sets the metric of requests that wait. */
static void publish_waiting_count(const struct pending *pending)
{
	atomic_store_explicit(&pending->decider->metrics->pending_answers, pending->due.count,
	                      memory_order_relaxed);
}

void pending_count_wait(struct decider *decider, uint64_t wait_ns)
{
	metrics_observe(decider->metrics, METRICS_WAIT, wait_ns, 1);
}

/*
 * Whether the work's plan lasts until its answer is written, so that it can refund its own charges.
 * Otherwise `refundable` lists them.
 */
static bool plan_can_refund(const struct unanswered *unanswered)
{
	return unanswered->owner && unanswered->owner->refund;
}

void pending_identify(struct unanswered *unanswered, const struct decider *decider,
                      const struct work *work)
{
	unanswered->stream = work->stream;
	unanswered->sender_number = decider->config->users ? work->plan.sender : 0;
}

static void append_to_client(const struct pending *pending, struct unanswered *unanswered)
{
	list_append(&client_of(unanswered->conn)->unanswered, &unanswered->client_node);
	unanswered->config = server_config_retain(pending->decider->config);
	net_conn_add_pending(unanswered->conn, unanswered->charged_bytes);
}

static void unlink_from_client(struct unanswered *unanswered)
{
	list_remove(&client_of(unanswered->conn)->unanswered, &unanswered->client_node);
	net_conn_remove_pending(unanswered->conn, unanswered->charged_bytes);
}

/*
 * Frees no more than the reply while a store or a run of the work uses the memory (`use_count`):
 * the last such user calls this again. An owner has allocated the work, and frees it.
 */
void pending_free(struct unanswered *unanswered)
{
	if (!unanswered)
		return;
	buffer_free(&unanswered->reply);
	unanswered->conn = NULL;
	if (unanswered->use_count > 0)
		return;
	free(unanswered->refundable);
	arena_free(&unanswered->arena);
	server_config_release(unanswered->config);
	if (unanswered->owner)
		unanswered->owner->release(unanswered);
	else
		free(unanswered);
}

/* The work waits for nothing any more: `kind` is NULL. */
static void end_wait(struct pending *pending, struct unanswered *unanswered)
{
	heap_remove(&pending->due, &unanswered->due_node);
	unanswered->kind = NULL;
}

/* The work is decided, and its answer may be written. */
static void mark_done(struct pending *pending, struct unanswered *unanswered)
{
	end_wait(pending, unanswered);
	publish_waiting_count(pending);
}

bool pending_add(struct pending *pending, struct unanswered *unanswered,
                 const struct unanswered_kind *kind, struct net_conn *conn, uint64_t due_ns)
{
	unanswered->due_node.due = due_ns;
	unanswered->conn = conn;
	unanswered->kind = kind;
	if (!heap_add(&pending->due, &unanswered->due_node))
		return false;
	append_to_client(pending, unanswered);
	publish_waiting_count(pending);
	return true;
}

void pending_remove(struct pending *pending, struct unanswered *unanswered)
{
	mark_done(pending, unanswered);
	unlink_from_client(unanswered);
}

/* The oldest unanswered work of a connection, or NULL. */
static struct unanswered *first_unanswered(struct net_conn *conn)
{
	return list_of(client_of(conn)->unanswered.first, struct unanswered, client_node);
}

bool pending_is_next(const struct unanswered *unanswered)
{
	return first_unanswered(unanswered->conn) == unanswered ||
	       conn_answers_in_any_order(unanswered->conn);
}

void pending_reschedule(struct pending *pending, struct unanswered *unanswered, uint64_t due_ns)
{
	heap_remove(&pending->due, &unanswered->due_node);
	unanswered->due_node.due = due_ns;
	heap_add(&pending->due, &unanswered->due_node); /* can't fail: an element was just removed */
}

void pending_grow(struct unanswered *unanswered, size_t bytes)
{
	if (bytes == 0)
		return;
	unanswered->charged_bytes += bytes;
	net_conn_grow_pending(unanswered->conn, bytes);
}

void pending_send(struct net_conn *conn, struct slice answers)
{
	if (__builtin_expect(conn_answers_in_any_order(conn), 0))
		protocol_of(conn)->codec->frame_answers(client_of(conn)->session, answers,
		                                        net_conn_output(conn));
	else if (answers.len > 0)
		buffer_add_slice(net_conn_output(conn), answers);
}

static void write_answer(struct unanswered *unanswered)
{
	pending_send(unanswered->conn, (struct slice){unanswered->reply.data, unanswered->reply.len});
	unlink_from_client(unanswered);
	pending_free(unanswered);
}

/*
 * Called when `unanswered` is done: writes its answer, unless older requests of the connection are
 * unanswered, and those of newer requests that have waited for it.
 */
static void write_finished(struct unanswered *unanswered)
{
	struct net_conn *conn = unanswered->conn;

	if (conn_answers_in_any_order(conn)) {
		write_answer(unanswered);
		return;
	}
	while ((unanswered = first_unanswered(conn)) && !unanswered->kind)
		write_answer(unanswered);
}

/*
 * Lists in `charges`, unless that is NULL, the charges to give back if the answer is cancelled, and
 * returns their number.
 */
static size_t list_refundable_charges(const struct work *work, const struct reply *reply,
                                      struct engine_charge *charges)
{
	size_t n = 0, count;
	const struct work *items = items_of(work, &count);

	if (work->status == WEIR_OK && algo_op_consumes(work->plan.op))
		n = engine_list_charges(&work->plan, charges);
	for (size_t i = 0; i < count; i++) {
		const struct reply *item = &reply->items[i];

		if (!rollback_item_has_started(item, reply->wait_ns))
			n += list_refundable_charges(&items[i], item, charges ? charges + n : NULL);
	}
	return n;
}

/* Renders the answer for later, and lists its charges. Returns false if memory is short. */
static bool render_answer(struct pending *pending, struct unanswered *unanswered,
                          const struct work *work, struct reply *reply)
{
	unanswered->wait_ns = reply->wait_ns;
	unanswered->decision_number = ++pending->decision_count;
	/* counts the charges first, without a list */
	unanswered->refundable_count =
	    plan_can_refund(unanswered) ? 0 : list_refundable_charges(work, reply, NULL);
	if (unanswered->refundable_count > 0) {
		unanswered->refundable =
		    calloc(unanswered->refundable_count, sizeof *unanswered->refundable);
		if (!unanswered->refundable)
			return false;
		list_refundable_charges(work, reply, unanswered->refundable);
	}
	handle_render_reply(pending->decider, work, reply, &unanswered->reply);
	buffer_trim(&unanswered->reply);
	return !unanswered->reply.failed;
}

/* The callback `due` of a work whose answer was delayed until it may start. */
static void answer_at_start(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	pending_count_wait(pending->decider, unanswered->wait_ns + now_ns - unanswered->due_node.due);
	mark_done(pending, unanswered);
	write_finished(unanswered);
}

static const struct unanswered_kind waits_for_start = {answer_at_start, NULL};

/* Returns when the work may start: `wait_ns` after its decision, by the monotonic clock. */
static uint64_t start_of_work_ns(const struct pending *pending, const struct reply *reply)
{
	return clock_monotonic(engine_clock(pending->decider->shared->table),
	                       pending->decider->context.at.now_ns) +
	       reply->wait_ns;
}

static void count_request(struct pending *pending, const struct work *work)
{
	if (work->kind != REQUEST_INTERIM)
		metrics_add(&pending->decider->metrics->requests[protocol_of(work->conn)->metric], 1);
}

/* Without memory for one answer, later answers of the connection could not be given in order. */
static void cancel_and_close(struct pending *pending, struct net_conn *conn)
{
	pending_cancel(pending, conn);
	net_conn_finish(conn);
}

/* For want of memory. cancel_and_close also gives back the charges of works with a plan. */
static void fail_unanswered(struct pending *pending, struct unanswered *unanswered,
                            struct work *work)
{
	if (!plan_can_refund(unanswered))
		rollback_out_of_memory(pending->decider, work);
	cancel_and_close(pending, unanswered->conn);
}

/* Charges the connection for the memory that the work takes now. */
static void set_charged_bytes(struct unanswered *unanswered, size_t size)
{
	net_conn_remove_pending(unanswered->conn, unanswered->charged_bytes);
	unanswered->charged_bytes = size;
	net_conn_add_pending(unanswered->conn, size);
}

/* Renders the answer into the connection's output, without a copy. Returns false if memory is
 * short. */
static bool render_into_output(struct pending *pending, struct unanswered *unanswered,
                               struct work *work, struct reply *reply)
{
	struct buffer *out = net_conn_output(unanswered->conn);
	size_t len = out->len;

	handle_render_reply(pending->decider, work, reply, out);
	if (!out->failed)
		return true;
	out->failed = false;
	out->len = len;
	return false;
}

/* Writes the answer, or stores it behind older requests or until the work may start. */
void pending_answer_suspended(struct pending *pending, struct unanswered *unanswered,
                              struct work *work, struct reply *reply)
{
	/* an answer of HTTP/2 is framed first (pending_send) */
	bool goes_to_output = reply->wait_ns == 0 && first_unanswered(unanswered->conn) == unanswered &&
	                      !conn_answers_in_any_order(unanswered->conn);
	bool is_rendered;

	count_request(pending, work);
	is_rendered = goes_to_output ? render_into_output(pending, unanswered, work, reply)
	                             : render_answer(pending, unanswered, work, reply);
	if (!is_rendered) {
		fail_unanswered(pending, unanswered, work);
		return;
	}
	if (!goes_to_output)
		set_charged_bytes(unanswered, unanswered->charged_bytes + unanswered->reply.capacity);
	if (reply->wait_ns > 0) {
		unanswered->kind = &waits_for_start;
		pending_reschedule(pending, unanswered, start_of_work_ns(pending, reply));
	} else {
		mark_done(pending, unanswered);
		write_finished(unanswered); /* writes nothing of this work if its answer is in the output */
	}
}

/* Stores the answer for later. Returns false if memory is short. */
static bool store_answer(struct pending *pending, struct work *work, struct reply *reply)
{
	struct unanswered *unanswered = calloc(1, sizeof *unanswered);

	if (!unanswered || !render_answer(pending, unanswered, work, reply)) {
		pending_free(unanswered);
		return false;
	}
	unanswered->charged_bytes = sizeof *unanswered + unanswered->reply.capacity +
	                            unanswered->refundable_count * sizeof *unanswered->refundable +
	                            MALLOC_BYTES;
	unanswered->conn = work->conn;
	pending_identify(unanswered, pending->decider, work);
	if (reply->wait_ns == 0)
		append_to_client(pending, unanswered);
	else if (!pending_add(pending, unanswered, &waits_for_start, work->conn,
	                      start_of_work_ns(pending, reply))) {
		pending_free(unanswered);
		return false;
	}
	return true;
}

/* Renders the answer behind those of the intake, which are written together. */
static void append_to_answers(struct pending *pending, struct work *work, struct reply *reply)
{
	size_t len = pending->answers.len;

	handle_render_reply(pending->decider, work, reply, &pending->answers);
	if (pending->answers.failed) {
		pending->answers.len = len;
		pending->answers.failed = false;
		rollback_out_of_memory(pending->decider, work);
		cancel_and_close(pending, work->conn);
	}
}

void pending_answer_new(struct pending *pending, struct work *work, struct reply *reply)
{
	bool is_behind_others =
	    client_of(work->conn)->unanswered.first && !conn_answers_in_any_order(work->conn);

	count_request(pending, work);
	if (reply->wait_ns > 0 || is_behind_others) {
		if (store_answer(pending, work, reply))
			return;
		rollback_out_of_memory(pending->decider, work); /* makes the answer an error */
		if (is_behind_others) {
			cancel_and_close(pending, work->conn);
			return;
		}
	}
	append_to_answers(pending, work, reply);
}

/* Removes a cancelled work from its client's list and the heap. */
static void detach_work(struct pending *pending, struct unanswered *unanswered)
{
	if (unanswered->kind) {
		metrics_add(&pending->decider->metrics->cancelled, 1);
		if (unanswered->kind->cancel)
			unanswered->kind->cancel(pending, unanswered);
		end_wait(pending, unanswered);
	}
	unlink_from_client(unanswered);
}

/* Moves a cancelled work to a list that is sorted by decision, the newest first. */
static void detach_by_decision(struct pending *pending, struct unanswered *unanswered,
                               struct list *detached)
{
	struct list_node *older = detached->first;

	detach_work(pending, unanswered);
	while (older && list_of(older, struct unanswered, client_node)->decision_number >
	                    unanswered->decision_number)
		older = older->next;
	list_insert(detached, &unanswered->client_node, older);
}

/* Gives back the charges of all works of a list, at the present time. */
static void refund_detached(struct pending *pending, struct list *detached)
{
	decider_read_clock(pending->decider);
	LIST_EACH (detached, struct unanswered, client_node, unanswered) {
		if (plan_can_refund(unanswered))
			unanswered->owner->refund(unanswered);
		for (size_t i = unanswered->refundable_count; i > 0; i--) /* the newest charge first */
			engine_refund_charge(&pending->decider->context, unanswered->config->engine,
			                     &unanswered->refundable[i - 1]);
		pending_free(unanswered);
	}
	/* only after the refunds: a test or operator that sees the new number finds them done */
	publish_waiting_count(pending);
}

void pending_cancel(struct pending *pending, struct net_conn *conn)
{
	struct list detached = {0};
	struct unanswered *unanswered;

	while ((unanswered = first_unanswered(conn)))
		detach_by_decision(pending, unanswered, &detached);
	refund_detached(pending, &detached);
}

bool pending_cancel_stream(struct pending *pending, struct net_conn *conn, unsigned stream)
{
	struct list detached = {0};

	LIST_EACH (&client_of(conn)->unanswered, struct unanswered, client_node, unanswered)
		if (unanswered->stream == stream) {
			detach_by_decision(pending, unanswered, &detached);
			refund_detached(pending, &detached);
			return true;
		}
	return false;
}

/* Whether the user that sent the work is still a user after a reload. */
static bool still_has_sender(const struct pending *pending, const struct unanswered *unanswered)
{
	const struct users *users = pending->decider->config->users,
	                   *old_users = unanswered->config->users;

	return !users || users_find(users, old_users->items[unanswered->sender_number - 1].id);
}

/* Called after a reload, for requests that wait. */
void pending_close_removed_senders(struct pending *pending)
{
	const struct unanswered *last = NULL; /* consecutive works often have the same user */
	bool has_sender = true;

	for (size_t i = 0; i < pending->due.count; i++) {
		struct unanswered *unanswered = (struct unanswered *)pending->due.nodes[i];

		if (!unanswered->sender_number || unanswered->config == pending->decider->config)
			continue;
		if (!last || last->config != unanswered->config ||
		    last->sender_number != unanswered->sender_number)
			has_sender = still_has_sender(pending, unanswered);
		last = unanswered;
		if (!has_sender) /* on_client_close is called later, and gives back the charges */
			net_conn_abort(unanswered->conn);
	}
}

void pending_run(struct pending *pending)
{
	uint64_t now_ns = pending->due.count > 0 ? os_monotonic_ns() : 0;
	struct heap_node *first;

	while ((first = heap_first(&pending->due)) && first->due <= now_ns) {
		struct unanswered *unanswered = (struct unanswered *)first;

		if (net_conn_peer_has_left(unanswered->conn))
			cancel_and_close(pending, unanswered->conn);
		else
			unanswered->kind->due(pending, unanswered, now_ns);
	}
}

uint64_t pending_due(const struct pending *pending)
{
	const struct heap_node *first = heap_first(&pending->due);

	return first && first->due != PENDING_NEVER ? first->due : 0;
}

/* How many works of the sorted heap have a due time. Those that wait for a store stand last. */
static size_t count_with_due_time(const struct heap *sorted)
{
	size_t n = sorted->count;

	while (n > 0 && sorted->nodes[n - 1]->due == PENDING_NEVER)
		n--;
	return n;
}

/*
 * The server stops: cancels what could not be answered in time, so that clients ask another one.
 * Works that wait for a store remain, because it answers soon.
 */
void pending_abandon_late(struct pending *pending)
{
	uint64_t deadline_ns = os_monotonic_ns() + pending->stop_timeout_ns;
	struct heap *due = &pending->due;
	size_t sorted_count = 0;

	/* Cancel the works that start last first: only the newest start of a key can be refunded. */
	for (;;) {
		size_t n;

		/* a cancellation keeps the order if it has removed only the last work with a due time */
		if (due->count != sorted_count)
			heap_sort(due);
		n = count_with_due_time(due);
		if (n == 0 || due->nodes[n - 1]->due <= deadline_ns)
			break;
		sorted_count = due->count - 1;
		cancel_and_close(pending, ((struct unanswered *)due->nodes[n - 1])->conn);
	}
}
