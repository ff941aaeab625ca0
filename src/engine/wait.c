/*
 * wait.c: a thread that waits for what it acquires.
 *
 * Limits that are paced keep the order in their states: a turn is taken at once and
 * slept for. For all others the thread stands in the room, and tries when it is the
 * first and its time has come; what is denied by another key then waits for that. It
 * sleeps by the monotonic clock, to which the deadline is carried over once.
 */
#include "engine/wait.h"

#include <errno.h>
#include <time.h>

#include "base/os.h"
#include "base/until.h"

/* A waiter with a thread behind it. */
struct sleeper {
	struct room_waiter waiter; /* first, so that either is the other */
	struct room *room;
	pthread_mutex_t lock;
	pthread_cond_t woken;
	enum engine_place as_first; /* what it is then */
	uint64_t end_ns; /* in this queue */
	bool is_first;   /* known to be */
	bool stirred;  /* woken since it tried last */
};

uint64_t wait_patience_ns(const struct weir_limit *limit, uint64_t asked_ns)
{
	const struct permit_params *permit = &limit->algo.permit;

	if (limit->algo.paced || asked_ns == WEIR_ZERO)
		return 0;
	if (limit->algo.algorithm != WEIR_CONCURRENCY || permit->queue == 0)
		return asked_ns;
	return asked_ns == 0 ? permit->max_wait_ns : u64_min(asked_ns, permit->max_wait_ns);
}

size_t wait_queue_max(const struct weir_limit *limit)
{
	bool bounded = limit->algo.algorithm == WEIR_CONCURRENCY && limit->algo.permit.queue > 0;

	return bounded ? limit->algo.permit.queue : SIZE_MAX;
}

/* Whether `retry_after_ns` tells when it passes, were nobody else to come. */
static bool is_exact(const struct weir_limit *limit)
{
	return limit->algo.algorithm != WEIR_RANDOM && !limit_has_permits(limit);
}

enum weir_reason wait_refusal(const struct weir_limit *limit, enum engine_place place,
                              uint64_t max_wait_ns, const struct weir_decision *d)
{
	uint64_t patience_ns = wait_patience_ns(limit, max_wait_ns);

	if (patience_ns > 0 && (!is_exact(limit) || d->retry_after_ns <= patience_ns))
		return WEIR_REASON_OK;
	/* More `keys` are the remedy, a longer wait is not. */
	if (!d->allowed && d->reason == WEIR_REASON_NO_ROOM)
		return WEIR_REASON_NO_ROOM;
	if (!limit->algo.paced && (place != ENGINE_NEW || patience_ns > 0))
		return WEIR_REASON_WAIT_TOO_LONG;
	return d->allowed ? WEIR_REASON_OVER_LIMIT : d->reason;
}

void wait_deny(struct weir_decision *decision, enum weir_reason reason)
{
	decision->allowed = false;
	decision->reason = reason;
	decision->retry_after_ns = u64_max(decision->retry_after_ns, 1);
	decision->wait_ns = 0;
}

static void wake(struct room_waiter *waiter)
{
	struct sleeper *self = (struct sleeper *)waiter;

	pthread_mutex_lock(&self->lock);
	self->is_first = self->stirred = true;
	pthread_cond_signal(&self->woken);
	pthread_mutex_unlock(&self->lock);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

/* Until then or until it is woken; returns whether it is the first. */
static bool doze(struct sleeper *self, uint64_t until_ns)
{
	bool is_first;

	pthread_mutex_lock(&self->lock);
	pthread_cleanup_push(unlock, &self->lock);
	while (!self->stirred && until_wait(&self->woken, &self->lock, until_ns) != ETIMEDOUT)
		;
	self->stirred = false;
	is_first = self->is_first;
	pthread_cleanup_pop(true);
	return is_first;
}

static void leave(void *sleeper)
{
	struct sleeper *self = sleeper;

	room_leave(self->room, &self->waiter);
}

/* As it is said in requests, where 0 says nothing. */
static uint64_t max_wait(uint64_t left_ns)
{
	return left_ns > 0 ? left_ns : WEIR_ZERO;
}

static bool decide(struct wait *wait, enum engine_place place, uint64_t left_ns,
                   struct weir_decision *d)
{
	struct moment at = clock_moment(wait->clock);
	bool decided = wait->decide(wait, place, max_wait(left_ns), at, d);

	wait->turn_ns = clock_monotonic(wait->clock, at.now_ns) + d->wait_ns;
	return decided;
}

/* The first tries; the others only learn how the key stands, when their time is over. */
static bool try_in_turn(struct wait *wait, struct sleeper *self, uint64_t end_ns,
                        struct weir_decision *d)
{
	uint64_t next_ns = self->end_ns;

	for (;;) {
		bool is_first = doze(self, next_ns);
		uint64_t now_ns = os_monotonic_ns();
		uint64_t left_ns = now_ns < self->end_ns ? sat_sub(end_ns, now_ns) : 0;

		if (decide(wait, is_first ? self->as_first : ENGINE_BEHIND, left_ns, d))
			return true;
		if (wait->hash != self->waiter.hash) {
			self->as_first = ENGINE_FREE;
			return false;
		}
		next_ns = u64_min(self->end_ns, sat_add(now_ns, d->retry_after_ns));
	}
}

/* In the queue of the key that is to be waited for, until it is decided or to be another. */
static bool stand(struct wait *wait, struct sleeper *self, uint64_t end_ns,
                  struct weir_decision *d)
{
	enum room_place place;
	bool decided;

	self->waiter.hash = wait->hash;
	self->is_first = self->stirred = false;
	place = room_join(self->room, &self->waiter, wait_queue_max(wait->limit));
	if (place == ROOM_FULL) {
		wait->deny(wait, WEIR_REASON_QUEUE_FULL, clock_moment(wait->clock), d);
		return true;
	}
	if (place == ROOM_FIRST)
		wake(&self->waiter);
	pthread_cleanup_push(leave, self); /* a thread that is cancelled, too */
	decided = try_in_turn(wait, self, end_ns, d);
	pthread_cleanup_pop(true);
	return decided;
}

/* In one queue after the other, in each no longer than its limit lets it. */
static int stand_in_all(struct wait *wait, uint64_t end_ns, struct weir_decision *d)
{
	struct room *room = room_make(wait->room);
	struct sleeper self = {
	    .waiter = {.wake = wake},
	    .room = room,
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .as_first = ENGINE_FIRST,
	};

	if (!room)
		return WEIR_ENOMEM;
	until_init(&self.woken);
	do {
		uint64_t now_ns = os_monotonic_ns();
		uint64_t left_ns = wait_patience_ns(wait->limit, max_wait(sat_sub(end_ns, now_ns)));

		self.end_ns = sat_add(now_ns, left_ns);
	} while (!stand(wait, &self, end_ns, d));
	pthread_cond_destroy(&self.woken);
	pthread_mutex_destroy(&self.lock);
	return WEIR_OK;
}

static void sleep_until(uint64_t until_ns)
{
	struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

int wait_acquire(struct wait *wait, uint64_t deadline_ns, struct weir_decision *d)
{
	uint64_t left_ns = deadline_ns != WEIR_NOW ? sat_sub(deadline_ns, os_wall_ns()) : 0;
	uint64_t start_ns = os_monotonic_ns(), stood_ns = 0;
	int status;

	if (!decide(wait, ENGINE_NEW, left_ns, d)) {
		status = stand_in_all(wait, sat_add(start_ns, left_ns), d);
		if (status != WEIR_OK)
			return status;
		stood_ns = os_monotonic_ns() - start_ns;
	}
	if (d->wait_ns > 0)
		sleep_until(wait->turn_ns);
	d->wait_ns += stood_ns;
	return WEIR_OK;
}

struct request_wait {
	struct wait wait; /* first */
	struct weir_table *table;
	struct engine_request *request;
	struct engine_charge *charge; /* that is waited for */
};

static bool decide_request(struct wait *wait, enum engine_place place, uint64_t max_wait_ns,
                           struct moment at, struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;

	waiting->request->place = place;
	waiting->request->waits_at = wait->hash;
	waiting->request->max_wait_ns = max_wait_ns;
	waiting->charge =
	    engine_decide_in_order(waiting->table, waiting->request, at, NULL, NULL, d);
	if (!waiting->charge)
		return true;
	wait->limit = waiting->charge->limit;
	wait->hash = waiting->charge->key.hash;
	return false;
}

static void deny_request(struct wait *wait, enum weir_reason reason, struct moment at,
                         struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;

	engine_deny(waiting->table, waiting->request, waiting->charge, reason, at, NULL, NULL, d);
}

int wait_request(struct weir_table *table, struct engine_request *request, uint64_t deadline_ns,
                 struct weir_decision *decision)
{
	struct request_wait waiting = {
	    .wait = {.clock = &table->clock,
	             .room = &table->room,
	             .decide = decide_request,
	             .deny = deny_request},
	    .table = table,
	    .request = request,
	};

	return wait_acquire(&waiting.wait, deadline_ns, decision);
}
