#include "server/waiting/later.h"

#include "base/os/prefetch.h"
#include "server/admin/count.h"
#include "server/requests/handle.h"
#include "server/stores/fleet.h"
#include "server/stores/reports.h"
#include "server/waiting/order.h"
#include "server/waiting/park.h"
#include "server/waiting/queue.h"
#include "server/waiting/undo.h"

/* The worker's fields that differ while it runs a parked work. */
struct scene {
	struct server_config *config;
	size_t *at_store;
	void *context;
	engine_observer *observe;
	struct arena arena;
};

static void observe(void *context, const struct step *step)
{
	count_step(((struct parked *)context)->worker, step);
}

static void see_phase(void *context, const struct step *step, const struct algo_outcome *outcome)
{
	count_phase(((struct parked *)context)->worker, step, outcome);
}

static void tell_fleet(void *context, const struct step *step, const struct algo_notification *told)
{
	fleets_told(((struct parked *)context)->worker, step, told);
}

static void claim(void *context, const struct plan *plan)
{
	reports_claimed(((struct parked *)context)->worker, plan);
}

static void fail(void *context, const struct step *step, enum rules_failure policy)
{
	count_failure(((struct parked *)context)->worker, step, policy);
}

/* It counts until it goes on. On this loop's thread, as its lanes are. */
static void make_ready(struct parked *parked)
{
	list_append(&parked->worker->ready, &parked->ready);
}

/* The last plan that stores had of it makes it ready: while it runs, others may follow. */
static void become_ready(void *context, struct plan *plan)
{
	struct parked *parked = context;

	(void)plan;
	parked->was_told = true;
	if (parked->held.at_store > 1)
		parked->held.at_store--;
	else
		make_ready(parked);
}

/* The replies of a batch may be finished in several turns, so they are in memory of its own. */
static void enter(struct worker *worker, struct parked *parked, struct scene *saved)
{
	*saved = (struct scene){worker->config, worker->at_store, worker->turn.context,
	                        worker->turn.observe, worker->arena};
	worker->config = parked->held.config;
	worker->at_store = &parked->held.at_store;
	parked->held.at_store++; /* it must not be ready while it runs */
	parked->was_told = false;
	worker->turn.context = parked;
	worker->turn.observe = observe;
	worker->turn.phased = see_phase;
	worker->turn.notify = tell_fleet;
	worker->turn.claimed = claim;
	worker->turn.failed = fail;
	worker->turn.ready = become_ready;
	if (parked->work.kind == REQUEST_BATCH)
		worker->arena = parked->held.arena;
}

static void leave(struct worker *worker, struct parked *parked, const struct scene *saved)
{
	if (parked->work.kind == REQUEST_BATCH) {
		parked->held.arena = worker->arena;
		worker->arena = saved->arena;
	}
	worker->config = saved->config;
	worker->at_store = saved->at_store;
	worker->turn.context = saved->context;
	worker->turn.observe = saved->observe;
	worker->turn.phased = count_phase;
	worker->turn.notify = fleets_told;
	worker->turn.claimed = reports_claimed;
	if (parked->held.at_store > 1 || !parked->was_told)
		parked->held.at_store--;
	else
		make_ready(parked); /* a store has told at once of all that it was given */
}

/* No requests of the client are taken meanwhile, so none overtakes the items that are not begun. */
void later_split(struct worker *worker, struct net_conn *conn)
{
	worker->splits = true;
	worker->split_count++;
	client_of(conn)->has_split = true;
	net_conn_put_off(conn, NET_AT_WORK, true);
}

static void end_split(struct worker *worker, struct net_conn *conn)
{
	if (!client_of(conn)->has_split)
		return;
	worker->split_count--;
	client_of(conn)->has_split = false;
	net_conn_put_off(conn, NET_AT_WORK, false);
}

void later_drop(struct worker *worker, struct work *work)
{
	if (work_split(work))
		end_split(worker, work->conn);
	handle_drop(work);
}

/* A batch with items that are not begun goes on in the next turn. It counts until then. */
static void add_split(struct worker *worker, struct parked *parked)
{
	parked->held.at_store++;
	list_append(&worker->split, &parked->ready);
}

static bool take_split(struct worker *worker)
{
	struct parked *parked = list_of(list_take(&worker->split), struct parked, ready);

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
static void cancel(struct worker *worker, struct held *held)
{
	struct parked *parked = (struct parked *)held;

	if (work_split(&parked->work))
		end_split(worker, held->conn);
	queue_leave(worker, parked);
	order_leave(worker, parked, start);
}

static void put_off(struct worker *worker, struct held *held, uint64_t now_ns)
{
	(void)now_ns;
	hold_put_off(worker, held, HOLD_NEVER);
}

static void try_again(struct worker *worker, struct held *held, uint64_t now_ns);

static const struct held_kind at_store = {put_off, cancel}, in_queue = {try_again, cancel};

/* False: it is decided, and `reply` is filled. */
static bool goes_on(struct worker *worker, struct parked *parked, struct reply *reply)
{
	struct scene saved;
	uint64_t due_ns = HOLD_NEVER;

	size_t used = parked->held.arena.used;
	bool was_split = work_split(&parked->work) != NULL;

	enter(worker, parked, &saved);
	handle_finish(worker, &parked->work, reply);
	if (!reply->at_store)
		due_ns = queue_stays(worker, parked, reply);
	leave(worker, parked, &saved);
	hold_grow(&parked->held, parked->held.arena.used - used);
	if (was_split && !work_split(&parked->work))
		end_split(worker, parked->held.conn);
	else if (was_split && parked->held.at_store == 0)
		add_split(worker, parked);
	if (reply->at_store)
		order_join(worker, parked);
	else
		order_leave(worker, parked, start);
	if (!reply->at_store && !reply->waits)
		return false;
	parked->held.kind = reply->at_store ? &at_store : &in_queue;
	hold_put_off(worker, &parked->held, due_ns);
	return true;
}

static void resume(struct worker *worker, struct parked *parked)
{
	struct reply reply;

	if (!goes_on(worker, parked, &reply))
		hold_decided(worker, &parked->held, &parked->work, &reply);
}

static void try_again(struct worker *worker, struct held *held, uint64_t now_ns)
{
	worker->turn.at = clock_moment(engine_clock(worker->shared->table));
	queue_prepare(worker, (struct parked *)held, now_ns);
	resume(worker, (struct parked *)held);
	arena_reset(&worker->arena);
}

/* Its memory ends with its answer, or with the last that a store has of it. */
static void give_back(struct worker *worker, struct held *held)
{
	struct parked *parked = (struct parked *)held;
	struct scene saved;

	enter(worker, parked, &saved);
	undo_untold(worker, &parked->work, held->wait_ns);
	leave(worker, parked, &saved);
}

/* The plan of a work that has been at a store knows what it took. */
static const struct held_owner of_store = {give_back, park_release},
                               of_memory = {NULL, park_release};

bool later_wait(struct worker *worker, struct work *work, struct reply *reply)
{
	struct parked *parked = waitlist_make(&worker->shared->table->waiting)
	                            ? park_open(worker, work, &in_queue, &of_memory)
	                            : NULL;
	uint64_t due_ns;

	if (!parked) {
		undo_all(worker, work);
		return false;
	}
	due_ns = queue_stays(worker, parked, reply);
	if (reply->waits) {
		hold_put_off(worker, &parked->held, due_ns);
		return true;
	}
	hold_remove(worker, &parked->held);
	hold_free(&parked->held);
	return false;
}

/* Among the answers of the batch: as if it had not been held. */
static void answer_now(struct worker *worker, struct parked *parked, struct reply *reply)
{
	struct scene saved;

	hold_remove(worker, &parked->held);
	enter(worker, parked, &saved);
	hold_answer(worker, &parked->work, reply);
	leave(worker, parked, &saved);
	hold_free(&parked->held);
}

void later_run(struct worker *worker, struct work *work)
{
	struct parked *parked = park_open(worker, work, &at_store, &of_store);
	struct reply reply = {0};

	if (!parked) {
		end_split(worker, work->conn);
		undo_all(worker, work);
		hold_answer(worker, work, &reply);
		return;
	}
	if (order_waits(worker, parked) || goes_on(worker, parked, &reply))
		return;
	if (reply.wait_ns > 0 || !hold_is_next(&parked->held))
		hold_decided(worker, &parked->held, &parked->work, &reply);
	else
		answer_now(worker, parked, &reply);
}

/*
 * Ends a work whose client has left or has its answer. Each plan goes on until it has given back
 * all.
 */
static void end(struct worker *worker, struct parked *parked)
{
	struct scene saved;

	enter(worker, parked, &saved);
	undo_go_on(worker, &parked->work);
	leave(worker, parked, &saved);
	if (!parked->held.conn)
		hold_free(&parked->held);
}

/* One of which a store has something again was given back meanwhile, and becomes ready once more. */
static struct parked *take_ready(struct worker *worker)
{
	struct parked *parked;

	do {
		parked = list_of(list_take(&worker->ready), struct parked, ready);
	} while (parked && --parked->held.at_store > 0);
	return parked;
}

static bool is_undecided(const struct parked *parked)
{
	const struct held *held = &parked->held;

	return held->conn && (held->kind == &at_store || held->kind == &in_queue);
}

void later_resume_ready(struct worker *worker)
{
	struct parked *parked;

	if (worker->ready.first)
		worker->turn.at = clock_moment(engine_clock(worker->shared->table));
	while ((parked = take_ready(worker))) {
		if (worker->ready.first) /* what stores had is cold */
			prefetch_all(list_of(worker->ready.first, struct parked, ready), sizeof *parked);
		if (is_undecided(parked))
			resume(worker, parked);
		else
			end(worker, parked);
	}
}

void later_go_on(struct worker *worker)
{
	for (size_t n = 0; n < LATER_BATCHES && take_split(worker); n++) {
		metrics_add(&metrics_of(worker)->continued, 1);
		later_resume_ready(worker);
		if (net_loop_is_busy(worker->loop))
			break;
	}
	if (worker->split.first)
		net_loop_again(worker->loop);
}

void later_close(struct worker *worker)
{
	struct parked *parked;

	while (take_split(worker))
		;
	while ((parked = take_ready(worker))) {
		undo_drop(&parked->work);
		hold_free(&parked->held);
	}
	park_close(worker);
}
