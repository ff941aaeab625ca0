#include "server/waiting/later.h"

#include "base/os/prefetch.h"
#include "server/admin/count.h"
#include "server/requests/handle.h"
#include "server/stores/fleet.h"
#include "server/stores/reports.h"
#include "server/waiting/order.h"
#include "server/waiting/queue.h"
#include "server/waiting/undo.h"

/* The decider's fields that differ while it runs a parked work. */
struct scene {
	struct server_config *config;
	size_t *at_store;
	void *context;
	struct arena arena;
};

/* It counts until it goes on. On this loop's thread, as its lanes are. */
static void make_ready(struct parked *parked)
{
	list_append(&parked->waiting->ready, &parked->ready);
}

/* The last plan that stores had of it makes it ready: while it runs, others may follow. */
void later_ready(void *context, struct plan *plan)
{
	struct parked *parked = (struct parked *)((char *)context - offsetof(struct parked, decider));

	(void)plan;
	parked->was_told = true;
	if (parked->held.at_store > 1)
		parked->held.at_store--;
	else
		make_ready(parked);
}

/* The replies of a batch may be finished in several turns, so they are in memory of its own. */
static void enter(struct parked *parked, struct scene *saved)
{
	struct decider *decider = parked->decider;

	*saved = (struct scene){decider->config, decider->at_store, decider->turn.context,
	                        decider->arena};
	decider->config = parked->held.config;
	decider->at_store = &parked->held.at_store;
	parked->held.at_store++; /* it must not be ready while it runs */
	parked->was_told = false;
	decider->turn.context = &parked->decider;
	if (parked->work.kind == REQUEST_BATCH)
		decider->arena = parked->held.arena;
}

static void leave(struct parked *parked, const struct scene *saved)
{
	struct decider *decider = parked->decider;

	if (parked->work.kind == REQUEST_BATCH) {
		parked->held.arena = decider->arena;
		decider->arena = saved->arena;
	}
	decider->config = saved->config;
	decider->at_store = saved->at_store;
	decider->turn.context = saved->context;
	if (parked->held.at_store > 1 || !parked->was_told)
		parked->held.at_store--;
	else
		make_ready(parked); /* a store has told at once of all that it was given */
}

/* No requests of the client are taken meanwhile, so none overtakes the items that are not begun. */
void later_split(struct waiting *waiting, struct net_conn *conn)
{
	waiting->splits = true;
	waiting->admission->batches++;
	client_of(conn)->has_split = true;
	net_conn_put_off(conn, NET_AT_WORK, true);
}

static void end_split(struct waiting *waiting, struct net_conn *conn)
{
	if (!client_of(conn)->has_split)
		return;
	waiting->admission->batches--;
	client_of(conn)->has_split = false;
	net_conn_put_off(conn, NET_AT_WORK, false);
}

void later_drop(struct waiting *waiting, struct work *work)
{
	if (work_split(work))
		end_split(waiting, work->conn);
	handle_drop(work);
}

/* A batch with items that are not begun goes on in the next turn. It counts until then. */
static void add_split(struct waiting *waiting, struct parked *parked)
{
	parked->held.at_store++;
	list_append(&waiting->split, &parked->ready);
}

static bool take_split(struct waiting *waiting)
{
	struct parked *parked = list_of(list_take(&waiting->split), struct parked, ready);

	if (parked)
		make_ready(parked);
	return parked;
}

/* A work that waited for its turn among those of its client starts with those that are ready. */
static void start(struct parked *parked)
{
	parked->held.at_store++;
	make_ready(parked);
}

/* In a queue or not. */
static void cancel(struct pending *pending, struct held *held)
{
	struct parked *parked = (struct parked *)held;
	struct waiting *waiting = parked->waiting;

	(void)pending;
	if (work_split(&parked->work))
		end_split(waiting, held->conn);
	queue_leave(waiting, parked);
	order_leave(&waiting->order, parked, start);
}

static void put_off(struct pending *pending, struct held *held, uint64_t now_ns)
{
	(void)now_ns;
	hold_put_off(pending, held, HOLD_NEVER);
}

static void try_again(struct pending *pending, struct held *held, uint64_t now_ns);

static const struct held_kind at_store = {put_off, cancel}, in_queue = {try_again, cancel};

/* False: it is decided, and `reply` is filled. */
static bool goes_on(struct waiting *waiting, struct parked *parked, struct reply *reply)
{
	struct scene saved;
	uint64_t due_ns = HOLD_NEVER;

	size_t used = parked->held.arena.used;
	bool was_split = work_split(&parked->work) != NULL;

	enter(parked, &saved);
	handle_finish(waiting->decider, &parked->work, reply);
	if (!reply->at_store)
		due_ns = queue_stays(waiting, parked, reply);
	leave(parked, &saved);
	hold_grow(&parked->held, parked->held.arena.used - used);
	if (was_split && !work_split(&parked->work))
		end_split(waiting, parked->held.conn);
	else if (was_split && parked->held.at_store == 0)
		add_split(waiting, parked);
	if (reply->at_store)
		order_join(&waiting->order, parked);
	else
		order_leave(&waiting->order, parked, start);
	if (!reply->at_store && !reply->waits)
		return false;
	parked->held.kind = reply->at_store ? &at_store : &in_queue;
	hold_put_off(&waiting->pending, &parked->held, due_ns);
	return true;
}

static void resume(struct waiting *waiting, struct parked *parked)
{
	struct reply reply;

	if (!goes_on(waiting, parked, &reply))
		hold_decided(&waiting->pending, &parked->held, &parked->work, &reply);
}

static void try_again(struct pending *pending, struct held *held, uint64_t now_ns)
{
	struct waiting *waiting = ((struct parked *)held)->waiting;

	decider_read_clock(pending->decider);
	queue_prepare(waiting, (struct parked *)held, now_ns);
	resume(waiting, (struct parked *)held);
	arena_reset(&pending->decider->arena);
}

/* Its memory ends with its answer, or with the last that a store has of it. */
static void give_back(struct held *held)
{
	struct parked *parked = (struct parked *)held;
	struct scene saved;

	enter(parked, &saved);
	undo_untold(parked->decider, &parked->work, held->wait_ns);
	leave(parked, &saved);
}

/* The plan of a work that has been at a store knows what it took. */
static const struct held_owner of_store = {give_back, park_release},
                               of_memory = {NULL, park_release};

bool later_wait(struct waiting *waiting, struct work *work, struct reply *reply)
{
	struct parked *parked = waitlist_make(&waiting->decider->shared->table->waiting)
	                            ? park_open(waiting, work, &in_queue, &of_memory)
	                            : NULL;
	uint64_t due_ns;

	if (!parked) {
		undo_all(waiting->decider, work);
		return false;
	}
	due_ns = queue_stays(waiting, parked, reply);
	if (reply->waits) {
		hold_put_off(&waiting->pending, &parked->held, due_ns);
		return true;
	}
	hold_remove(&waiting->pending, &parked->held);
	hold_free(&parked->held);
	return false;
}

/* Among the answers of the batch: as if it had not been held. */
static void answer_now(struct waiting *waiting, struct parked *parked, struct reply *reply)
{
	struct scene saved;

	hold_remove(&waiting->pending, &parked->held);
	enter(parked, &saved);
	hold_answer(&waiting->pending, &parked->work, reply);
	leave(parked, &saved);
	hold_free(&parked->held);
}

void later_run(struct waiting *waiting, struct work *work)
{
	struct parked *parked = park_open(waiting, work, &at_store, &of_store);
	struct reply reply = {0};

	if (!parked) {
		end_split(waiting, work->conn);
		undo_all(waiting->decider, work);
		hold_answer(&waiting->pending, work, &reply);
		return;
	}
	if (order_waits(&waiting->order, parked) || goes_on(waiting, parked, &reply))
		return;
	if (reply.wait_ns > 0 || !hold_is_next(&parked->held))
		hold_decided(&waiting->pending, &parked->held, &parked->work, &reply);
	else
		answer_now(waiting, parked, &reply);
}

/*
 * Ends a work whose client has left or has its answer. Each plan goes on until it has given back
 * all.
 */
static void end(struct waiting *waiting, struct parked *parked)
{
	struct scene saved;

	enter(parked, &saved);
	undo_go_on(waiting->decider, &parked->work);
	leave(parked, &saved);
	if (!parked->held.conn)
		hold_free(&parked->held);
}

/* One of which a store has something again was given back meanwhile, and becomes ready once more. */
static struct parked *take_ready(struct waiting *waiting)
{
	struct parked *parked;

	do {
		parked = list_of(list_take(&waiting->ready), struct parked, ready);
	} while (parked && --parked->held.at_store > 0);
	return parked;
}

static bool is_undecided(const struct parked *parked)
{
	const struct held *held = &parked->held;

	return held->conn && (held->kind == &at_store || held->kind == &in_queue);
}

void later_resume_ready(struct waiting *waiting)
{
	struct parked *parked;

	if (waiting->ready.first)
		decider_read_clock(waiting->decider);
	while ((parked = take_ready(waiting))) {
		if (waiting->ready.first) /* what stores had is cold */
			prefetch_all(list_of(waiting->ready.first, struct parked, ready), sizeof *parked);
		if (is_undecided(parked))
			resume(waiting, parked);
		else
			end(waiting, parked);
	}
}

void later_go_on(struct waiting *waiting)
{
	for (size_t n = 0; n < LATER_BATCHES && take_split(waiting); n++) {
		metrics_add(&waiting->decider->metrics->continued, 1);
		later_resume_ready(waiting);
		if (net_loop_is_busy(waiting->decider->loop))
			break;
	}
	if (waiting->split.first)
		net_loop_again(waiting->decider->loop);
}

void later_close(struct waiting *waiting)
{
	struct parked *parked;

	while (take_split(waiting))
		;
	while ((parked = take_ready(waiting))) {
		undo_drop(&parked->work);
		hold_free(&parked->held);
	}
	park_close(waiting);
}
