/*
 * sleep.h: blocks the calling thread until its request is decided, or until a deadline.
 *
 * The caller passes a function that decides the request: wait_sleep calls it at once, and again
 * each time that the request may pass.
 */
#ifndef WAIT_SLEEP_H
#define WAIT_SLEEP_H

#include "base/time/clock.h"
#include "wait/patience.h"
#include "wait/waitlist.h"

struct wait {
	const struct clock *clock;
	struct waitlist **list; /* the first thread that has to wait makes it */
	/*
	 * Decides now, for a caller that would wait `max_wait_ns` (as in struct algo_call).
	 * Returns false if the thread has to wait for the key `key_hash` of `limit`, which it sets.
	 */
	bool (*decide)(struct wait *wait, enum wait_position position, uint64_t max_wait_ns,
	               struct moment at, struct weir_decision *decision);
	/* Denies instead of waiting for that key. */
	void (*deny)(struct wait *wait, enum weir_reason reason, struct moment at,
	             struct weir_decision *decision);
	enum wait_position arrival; /* WAIT_NEW or WAIT_LATE */
	const struct algo_limit *limit;
	uint64_t key_hash;
	uint8_t priority;          /* set by `decide`, too: its rank among the waiting */
	uint64_t poll_interval_ns; /* set by `decide`, too: how often to try unwoken, or 0 */
	uint64_t start_at_ns; /* wait_sleep's: when the request may start, by the monotonic clock */
};

/** The longest wait that a deadline leaves, as in struct algo_call: WEIR_ZERO if it is over. */
uint64_t wait_max_until(uint64_t deadline_ns);

/** As weir_ask with a deadline, for so long as wait_max_until returned. 0 or ENOMEM. */
int wait_sleep(struct wait *wait, uint64_t max_wait_ns, struct weir_decision *decision);

#endif
