/*
 * sleep.c: blocks a thread until the limits let its request pass, or until its deadline.
 *
 * A paced limit (one that spaces requests evenly) assigns each request its start at once, so the
 * thread only sleeps until then. For all other limits the thread joins the queue of the key that
 * denies it. When it is the first there, it tries again at the time that the denial named. If
 * another key denies it then, it joins the queue of that key. Times are of the monotonic clock.
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
	pthread_mutex_t lock; /* of the condition and the flags below */
	pthread_cond_t wake_cond;
	enum wait_position position_if_first;
	uint64_t queue_deadline_ns; /* how long this queue's limit lets it wait */
	bool is_first;              /* of its queue */
	bool is_dropped;            /* a waiter of a higher priority has replaced it in a full queue */
	bool woken_since_try;
};

static void wake_sleeper(struct sleeper *self, bool is_dropped)
{
	pthread_mutex_lock(&self->lock);
	self->is_dropped |= is_dropped;
	self->is_first = !self->is_dropped;
	self->woken_since_try = true;
	pthread_cond_signal(&self->wake_cond);
	pthread_mutex_unlock(&self->lock);
}

/* The waitlist calls it when the waiter becomes the first, should try again, or is dropped. */
static void wake(struct waiter *waiter)
{
	wake_sleeper((struct sleeper *)waiter, waiter->is_dropped);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

/* Sleeps until that time or until it is woken. Returns whether it is the first of its queue. */
static bool sleep_until_woken(struct sleeper *self, uint64_t until_ns)
{
	bool is_first;

	pthread_mutex_lock(&self->lock);
	pthread_cleanup_push(unlock, &self->lock);
	while (!self->woken_since_try &&
	       condition_wait_until(&self->wake_cond, &self->lock, until_ns) != ETIMEDOUT)
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

/* The longest wait as a request states it: 0 stands for the default, WEIR_ZERO for no wait. */
static uint64_t as_max_wait(uint64_t left_ns)
{
	return left_ns > 0 ? left_ns : WEIR_ZERO;
}

/*
 * Has the caller's function decide the request, which may wait for `left_ns`. Returns false if it
 * must wait for a key: the function has set wait->key_hash and wait->limit then.
 */
static bool decide_now(struct wait *wait, enum wait_position position, uint64_t left_ns,
                       struct weir_decision *d)
{
	struct moment at = clock_moment(wait->clock);
	bool decided = wait->decide(wait, position, as_max_wait(left_ns), at, d);

	wait->start_at_ns = clock_monotonic(wait->clock, at.now_ns) + d->wait_ns;
	return decided;
}

/*
 * Tries to acquire each time that the thread wakes in the queue of one key: it was woken, the time
 * that the last denial named has come, or its time in this queue is over. Returns true if the
 * request is decided, or false if the thread must wait for another key.
 */
static bool try_until_decided(struct wait *wait, struct sleeper *self, uint64_t deadline_ns,
                              struct weir_decision *d)
{
	uint64_t next_try_ns = self->queue_deadline_ns;

	for (;;) {
		bool is_first = sleep_until_woken(self, next_try_ns);
		uint64_t now_ns = os_monotonic_ns();
		uint64_t left_ns = now_ns < self->queue_deadline_ns ? sat_sub(deadline_ns, now_ns) : 0;

		if (decide_now(wait, is_first ? self->position_if_first : WAIT_BEHIND, left_ns, d))
			return true;
		if (was_dropped(self)) { /* the last try was above */
			wait->deny(wait, WEIR_REASON_QUEUE_FULL, clock_moment(wait->clock), d);
			return true;
		}
		if (wait->key_hash != self->waiter.hash) {  /* another key has denied it */
			self->position_if_first = WAIT_YIELDED; /* as it leaves this queue to others */
			return false;
		}
		next_try_ns = u64_min(self->queue_deadline_ns, sat_add(now_ns, d->retry_after_ns));
		if (wait->poll_interval_ns > 0)
			next_try_ns = u64_min(next_try_ns, sat_add(now_ns, wait->poll_interval_ns));
	}
}

/*
 * Waits in the queue of one key. Returns false if the request is not decided afterwards, because
 * the thread must wait for another key.
 */
static bool wait_in_queue(struct wait *wait, struct sleeper *self, uint64_t deadline_ns,
                          struct weir_decision *d)
{
	enum waitlist_joined joined;
	bool decided;

	self->waiter.hash = wait->key_hash;
	self->waiter.priority = wait->priority;
	self->is_first = self->is_dropped = self->woken_since_try = false;
	joined = waitlist_join(self->list, &self->waiter, wait_queue_max(wait->limit));
	if (joined == WAITLIST_FULL) {
		wait->deny(wait, WEIR_REASON_QUEUE_FULL, clock_moment(wait->clock), d);
		return true;
	}
	if (joined == WAITLIST_FIRST) /* it tries at once */
		wake_sleeper(self, false);
	pthread_cleanup_push(leave_queue, self); /* a thread that is cancelled leaves the queue, too */
	decided = try_until_decided(wait, self, deadline_ns, d);
	pthread_cleanup_pop(true);
	return decided;
}

/* Waits in one queue after the other, in each no longer than its limit permits. 0 or ENOMEM. */
static int wait_in_queues(struct wait *wait, uint64_t deadline_ns, struct weir_decision *d)
{
	struct waitlist *list = waitlist_get_or_make(wait->list);
	struct sleeper self = {
	    .waiter = {.wake = wake},
	    .list = list,
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .position_if_first = WAIT_FIRST,
	};

	if (!list)
		return WEIR_ENOMEM;
	condition_init(&self.wake_cond);
	do {
		uint64_t now_ns = os_monotonic_ns();
		uint64_t max_wait_ns = as_max_wait(sat_sub(deadline_ns, now_ns));

		self.queue_deadline_ns = sat_add(now_ns, wait_patience_ns(wait->limit, max_wait_ns));
	} while (!wait_in_queue(wait, &self, deadline_ns, d));
	pthread_cond_destroy(&self.wake_cond);
	pthread_mutex_destroy(&self.lock);
	return WEIR_OK;
}

static void sleep_until(uint64_t until_ns)
{
	struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

uint64_t wait_max_until(uint64_t deadline_ns)
{
	return as_max_wait(deadline_remaining_ns(deadline_ns));
}

/*
 * Decides the request, and waits as long as needed. `max_wait_ns` is what wait_max_until returned,
 * so not 0: the default of the limit is for calls that do not block. Returns 0, or ENOMEM.
 */
int wait_sleep(struct wait *wait, uint64_t max_wait_ns, struct weir_decision *d)
{
	uint64_t left_ns = max_wait_ns == WEIR_ZERO ? 0 : max_wait_ns;
	uint64_t start_ns = os_monotonic_ns(), in_queues_ns = 0;
	int status;

	if (!decide_now(wait, wait->arrival, left_ns, d)) {
		status = wait_in_queues(wait, sat_add(start_ns, left_ns), d);
		if (status != WEIR_OK)
			return status;
		in_queues_ns = os_monotonic_ns() - start_ns;
	}
	if (d->wait_ns > 0) /* a paced limit has assigned a start */
		sleep_until(wait->start_at_ns);
	d->wait_ns += in_queues_ns;
	return WEIR_OK;
}
