/*
 * wait.c: a thread that waits for what it acquires.
 *
 * Limits that are paced keep the order in their states: a turn is taken at once and
 * slept for. For all others the thread stands in the room, and tries when it is the
 * first and its time has come. It sleeps by the monotonic clock, to which the deadline
 * is carried over once.
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
	bool is_first; /* known to be */
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

bool wait_is_exact(const struct weir_limit *limit)
{
	return limit->algo.algorithm != WEIR_RANDOM && !limit_has_permits(limit);
}

size_t wait_queue_max(const struct weir_limit *limit)
{
	bool bounded = limit->algo.algorithm == WEIR_CONCURRENCY && limit->algo.permit.queue > 0;

	return bounded ? limit->algo.permit.queue : SIZE_MAX;
}

bool wait_is_vain(const struct weir_limit *limit, const struct weir_decision *decision,
                  uint64_t patience_ns)
{
	return patience_ns == 0 || (!decision->allowed && wait_is_exact(limit) &&
	                            decision->retry_after_ns > patience_ns);
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

static void ask(struct wait *wait, enum algo_op op, struct weir_decision *d)
{
	struct algo_call call = {.op = op, .cost = wait->cost};

	wait->ask(wait, &call, WEIR_NOW, d);
}

/* Whether there is nothing to wait for. Then it is denied. */
static bool give_up(const struct wait *wait, uint64_t left_ns, struct weir_decision *d)
{
	if (!wait_is_vain(wait->limit, d, left_ns))
		return false;
	wait_deny(d, WEIR_REASON_WAIT_TOO_LONG);
	return true;
}

/* The first tries; the others only learn how the key stands, when their time is over. */
static void try_in_turn(struct wait *wait, struct sleeper *self, uint64_t end_ns,
                        struct weir_decision *d)
{
	uint64_t next_ns = end_ns;

	for (;;) {
		bool is_first = doze(self, next_ns);
		uint64_t now_ns;

		ask(wait, is_first ? ALGO_ACQUIRE : ALGO_PEEK, d);
		now_ns = os_monotonic_ns();
		if ((is_first && d->allowed) || give_up(wait, sat_sub(end_ns, now_ns), d))
			return;
		next_ns = u64_min(end_ns, sat_add(now_ns, d->retry_after_ns));
	}
}

static int stand(struct wait *wait, uint64_t end_ns, struct weir_decision *d)
{
	struct room *room = room_make(wait->room);
	struct sleeper self = {.waiter = {.hash = wait->hash, .wake = wake},
	                       .room = room,
	                       .lock = PTHREAD_MUTEX_INITIALIZER};
	enum room_place place;

	if (!room)
		return WEIR_ENOMEM;
	until_init(&self.woken);
	place = room_join(room, &self.waiter, wait_queue_max(wait->limit));
	if (place == ROOM_FIRST)
		wake(&self.waiter);
	if (place == ROOM_FULL) {
		wait_deny(d, WEIR_REASON_QUEUE_FULL);
	} else {
		pthread_cleanup_push(leave, &self); /* a thread that is cancelled, too */
		try_in_turn(wait, &self, end_ns, d);
		pthread_cleanup_pop(true);
	}
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

static void take_turn(struct wait *wait, uint64_t left_ns, struct weir_decision *d)
{
	struct algo_call call = {.op = ALGO_ACQUIRE, .cost = wait->cost};
	uint64_t now_ns = clock_now(wait->clock);

	call.max_wait_ns = left_ns > 0 ? left_ns : WEIR_ZERO;
	wait->ask(wait, &call, now_ns, d);
	if (d->allowed && d->wait_ns > 0)
		sleep_until(clock_monotonic(wait->clock, now_ns) + d->wait_ns);
}

int wait_acquire(struct wait *wait, uint64_t deadline_ns, struct weir_decision *d)
{
	bool waits = deadline_ns != WEIR_NOW && wait->cost > 0;
	uint64_t left_ns = waits ? sat_sub(deadline_ns, os_wall_ns()) : 0;
	uint64_t start_ns = os_monotonic_ns();
	bool is_behind;
	int status;

	if (wait->limit->algo.paced) {
		take_turn(wait, left_ns, d);
		return WEIR_OK;
	}
	left_ns = wait_patience_ns(wait->limit, left_ns > 0 ? left_ns : WEIR_ZERO);
	is_behind = room_has(room_at(wait->room), wait->hash);
	ask(wait, is_behind ? ALGO_PEEK : ALGO_ACQUIRE, d);
	if (d->allowed && !is_behind)
		return WEIR_OK;
	if (left_ns == 0) {
		wait_deny(d, d->allowed ? WEIR_REASON_OVER_LIMIT : d->reason);
		return WEIR_OK;
	}
	if (give_up(wait, left_ns, d))
		return WEIR_OK;
	status = stand(wait, sat_add(start_ns, left_ns), d);
	if (status == WEIR_OK && d->allowed)
		d->wait_ns = os_monotonic_ns() - start_ns;
	return status;
}
