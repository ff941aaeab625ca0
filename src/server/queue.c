#include "server/queue.h"

#include <stdlib.h>
#include <string.h>

#include "wait/waitlist.h"
#include "server/handle.h"
#include "server/hold.h"

/* About what its answer will take. */
#define REPLY_SIZE 256

struct queued {
	struct held held; /* first; due when it is to be tried, or has waited long enough */
	struct waiter waiter;
	struct worker *worker;
	struct queued *next_woken, **woken_link; /* see struct worker; NULL when it is not woken */
	bool is_first;                           /* as its own loop knows */
	bool has_moved;                          /* from one key's queue to another's */
	uint64_t start_ns;    /* of the monotonic clock, as all that follow */
	uint64_t end_ns;      /* in this queue */
	uint64_t deadline_ns; /* the caller's own, for all that it waits for */
	struct work work;     /* what its plan points to is in `bytes` */
	alignas(max_align_t) char bytes[];
};

static struct queued *queued_of(struct waiter *waiter)
{
	return (struct queued *)((char *)waiter - offsetof(struct queued, waiter));
}

/* From any thread. */
static void wake(struct waiter *waiter)
{
	struct queued *queued = queued_of(waiter);
	struct worker *worker = queued->worker;

	pthread_mutex_lock(&worker->lock);
	if (!queued->woken_link) {
		queued->next_woken = worker->woken;
		queued->woken_link = &worker->woken;
		if (queued->next_woken)
			queued->next_woken->woken_link = &queued->next_woken;
		worker->woken = queued;
		net_loop_wake(worker->loop);
	}
	pthread_mutex_unlock(&worker->lock);
}

/* Under the lock. */
static void forget_woken(struct queued *queued)
{
	if (!queued->woken_link)
		return;
	*queued->woken_link = queued->next_woken;
	if (queued->next_woken)
		queued->next_woken->woken_link = queued->woken_link;
	queued->woken_link = NULL;
}

/*
 * The queue of the key that its plan waits for. From its second move on its time does not
 * begin anew: it may be sent from one queue to the other for ever.
 */
static bool enter(struct worker *worker, struct queued *queued, uint64_t now_ns)
{
	const struct plan *plan = &queued->work.plan;
	const struct algo_limit *limit = &plan->refused->limit->algo;
	uint64_t end_ns = sat_add(now_ns, wait_patience_ns(limit, plan->max_wait_ns));
	enum waitlist_joined joined;

	queued->end_ns = queued->has_moved ? u64_min(queued->end_ns, end_ns) : end_ns;
	queued->waiter = (struct waiter){.hash = plan->waits_at, .wake = wake};
	joined = waitlist_join(waitlist_at(&worker->shared->table->waiting), &queued->waiter,
	                       wait_queue_max(limit));
	queued->is_first = joined == WAITLIST_FIRST;
	return joined != WAITLIST_FULL;
}

static void leave(struct worker *worker, struct queued *queued)
{
	waitlist_leave(waitlist_at(&worker->shared->table->waiting), &queued->waiter);
	pthread_mutex_lock(&worker->lock);
	forget_woken(queued);
	pthread_mutex_unlock(&worker->lock);
}

void queue_run(struct worker *worker)
{
	struct queued *queued;

	pthread_mutex_lock(&worker->lock);
	while ((queued = worker->woken)) {
		forget_woken(queued);
		queued->is_first = true;
		hold_put_off(worker, &queued->held, os_monotonic_ns());
	}
	pthread_mutex_unlock(&worker->lock);
}

/* Whether it goes on waiting: for the same key as before, or for that which denied it now. */
static bool stays(struct worker *worker, struct queued *queued, struct reply *reply,
                  uint64_t now_ns)
{
	struct work *work = &queued->work;
	uint64_t due_ns = UINT64_MAX;

	if (reply->waits && work->plan.waits_at == queued->waiter.hash) {
		if (queued->is_first)
			due_ns = sat_add(now_ns, reply->decision.retry_after_ns);
	} else {
		leave(worker, queued);
		if (!reply->waits)
			return false;
		if (!enter(worker, queued, now_ns)) {
			handle_deny(worker, work, WEIR_REASON_QUEUE_FULL, reply);
			return false;
		}
		queued->has_moved = true;
		if (queued->is_first) /* in the next turn */
			due_ns = now_ns + 1;
	}
	hold_put_off(worker, &queued->held, u64_min(due_ns, queued->end_ns));
	return true;
}

static void resume(struct worker *worker, struct held *held, uint64_t now_ns)
{
	struct queued *queued = (struct queued *)held;
	struct plan *plan = &queued->work.plan;
	struct reply reply;

	worker->turn.at = clock_moment(engine_clock(worker->shared->table));
	if (now_ns >= queued->end_ns)
		plan->max_wait_ns = WEIR_ZERO;
	else if (plan->max_wait_ns != 0)
		plan->max_wait_ns = queued->deadline_ns - now_ns;
	plan->position = !queued->is_first   ? WAIT_BEHIND
	                 : queued->has_moved ? WAIT_YIELDED
	                                     : WAIT_FIRST;
	plan->waits_at = queued->waiter.hash;
	handle_resume(worker, &queued->work, held->config, &reply);
	if (!stays(worker, queued, &reply, now_ns)) {
		if (queued->work.status == WEIR_OK)
			reply.decision.wait_ns += now_ns - queued->start_ns;
		hold_count(worker, now_ns - queued->start_ns);
		hold_decided(worker, held, &queued->work, &reply);
	}
	arena_reset(&worker->arena);
}

static void cancel(struct worker *worker, struct held *held)
{
	leave(worker, (struct queued *)held);
}

static const struct held_kind queued_kind = {resume, cancel};

static struct queued *open_queued(struct worker *worker, const struct work *work)
{
	size_t size = sizeof(struct queued) + engine_extent(&work->plan);
	struct queued *queued;

	if (!waitlist_make(&worker->shared->table->waiting))
		return NULL;
	queued = calloc(1, size);
	if (!queued)
		return NULL;
	queued->worker = worker;
	queued->work = *work;
	engine_suspend(worker->shared->table, &queued->work.plan, &work->plan, queued->bytes);
	queued->start_ns = clock_monotonic(engine_clock(worker->shared->table), worker->turn.at.now_ns);
	queued->deadline_ns = sat_add(queued->start_ns, work->plan.max_wait_ns);
	queued->held.size = size + REPLY_SIZE;
	if (hold_add(worker, &queued->held, &queued_kind, work->conn, queued->start_ns))
		return queued;
	free(queued);
	return NULL;
}

bool queue_join(struct worker *worker, struct work *work, struct reply *reply)
{
	struct queued *queued = open_queued(worker, work);

	if (!queued) {
		handle_no_memory(worker, work);
		return false;
	}
	if (!enter(worker, queued, queued->start_ns)) {
		hold_remove(worker, &queued->held);
		free(queued);
		handle_deny(worker, work, WEIR_REASON_QUEUE_FULL, reply);
		return false;
	}
	if (!queued->is_first)
		hold_put_off(worker, &queued->held, queued->end_ns);
	return true;
}
