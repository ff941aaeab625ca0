/*
 * phase_times.h: sums how long a breaker's keys were open, half-open or in their ramp, over time.
 *
 * Only keys that are not closed are stored, at most PHASES_KEYS_MAX.
 */
#ifndef SIMULATE_PHASE_TIMES_H
#define SIMULATE_PHASE_TIMES_H

#include "algo/outcomes/breaker_state.h"
#include "simulate/report/timeline.h"

#define PHASES_KEYS_MAX 65536

/* Zeroed is empty. */
struct phases {
	void *keys; /* a tree of the keys that are not closed, see tsearch(3) */
	size_t key_count;
	uint64_t opened;    /* how often a key opened */
	uint64_t untracked; /* openings that are not timed, beyond PHASES_KEYS_MAX */
	struct timeline_counts sum;
	struct timeline timeline;
};

/**
 * Records the phase of a key after a call at `now_ns`. Times must not decrease. Returns false if
 * out of memory.
 */
bool phases_record(struct phases *phases, const struct algo_limit *limit, uint64_t key,
                   const struct algo_decision *outcome, uint64_t now_ns);

/** Ends all phases at `now_ns`. */
void phases_end(struct phases *phases, const struct algo_limit *limit, uint64_t now_ns);

void phases_close(struct phases *phases);

#endif
