/* wait.h: acquiring that blocks its thread until a deadline. */
#ifndef ENGINE_WAIT_H
#define ENGINE_WAIT_H

#include "base/clock.h"
#include "engine/limit.h"
#include "engine/room.h"

struct wait {
	const struct weir_limit *limit;
	const struct clock *clock; /* of what is asked */
	struct room **room;        /* made by the first who has to wait */
	uint64_t hash;             /* of the key */
	uint64_t cost;             /* checked before, as the key is */
	/* Asks at `now_ns`, which may be WEIR_NOW. */
	void (*ask)(struct wait *wait, const struct algo_call *call, uint64_t now_ns,
	            struct weir_decision *decision);
};

/** As weir_acquire_wait. 0 or ENOMEM. */
int wait_acquire(struct wait *wait, uint64_t deadline_ns, struct weir_decision *decision);

/**
 * How long a request may wait for a key of the limit whose caller would wait `asked_ns`:
 * 0: he did not say, WEIR_ZERO: not at all. What is paced waits by itself, and not here.
 */
uint64_t wait_patience_ns(const struct weir_limit *limit, uint64_t asked_ns);

/** Whether `retry_after_ns` tells when it passes, were nobody else to come. */
bool wait_is_exact(const struct weir_limit *limit);

/** How many may wait for one key. */
size_t wait_queue_max(const struct weir_limit *limit);

/** Whether it is known that what was denied, or is others' first, won't pass in so long. */
bool wait_is_vain(const struct weir_limit *limit, const struct weir_decision *decision,
                  uint64_t patience_ns);

/** Makes a denial of what may have been none, since the key is others' first. */
void wait_deny(struct weir_decision *decision, enum weir_reason reason);

#endif
