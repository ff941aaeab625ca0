/* patience.h: decides how long a request may wait for a key, and when waiting is hopeless. */
#ifndef WAIT_PATIENCE_H
#define WAIT_PATIENCE_H

#include <stddef.h>

#include "algo/algo.h"

/* The position of a request among those that wait for its key. */
enum wait_position {
	WAIT_NEW,
	WAIT_LATE,    /* as new, and its deadline is over already */
	WAIT_BEHIND,  /* it waits, and is not the first */
	WAIT_FIRST,   /* other requests may still wait for another of its keys */
	WAIT_YIELDED, /* the first, and it has let others go ahead once: that is enough */
};

/**
 * How long a request may wait for a key of the limit if its caller accepts `max_wait_ns`: 0 stands
 * for the default, WEIR_ZERO for no wait. Returns 0 for paced limits, whose requests get a turn at
 * once, and wait for that.
 */
uint64_t wait_patience_ns(const struct algo_limit *limit, uint64_t max_wait_ns);

/** How many requests may wait for one key. */
size_t wait_queue_max(const struct algo_limit *limit);

/**
 * Why a request that was denied, or that finds others before it, is not to wait: it can't
 * pass within `max_wait_ns`. Returns WEIR_REASON_OK if it is to wait.
 */
enum weir_reason wait_refusal_reason(const struct algo_limit *limit, enum wait_position position,
                                     uint64_t max_wait_ns, const struct weir_decision *decision);

/** Turns `decision` into a denial, also one that allowed: others wait before the request. */
void wait_deny(struct weir_decision *decision, enum weir_reason reason);

#endif
