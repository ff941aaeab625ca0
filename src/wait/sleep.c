/*
 * sleep.c: a thread that waits for what it acquires.
 *
 * Paced limits keep the order in their states: the thread takes a turn at once and sleeps
 * until then. For all other limits it joins the waitlist, and tries when it is the first
 * and its time has come; if another key denies it then, it waits for that key. It sleeps by
 * the monotonic clock, to which it converts its deadline once.
 */
#include "wait/sleep.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/os/os.h"
#include "base/os/deadline.h"

/* A waiter, and the thread behind it. */
struct sleeper {
	struct waiter waiter; /* first, so that either is the other */
	struct waitlist *list;
	pthread_mutex_t lock;
	pthread_cond_t woken;
	enum wait_position as_first; /* its position when it is the first */
	uint64_t end_ns; /* in this queue */
	bool is_first;   /* known to be */
	bool is_dropped; /* for another waiter of a higher priority */
	bool woken_since_try;
};

static void wake_sleeper(struct sleeper *self, bool is_dropped)
{
	pthread_mutex_lock(&self->lock);
	self->is_dropped |= is_dropped;
	self->is_first = !self->is_dropped;
	self->woken_since_try = true;
	pthread_cond_signal(&self->woken);
	pthread_mutex_unlock(&self->lock);
}

static void wake(struct waiter *waiter)
{
	wake_sleeper((struct sleeper *)waiter, waiter->is_dropped);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

/* Sleeps until then or until it is woken. Returns whether it is the first of its queue. */
static bool sleep_until_woken(struct sleeper *self, uint64_t until_ns)
{
	bool is_first;

	pthread_mutex_lock(&self->lock);
	pthread_cleanup_push(unlock, &self->lock);
	while (!self->woken_since_try &&
	       condition_wait_until(&self->woken, &self->lock, until_ns) != ETIMEDOUT)
		;
	self->woken_since_try = false;
	is_first = self->is_first;
	pthread_cleanup_pop(true);
	return is_first;
}

static bool was_dropped(struct sleeper *self)
{
	bool is_dropped;

	pthread_mutex_lock(&self->lock);
	is_dropped = self->is_dropped;
	pthread_mutex_unlock(&self->lock);
	return is_dropped;
}

static void leave_queue(void *sleeper)
{
	struct sleeper *self = sleeper;

	waitlist_leave(self->list, &self->waiter);
}

/* In a request 0 means no choice, so no time at all is WEIR_ZERO. */
static uint64_t max_wait(uint64_t left_ns)
{
	return left_ns > 0 ? left_ns : WEIR_ZERO;
}

static bool decide_now(struct wait *wait, enum wait_position position, uint64_t left_ns,
                       struct weir_decision *d)
{
	struct moment at = clock_moment(wait->clock);
	bool decided = wait->decide(wait, position, max_wait(left_ns), at, d);

	wait->turn_ns = clock_monotonic(wait->clock, at.now_ns) + d->wait_ns;
	return decided;
}

/*
 * Tries to acquire whenever the thread is the first of its queue, or its time is over. Returns true
 * if it is decided, or false if the thread must wait for another key.
 */
static bool try_in_turn(struct wait *wait, struct sleeper *self, uint64_t end_ns,
                        struct weir_decision *d)
{
	uint64_t next_ns = self->end_ns;

	for (;;) {
		bool is_first = sleep_until_woken(self, next_ns);
		uint64_t now_ns = os_monotonic_ns();
		uint64_t left_ns = now_ns < self->end_ns ? sat_sub(end_ns, now_ns) : 0;

		if (decide_now(wait, is_first ? self->as_first : WAIT_BEHIND, left_ns, d))
			return true;
		if (was_dropped(self)) {
			wait->deny(wait, WEIR_REASON_QUEUE_FULL, clock_moment(wait->clock), d);
			return true;
		}
		if (wait->hash != self->waiter.hash) {
			self->as_first = WAIT_YIELDED;
			return false;
		}
		next_ns = u64_min(self->end_ns, sat_add(now_ns, d->retry_after_ns));
		if (wait->poll_ns > 0)
			next_ns = u64_min(next_ns, sat_add(now_ns, wait->poll_ns));
	}
}

/* Waits in the queue of one key. Returns false if the thread must wait for another key then. */
static bool wait_in_queue(struct wait *wait, struct sleeper *self, uint64_t end_ns,
                          struct weir_decision *d)
{
	enum waitlist_joined joined;
	bool decided;

	self->waiter.hash = wait->hash;
	self->waiter.priority = wait->priority;
	self->is_first = self->is_dropped = self->woken_since_try = false;
	joined = waitlist_join(self->list, &self->waiter, wait_queue_max(wait->limit));
	if (joined == WAITLIST_FULL) {
		wait->deny(wait, WEIR_REASON_QUEUE_FULL, clock_moment(wait->clock), d);
		return true;
	}
	if (joined == WAITLIST_FIRST)
		wake_sleeper(self, false);
	pthread_cleanup_push(leave_queue, self); /* a thread that is cancelled, too */
	decided = try_in_turn(wait, self, end_ns, d);
	pthread_cleanup_pop(true);
	return decided;
}

/* Waits in one queue after the other, in each no longer than its limit permits. */
static int wait_in_queues(struct wait *wait, uint64_t end_ns, struct weir_decision *d)
{
	struct waitlist *list = waitlist_get_or_make(wait->list);
	struct sleeper self = {
	    .waiter = {.wake = wake},
	    .list = list,
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .as_first = WAIT_FIRST,
	};

	if (!list)
		return WEIR_ENOMEM;
	condition_init(&self.woken);
	do {
		uint64_t now_ns = os_monotonic_ns();
		uint64_t left_ns = wait_patience_ns(wait->limit, max_wait(sat_sub(end_ns, now_ns)));

		self.end_ns = sat_add(now_ns, left_ns);
	} while (!wait_in_queue(wait, &self, end_ns, d));
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

uint64_t wait_until(uint64_t deadline_ns)
{
	return max_wait(deadline_remaining_ns(deadline_ns));
}

int wait_sleep(struct wait *wait, uint64_t max_wait_ns, struct weir_decision *d)
{
	uint64_t left_ns = max_wait_ns == WEIR_ZERO ? 0 : max_wait_ns;
	uint64_t start_ns = os_monotonic_ns(), stood_ns = 0;
	int status;

	if (!decide_now(wait, WAIT_NEW, left_ns, d)) {
		status = wait_in_queues(wait, sat_add(start_ns, left_ns), d);
		if (status != WEIR_OK)
			return status;
		stood_ns = os_monotonic_ns() - start_ns;
	}
	if (d->wait_ns > 0)
		sleep_until(wait->turn_ns);
	d->wait_ns += stood_ns;
	return WEIR_OK;
}
