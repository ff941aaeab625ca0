#include "server/hold.h"

#include <stdlib.h>

#include "server/handle.h"

static void count_held(const struct worker *worker)
{
	struct metrics_loop *metrics = metrics_loop(worker->shared->metrics, worker->index);

	atomic_store_explicit(&metrics->held, worker->holds.count, memory_order_relaxed);
}

bool hold_open(struct worker *worker, struct hold *hold, const struct hold_kind *kind,
               struct net_conn *conn, uint64_t due_ns)
{
	*hold = (struct hold){.node = {.due = due_ns}, .conn = conn, .kind = kind};
	if (!heap_add(&worker->holds, &hold->node))
		return false;
	((struct client *)net_conn_data(conn))->hold = hold;
	count_held(worker);
	net_conn_hold(conn);
	return true;
}

void hold_put_off(struct worker *worker, struct hold *hold, uint64_t due_ns)
{
	heap_remove(&worker->holds, &hold->node);
	hold->node.due = due_ns;
	heap_add(&worker->holds, &hold->node); /* where it just was there is room */
}

void hold_close(struct worker *worker, struct hold *hold)
{
	heap_remove(&worker->holds, &hold->node);
	((struct client *)net_conn_data(hold->conn))->hold = NULL;
	count_held(worker);
}

void hold_run(struct worker *worker)
{
	uint64_t now_ns = worker->holds.count > 0 ? os_monotonic_ns() : 0;
	struct heap_node *first;

	while ((first = heap_first(&worker->holds)) && first->due <= now_ns) {
		struct hold *hold = (struct hold *)first;

		if (net_conn_is_gone(hold->conn))
			hold_cancel(worker, hold);
		else
			hold->kind->due(worker, hold, now_ns);
	}
	net_loop_alarm(worker->loop, first ? first->due : 0);
}

void hold_cancel(struct worker *worker, struct hold *hold)
{
	hold->kind->cancel(worker, hold);
	metrics_add(&metrics_loop(worker->shared->metrics, worker->index)->cancelled, 1);
}

void hold_give_up(struct worker *worker)
{
	uint64_t last_ns = os_monotonic_ns() + worker->stop_ns;
	struct heap *holds = &worker->holds;

	heap_sort(holds); /* the newest turn is the only one that can be given back */
	while (holds->count > 0 && holds->nodes[holds->count - 1]->due > last_ns) {
		struct hold *hold = (struct hold *)holds->nodes[holds->count - 1];
		struct net_conn *conn = hold->conn;

		hold_cancel(worker, hold);
		net_conn_finish(conn);
		net_conn_release(conn);
	}
}

void hold_count(struct worker *worker, uint64_t wait_ns)
{
	metrics_observe(metrics_loop(worker->shared->metrics, worker->index), METRICS_WAIT, wait_ns, 1);
}

/* An answer that is decided, but for its turn. */
struct answer {
	struct hold hold; /* first */
	uint64_t wait_ns;
	struct buffer reply;
	size_t taken_count;
	struct engine_taken taken[];
};

/*
 * Of a batch what its waiting items took, and those whose permits nobody knows yet:
 * the others had their turns.
 */
static size_t taken_of(const struct work *work, struct engine_taken *taken)
{
	size_t n = 0;

	if (work->item_count == 0)
		return engine_taken(&work->plan, taken);
	for (size_t i = 0; i < work->item_count; i++)
		if (work->items[i].wait_ns > 0 || work->items[i].reply.permit.len > 0)
			n += engine_taken(&work->items[i].plan, taken ? taken + n : NULL);
	return n;
}

static void free_answer(struct answer *answer)
{
	if (answer)
		buffer_free(&answer->reply);
	free(answer);
}

static void give_answer(struct worker *worker, struct hold *hold, uint64_t now_ns)
{
	struct answer *answer = (struct answer *)hold;

	buffer_add(net_conn_out(hold->conn), answer->reply.data, answer->reply.len);
	net_conn_release(hold->conn);
	hold_count(worker, answer->wait_ns + now_ns - hold->node.due);
	hold_close(worker, hold);
	free_answer(answer);
}

static void cancel_answer(struct worker *worker, struct hold *hold)
{
	struct answer *answer = (struct answer *)hold;

	worker->turn.at = clock_moment(&worker->shared->table->clock);
	/* The newest first: of turns no other can be given back. */
	for (size_t i = answer->taken_count; i > 0; i--)
		engine_give_back(&worker->turn, worker->config->engine, &answer->taken[i - 1]);
	hold_close(worker, hold);
	free_answer(answer);
}

static const struct hold_kind answer_kind = {give_answer, cancel_answer};

bool hold_answer(struct worker *worker, struct work *work)
{
	const struct clock *clock = &worker->shared->table->clock;
	struct client *client = net_conn_data(work->conn);
	size_t n = taken_of(work, NULL);
	struct answer *answer = calloc(1, sizeof *answer + n * sizeof *answer->taken);

	if (answer) {
		answer->wait_ns = work->wait_ns;
		answer->taken_count = taken_of(work, answer->taken);
		work->protocol->codec->reply(client->session, &work->request, &work->reply, &answer->reply);
	}
	if (!answer || answer->reply.failed ||
	    !hold_open(worker, &answer->hold, &answer_kind, work->conn,
	               clock_monotonic(clock, worker->turn.at.now_ns) + work->wait_ns)) {
		free_answer(answer);
		handle_no_memory(worker, work);
		return false;
	}
	return true;
}
