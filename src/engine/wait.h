/* wait.h: acquiring that blocks its thread until a deadline. */
#ifndef ENGINE_WAIT_H
#define ENGINE_WAIT_H

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/room.h"

/* Who waits: for a limit without keys, or a request. */
struct wait {
	const struct clock *clock;
	struct room **room; /* made by the first who has to wait */
	/*
	 * Decides as of now, for who would wait so long (as in struct engine_request). False:
	 * he is to wait for `hash`, a key of `limit`, which are set.
	 */
	bool (*decide)(struct wait *wait, enum engine_place place, uint64_t max_wait_ns,
	               struct moment at, struct weir_decision *decision);
	/* Instead of waiting for that. */
	void (*deny)(struct wait *wait, enum weir_reason reason, struct moment at,
	             struct weir_decision *decision);
	const struct weir_limit *limit;
	uint64_t hash;
	uint64_t turn_ns; /* wait_acquire's: when what was decided may act, by the monotonic clock */
};

/** As weir_acquire_wait. 0 or ENOMEM. */
int wait_acquire(struct wait *wait, uint64_t deadline_ns, struct weir_decision *decision);

/** The same for a request to acquire, prepared for `table`. */
int wait_request(struct weir_table *table, struct engine_request *request, uint64_t deadline_ns,
                 struct weir_decision *decision);

/**
 * How long a request may wait for a key of the limit whose caller would wait `asked_ns`:
 * 0: he did not say, WEIR_ZERO: not at all. What is paced waits by itself, and not here.
 */
uint64_t wait_patience_ns(const struct weir_limit *limit, uint64_t asked_ns);

/** How many may wait for one key. */
size_t wait_queue_max(const struct weir_limit *limit);

/**
 * Why a request that was denied, or finds others first, is not to wait: it is known that
 * it won't pass in so long. WEIR_REASON_OK: it is to.
 */
enum weir_reason wait_refusal(const struct weir_limit *limit, enum engine_place place,
                              uint64_t max_wait_ns, const struct weir_decision *decision);

/** Makes a denial of what may have been none, since the key is others' first. */
void wait_deny(struct weir_decision *decision, enum weir_reason reason);

#endif
