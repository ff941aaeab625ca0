#include "server/hold.h"

#include <stdlib.h>

struct hold {
	struct heap_node node; /* due by the monotonic clock */
	struct net_conn *conn;
	uint64_t wait_ns;
	struct buffer reply;
	size_t taken_count;
	struct engine_taken taken[];
};

_Static_assert(offsetof(struct hold, node) == 0, "a node of the heap is its hold");

/* Of a batch what its waiting items took: the others had their turns. */
static size_t taken_of(const struct work *work, struct engine_taken *taken)
{
	size_t n = 0;

	if (work->item_count == 0)
		return engine_taken(&work->engine, taken);
	for (size_t i = 0; i < work->item_count; i++)
		if (work->items[i].wait_ns > 0)
			n += engine_taken(&work->items[i].engine, taken ? taken + n : NULL);
	return n;
}

static void count_held(const struct worker *worker)
{
	struct metrics_loop *metrics = metrics_loop(worker->shared->metrics, worker->index);

	atomic_store_explicit(&metrics->held, worker->holds.count, memory_order_relaxed);
}

static void close_hold(struct worker *worker, struct hold *hold)
{
	heap_remove(&worker->holds, &hold->node);
	count_held(worker);
	((struct client *)net_conn_data(hold->conn))->hold = NULL;
	buffer_free(&hold->reply);
	free(hold);
}

bool hold_answer(struct worker *worker, struct work *work)
{
	const struct clock *clock = &worker->shared->table->clock;
	struct client *client = net_conn_data(work->conn);
	size_t n = taken_of(work, NULL);
	struct hold *hold = calloc(1, sizeof *hold + n * sizeof *hold->taken);

	if (hold) {
		hold->conn = work->conn;
		hold->wait_ns = work->wait_ns;
		hold->node.due = clock_monotonic(clock, worker->at.now_ns) + work->wait_ns;
		hold->taken_count = taken_of(work, hold->taken);
		work->protocol->codec->reply(client->session, &work->request, &work->reply, &hold->reply);
	}
	if (!hold || hold->reply.failed || !heap_add(&worker->holds, &hold->node)) {
		if (hold)
			buffer_free(&hold->reply);
		free(hold);
		work->reply.status = WEIR_ENOMEM;
		work->reply.message = weir_strerror(WEIR_ENOMEM);
		return false;
	}
	count_held(worker);
	client->hold = hold;
	net_conn_hold(work->conn);
	return true;
}

void hold_release(struct worker *worker)
{
	struct metrics_loop *metrics = metrics_loop(worker->shared->metrics, worker->index);
	uint64_t now_ns = worker->holds.count > 0 ? os_monotonic_ns() : 0;
	struct heap_node *first;

	while ((first = heap_first(&worker->holds)) && first->due <= now_ns) {
		struct hold *hold = (struct hold *)first;

		buffer_add(net_conn_out(hold->conn), hold->reply.data, hold->reply.len);
		net_conn_release(hold->conn);
		metrics_observe(metrics, METRICS_WAIT, hold->wait_ns + now_ns - first->due, 1);
		close_hold(worker, hold);
	}
	net_loop_alarm(worker->loop, first ? first->due : 0);
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

/*
 * Between two turns no configuration is looked at, but the shared one is not freed
 * before this worker has finished another.
 */
void hold_cancel(struct worker *worker, struct hold *hold)
{
	const struct server_config *config =
	    atomic_load_explicit(&worker->shared->config, memory_order_acquire);
	struct moment now = clock_moment(&worker->shared->table->clock);

	/* The newest first: of turns no other can be given back. */
	for (size_t i = hold->taken_count; i > 0; i--)
		engine_give_back(worker->shared->table, config->engine, &hold->taken[i - 1], now);
	metrics_add(&metrics_loop(worker->shared->metrics, worker->index)->cancelled, 1);
	close_hold(worker, hold);
}
