#include "server/waiting/pending.h"

#include <stdlib.h>

#include "server/requests/handle.h"
#include "server/waiting/undo.h"

/* The bytes that the heap adds to three allocations. */
#define ALLOCATIONS 48

static void count_held(const struct pending *pending)
{
	atomic_store_explicit(&pending->decider->metrics->held, pending->due.count,
	                      memory_order_relaxed);
}

void pending_count(struct decider *decider, uint64_t wait_ns)
{
	metrics_observe(decider->metrics, METRICS_WAIT, wait_ns, 1);
}

/* Whether its plan is kept until it is answered. */
static bool keeps_plan(const struct held *held)
{
	return held->owner && held->owner->give_back;
}

void pending_name(struct held *held, const struct decider *decider, const struct work *work)
{
	held->stream = work->stream;
	held->sender = decider->config->users ? work->plan.sender : 0;
}

static void append(const struct pending *pending, struct held *held)
{
	list_append(&client_of(held->conn)->held, &held->of_client);
	held->config = server_config_take(pending->decider->config);
	net_conn_add_pending(held->conn, held->size);
}

static void unlink_held(struct held *held)
{
	list_remove(&client_of(held->conn)->held, &held->of_client);
	net_conn_remove_pending(held->conn, held->size);
}

void pending_free(struct held *held)
{
	if (!held)
		return;
	buffer_free(&held->reply);
	held->conn = NULL;
	if (held->at_store > 0)
		return;
	free(held->taken);
	arena_free(&held->arena);
	server_config_drop(held->config);
	if (held->owner)
		held->owner->release(held);
	else
		free(held);
}

/* It waits no more. */
static void unheap(struct pending *pending, struct held *held)
{
	heap_remove(&pending->due, &held->node);
	held->kind = NULL;
}

static void finish(struct pending *pending, struct held *held)
{
	unheap(pending, held);
	count_held(pending);
}

bool pending_add(struct pending *pending, struct held *held, const struct held_kind *kind,
                 struct net_conn *conn, uint64_t due_ns)
{
	held->node.due = due_ns;
	held->conn = conn;
	held->kind = kind;
	if (!heap_add(&pending->due, &held->node))
		return false;
	append(pending, held);
	count_held(pending);
	return true;
}

void pending_remove(struct pending *pending, struct held *held)
{
	finish(pending, held);
	unlink_held(held);
}

/* The oldest work of a connection that has no answer, or NULL. */
static struct held *first_of(struct net_conn *conn)
{
	return list_of(client_of(conn)->held.first, struct held, of_client);
}

bool pending_is_next(const struct held *held)
{
	return first_of(held->conn) == held || conn_streams(held->conn);
}

void pending_put_off(struct pending *pending, struct held *held, uint64_t due_ns)
{
	heap_remove(&pending->due, &held->node);
	held->node.due = due_ns;
	heap_add(&pending->due, &held->node); /* where it just was there is room */
}

void pending_grow(struct held *held, size_t bytes)
{
	if (bytes == 0)
		return;
	held->size += bytes;
	net_conn_grow_pending(held->conn, bytes);
}

void pending_send(struct net_conn *conn, struct slice answers)
{
	if (__builtin_expect(conn_streams(conn), 0))
		protocol_of(conn)->codec->send(client_of(conn)->session, answers, net_conn_output(conn));
	else if (answers.len > 0)
		buffer_add_slice(net_conn_output(conn), answers);
}

static void write_answer(struct held *held)
{
	pending_send(held->conn, (struct slice){held->reply.data, held->reply.len});
	unlink_held(held);
	pending_free(held);
}

/* Writes what may be written now that `held` is done. */
static void write_done(struct held *held)
{
	struct net_conn *conn = held->conn;

	if (conn_streams(conn)) {
		write_answer(held);
		return;
	}
	while ((held = first_of(conn)) && !held->kind)
		write_answer(held);
}

/*
 * Of a waiting batch, returns what its waiting items took, and items whose permits no client
 * knows yet. The other items have started.
 */
static size_t taken_of(const struct work *work, const struct reply *reply,
                       struct engine_taken *taken)
{
	size_t n = 0, count;
	const struct work *items = items_of(work, &count);

	if (work->status == WEIR_OK && algo_op_takes(work->plan.op))
		n = engine_taken(&work->plan, taken);
	for (size_t i = 0; i < count; i++) {
		const struct reply *item = &reply->items[i];

		if (reply->wait_ns == 0 || item->wait_ns > 0 || item->permit.len > 0)
			n += taken_of(&items[i], item, taken ? taken + n : NULL);
	}
	return n;
}

/* Renders the answer, and notes what it took. False: no memory. */
static bool fill(struct pending *pending, struct held *held, const struct work *work,
                 struct reply *reply)
{
	held->wait_ns = reply->wait_ns;
	held->decided = ++pending->decisions;
	held->taken_count = keeps_plan(held) ? 0 : taken_of(work, reply, NULL);
	if (held->taken_count > 0) {
		held->taken = calloc(held->taken_count, sizeof *held->taken);
		if (!held->taken)
			return false;
		taken_of(work, reply, held->taken);
	}
	handle_reply(pending->decider, work, reply, &held->reply);
	buffer_trim(&held->reply);
	return !held->reply.failed;
}

static void give_answer(struct pending *pending, struct held *held, uint64_t now_ns)
{
	pending_count(pending->decider, held->wait_ns + now_ns - held->node.due);
	finish(pending, held);
	write_done(held);
}

static const struct held_kind start_kind = {give_answer, NULL};

static uint64_t start_of(const struct pending *pending, const struct reply *reply)
{
	return clock_monotonic(engine_clock(pending->decider->shared->table),
	                       pending->decider->context.at.now_ns) +
	       reply->wait_ns;
}

/* Counts a request that is decided. */
static void count_request(struct pending *pending, const struct work *work)
{
	if (work->kind != REQUEST_INTERIM)
		metrics_add(&pending->decider->metrics->requests[protocol_of(work->conn)->metric], 1);
}

/* Without memory for one answer, those behind it could not be given in order. */
static void let_go(struct pending *pending, struct net_conn *conn)
{
	pending_cancel(pending, conn);
	net_conn_finish(conn);
}

/* let_go gives back what was not answered yet. */
static void fail(struct pending *pending, struct held *held, struct work *work)
{
	if (!keeps_plan(held))
		undo_all(pending->decider, work);
	let_go(pending, held->conn);
}

/* Counts the memory that it keeps now. */
static void resize(struct held *held, size_t size)
{
	net_conn_remove_pending(held->conn, held->size);
	held->size = size;
	net_conn_add_pending(held->conn, size);
}

/* Without a copy. False: no memory. */
static bool write_now(struct pending *pending, struct held *held, struct work *work,
                      struct reply *reply)
{
	struct buffer *out = net_conn_output(held->conn);
	size_t len = out->len;

	handle_reply(pending->decider, work, reply, out);
	if (!out->failed)
		return true;
	out->failed = false;
	out->len = len;
	return false;
}

void pending_decided(struct pending *pending, struct held *held, struct work *work,
                     struct reply *reply)
{
	count_request(pending, work);
	if (reply->wait_ns == 0 && first_of(held->conn) == held && !conn_streams(held->conn)) {
		if (!write_now(pending, held, work, reply)) {
			fail(pending, held, work);
			return;
		}
		finish(pending, held);
		write_done(held);
		return;
	}
	if (!fill(pending, held, work, reply)) {
		fail(pending, held, work);
		return;
	}
	resize(held, held->size + held->reply.capacity);
	if (reply->wait_ns > 0) {
		held->kind = &start_kind;
		pending_put_off(pending, held, start_of(pending, reply));
	} else {
		finish(pending, held);
		write_done(held);
	}
}

/* False: no memory. */
static bool keep(struct pending *pending, struct work *work, struct reply *reply)
{
	struct held *held = calloc(1, sizeof *held);

	if (!held || !fill(pending, held, work, reply)) {
		pending_free(held);
		return false;
	}
	held->size =
	    sizeof *held + held->reply.capacity + held->taken_count * sizeof *held->taken + ALLOCATIONS;
	held->conn = work->conn;
	pending_name(held, pending->decider, work);
	if (reply->wait_ns == 0)
		append(pending, held);
	else if (!pending_add(pending, held, &start_kind, work->conn, start_of(pending, reply))) {
		pending_free(held);
		return false;
	}
	return true;
}

void pending_answer(struct pending *pending, struct work *work, struct reply *reply)
{
	bool behind = client_of(work->conn)->held.first && !conn_streams(work->conn);
	size_t len;

	count_request(pending, work);
	if (reply->wait_ns > 0 || behind) {
		if (keep(pending, work, reply))
			return;
		undo_all(pending->decider, work);
		if (behind) {
			let_go(pending, work->conn);
			return;
		}
	}
	len = pending->out.len;
	handle_reply(pending->decider, work, reply, &pending->out);
	if (pending->out.failed) {
		pending->out.len = len;
		pending->out.failed = false;
		undo_all(pending->decider, work);
		let_go(pending, work->conn);
	}
}

/* Takes it from its client. */
static void take(struct pending *pending, struct held *held)
{
	if (held->kind) {
		metrics_add(&pending->decider->metrics->cancelled, 1);
		if (held->kind->cancel)
			held->kind->cancel(pending, held);
		unheap(pending, held);
	}
	unlink_held(held);
}

/* Takes it, and puts it into a list of those that were taken, of which the first was decided last.
 */
static void move(struct pending *pending, struct held *held, struct list *taken)
{
	struct list_node *at = taken->first;

	take(pending, held);
	while (at && list_of(at, struct held, of_client)->decided > held->decided)
		at = at->next;
	list_insert(taken, &held->of_client, at);
}

/* What all of a list took goes back, at this moment. */
static void give_back(struct pending *pending, struct list *taken)
{
	decider_read_clock(pending->decider);
	LIST_EACH(taken, struct held, of_client, held)
	{
		if (keeps_plan(held))
			held->owner->give_back(held);
		for (size_t i = held->taken_count; i > 0; i--)
			engine_give_back(&pending->decider->context, held->config->engine, &held->taken[i - 1]);
		pending_free(held);
	}
	count_held(pending); /* now that nothing of theirs is taken any more */
}

void pending_cancel(struct pending *pending, struct net_conn *conn)
{
	struct list taken = {0};
	struct held *held;

	while ((held = first_of(conn)))
		move(pending, held, &taken);
	give_back(pending, &taken);
}

bool pending_cancel_stream(struct pending *pending, struct net_conn *conn, unsigned stream)
{
	struct list taken = {0};

	LIST_EACH(&client_of(conn)->held, struct held, of_client, held)
	if (held->stream == stream) {
		move(pending, held, &taken);
		give_back(pending, &taken);
		return true;
	}
	return false;
}

static bool has_sender(const struct pending *pending, const struct held *held)
{
	const struct users *users = pending->decider->config->users, *before = held->config->users;

	return !users || users_find(users, before->items[held->sender - 1].id);
}

void pending_end_senders(struct pending *pending)
{
	const struct held *last = NULL; /* many that wait have the same user */
	bool stays = true;

	for (size_t i = 0; i < pending->due.count; i++) {
		struct held *held = (struct held *)pending->due.nodes[i];

		if (!held->sender || held->config == pending->decider->config)
			continue;
		if (!last || last->config != held->config || last->sender != held->sender)
			stays = has_sender(pending, held);
		last = held;
		if (!stays)
			net_conn_abort(held->conn); /* its end comes later, and gives back what it took */
	}
}

void pending_run(struct pending *pending)
{
	uint64_t now_ns = pending->due.count > 0 ? os_monotonic_ns() : 0;
	struct heap_node *first;

	while ((first = heap_first(&pending->due)) && first->due <= now_ns) {
		struct held *held = (struct held *)first;

		if (net_conn_peer_has_left(held->conn))
			let_go(pending, held->conn);
		else
			held->kind->due(pending, held, now_ns);
	}
}

uint64_t pending_due(const struct pending *pending)
{
	const struct heap_node *first = heap_first(&pending->due);

	return first && first->due != PENDING_NEVER ? first->due : 0;
}

void pending_give_up(struct pending *pending)
{
	uint64_t last_ns = os_monotonic_ns() + pending->stop_ns;
	struct heap *holds = &pending->due;
	size_t sorted = 0;

	/* By the newest start, which is the only one of its key that can be given back. */
	for (;;) {
		size_t n = holds->count;

		if (n != sorted)
			heap_sort(holds);
		while (n > 0 && holds->nodes[n - 1]->due == PENDING_NEVER) /* stores tell soon */
			n--;
		if (n == 0 || holds->nodes[n - 1]->due <= last_ns)
			break;
		sorted = holds->count - 1;
		let_go(pending, ((struct held *)holds->nodes[n - 1])->conn);
	}
}
