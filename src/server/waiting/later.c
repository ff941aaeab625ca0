#include "server/waiting/later.h"

#include "base/os/prefetch.h"
#include "server/admin/decisions.h"
#include "server/requests/handle.h"
#include "server/stores/quorum_group.h"
#include "server/stores/reports.h"
#include "server/waiting/key_order.h"
#include "server/waiting/key_queue.h"
#include "server/waiting/undo.h"

/* The decider's fields that differ while it runs a suspended work. */
struct scene {
	struct server_config *config;
	size_t *at_store;
	void *context;
	struct arena arena;
};

/* It counts until it goes on. On this loop's thread, as its store clients are. */
static void make_ready(struct suspended *suspended)
{
	list_append(&suspended->waiting->ready, &suspended->ready);
}

/* The last plan that stores had of it makes it ready: while it runs, others may follow. */
void later_ready(void *context, struct plan *plan)
{
	struct suspended *suspended =
	    (struct suspended *)((char *)context - offsetof(struct suspended, decider));

	(void)plan;
	suspended->was_told = true;
	if (suspended->held.at_store > 1)
		suspended->held.at_store--;
	else
		make_ready(suspended);
}

/* The replies of a batch may be finished in several turns, so they are in memory of its own. */
static void enter(struct suspended *suspended, struct scene *saved)
{
	struct decider *decider = suspended->decider;

	*saved =
	    (struct scene){decider->config, decider->at_store, decider->context.owner, decider->arena};
	decider->config = suspended->held.config;
	decider->at_store = &suspended->held.at_store;
	suspended->held.at_store++; /* it must not be ready while it runs */
	suspended->was_told = false;
	decider->context.owner = &suspended->decider;
	if (suspended->work.kind == REQUEST_BATCH)
		decider->arena = suspended->held.arena;
}

static void leave(struct suspended *suspended, const struct scene *saved)
{
	struct decider *decider = suspended->decider;

	if (suspended->work.kind == REQUEST_BATCH) {
		suspended->held.arena = decider->arena;
		decider->arena = saved->arena;
	}
	decider->config = saved->config;
	decider->at_store = saved->at_store;
	decider->context.owner = saved->context;
	if (suspended->held.at_store > 1 || !suspended->was_told)
		suspended->held.at_store--;
	else
		make_ready(suspended); /* a store has told at once of all that it was given */
}

/* No requests of the client are taken meanwhile, so none overtakes the items that are not begun. */
void later_split(struct waiting *waiting, struct net_conn *conn)
{
	waiting->splits = true;
	waiting->admission->batches++;
	client_of(conn)->has_split = true;
	net_conn_suspend(conn, NET_AT_WORK, true);
}

static void end_split(struct waiting *waiting, struct net_conn *conn)
{
	if (!client_of(conn)->has_split)
		return;
	waiting->admission->batches--;
	client_of(conn)->has_split = false;
	net_conn_suspend(conn, NET_AT_WORK, false);
}

void later_drop(struct waiting *waiting, struct work *work)
{
	if (work_split(work))
		end_split(waiting, work->conn);
	handle_drop(work);
}

/* A batch with items that are not begun goes on in the next turn. It counts until then. */
static void add_split(struct waiting *waiting, struct suspended *suspended)
{
	suspended->held.at_store++;
	list_append(&waiting->split, &suspended->ready);
}

static bool take_split(struct waiting *waiting)
{
	struct suspended *suspended = list_of(list_take(&waiting->split), struct suspended, ready);

	if (suspended)
		make_ready(suspended);
	return suspended;
}

/* A work that waited for its turn among those of its client starts with those that are ready. */
static void start(struct suspended *suspended)
{
	suspended->held.at_store++;
	make_ready(suspended);
}

/* In a queue or not. */
static void cancel(struct pending *pending, struct held *held)
{
	struct suspended *suspended = (struct suspended *)held;
	struct waiting *waiting = suspended->waiting;

	(void)pending;
	if (work_split(&suspended->work))
		end_split(waiting, held->conn);
	key_queue_leave(waiting, suspended);
	key_order_leave(&waiting->order, suspended, start);
}

static void put_off(struct pending *pending, struct held *held, uint64_t now_ns)
{
	(void)now_ns;
	pending_put_off(pending, held, PENDING_NEVER);
}

static void try_again(struct pending *pending, struct held *held, uint64_t now_ns);

static const struct held_kind at_store = {put_off, cancel}, in_queue = {try_again, cancel};

/* False: it is decided, and `reply` is filled. */
static bool goes_on(struct waiting *waiting, struct suspended *suspended, struct reply *reply)
{
	struct scene saved;
	uint64_t due_ns = PENDING_NEVER;

	size_t used = suspended->held.arena.used;
	bool was_split = work_split(&suspended->work) != NULL;

	enter(suspended, &saved);
	handle_finish(waiting->decider, &suspended->work, reply);
	if (!reply->at_store)
		due_ns = key_queue_stays(waiting, suspended, reply);
	leave(suspended, &saved);
	pending_grow(&suspended->held, suspended->held.arena.used - used);
	if (was_split && !work_split(&suspended->work))
		end_split(waiting, suspended->held.conn);
	else if (was_split && suspended->held.at_store == 0)
		add_split(waiting, suspended);
	if (reply->at_store)
		key_order_join(&waiting->order, suspended);
	else
		key_order_leave(&waiting->order, suspended, start);
	if (!reply->at_store && !reply->waits)
		return false;
	suspended->held.kind = reply->at_store ? &at_store : &in_queue;
	pending_put_off(&waiting->pending, &suspended->held, due_ns);
	return true;
}

static void resume(struct waiting *waiting, struct suspended *suspended)
{
	struct reply reply;

	if (!goes_on(waiting, suspended, &reply))
		pending_decided(&waiting->pending, &suspended->held, &suspended->work, &reply);
}

static void try_again(struct pending *pending, struct held *held, uint64_t now_ns)
{
	struct waiting *waiting = ((struct suspended *)held)->waiting;

	decider_read_clock(pending->decider);
	key_queue_prepare(waiting, (struct suspended *)held, now_ns);
	resume(waiting, (struct suspended *)held);
	arena_reset(&pending->decider->arena);
}

/* Its memory ends with its answer, or with the last that a store has of it. */
static void give_back(struct held *held)
{
	struct suspended *suspended = (struct suspended *)held;
	struct scene saved;

	enter(suspended, &saved);
	undo_untold(suspended->decider, &suspended->work, held->wait_ns);
	leave(suspended, &saved);
}

/* The plan of a work that has been at a store knows what it took. */
static const struct held_owner of_store = {give_back, suspend_release},
                               of_memory = {NULL, suspend_release};

bool later_wait(struct waiting *waiting, struct work *work, struct reply *reply)
{
	struct suspended *suspended = waitlist_make(&waiting->decider->shared->table->waiting)
	                                  ? suspend_open(waiting, work, &in_queue, &of_memory)
	                                  : NULL;
	uint64_t due_ns;

	if (!suspended) {
		undo_all(waiting->decider, work);
		return false;
	}
	due_ns = key_queue_stays(waiting, suspended, reply);
	if (reply->waits) {
		pending_put_off(&waiting->pending, &suspended->held, due_ns);
		return true;
	}
	pending_remove(&waiting->pending, &suspended->held);
	pending_free(&suspended->held);
	return false;
}

/* Among the answers of the batch: as if it had not been held. */
static void answer_now(struct waiting *waiting, struct suspended *suspended, struct reply *reply)
{
	struct scene saved;

	pending_remove(&waiting->pending, &suspended->held);
	enter(suspended, &saved);
	pending_answer(&waiting->pending, &suspended->work, reply);
	leave(suspended, &saved);
	pending_free(&suspended->held);
}

void later_run(struct waiting *waiting, struct work *work)
{
	struct suspended *suspended = suspend_open(waiting, work, &at_store, &of_store);
	struct reply reply = {0};

	if (!suspended) {
		end_split(waiting, work->conn);
		undo_all(waiting->decider, work);
		pending_answer(&waiting->pending, work, &reply);
		return;
	}
	if (key_order_waits(&waiting->order, suspended) || goes_on(waiting, suspended, &reply))
		return;
	if (reply.wait_ns > 0 || !pending_is_next(&suspended->held))
		pending_decided(&waiting->pending, &suspended->held, &suspended->work, &reply);
	else
		answer_now(waiting, suspended, &reply);
}

/*
 * Ends a work whose client has left or has its answer. Each plan goes on until it has given back
 * all.
 */
static void end(struct waiting *waiting, struct suspended *suspended)
{
	struct scene saved;

	enter(suspended, &saved);
	undo_go_on(waiting->decider, &suspended->work);
	leave(suspended, &saved);
	if (!suspended->held.conn)
		pending_free(&suspended->held);
}

/* One of which a store has something again was given back meanwhile, and becomes ready once more.
 */
static struct suspended *take_ready(struct waiting *waiting)
{
	struct suspended *suspended;

	do {
		suspended = list_of(list_take(&waiting->ready), struct suspended, ready);
	} while (suspended && --suspended->held.at_store > 0);
	return suspended;
}

static bool is_undecided(const struct suspended *suspended)
{
	const struct held *held = &suspended->held;

	return held->conn && (held->kind == &at_store || held->kind == &in_queue);
}

void later_resume_ready(struct waiting *waiting)
{
	struct suspended *suspended;

	if (waiting->ready.first)
		decider_read_clock(waiting->decider);
	while ((suspended = take_ready(waiting))) {
		if (waiting->ready.first) /* what stores had is cold */
			prefetch_all(list_of(waiting->ready.first, struct suspended, ready), sizeof *suspended);
		if (is_undecided(suspended))
			resume(waiting, suspended);
		else
			end(waiting, suspended);
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
		net_loop_run_again(waiting->decider->loop);
}

void later_close(struct waiting *waiting)
{
	struct suspended *suspended;

	while (take_split(waiting))
		;
	while ((suspended = take_ready(waiting))) {
		undo_drop(&suspended->work);
		pending_free(&suspended->held);
	}
	suspend_close(waiting);
}
