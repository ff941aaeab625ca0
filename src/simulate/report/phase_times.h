/*
 * phase_times.h: how long a limit's keys were open, half-open or in their ramp, over time.
 *
 * Only keys that are not closed are remembered, PHASES_KEYS_MAX of them at most.
 */
#ifndef SIMULATE_PHASE_TIMES_H
#define SIMULATE_PHASE_TIMES_H

#include "algo/outcomes/breaker_state.h"
#include "simulate/report/timeline.h"

#define PHASES_KEYS_MAX 65536

/* Zeroed is empty. */
struct phases {
	void *keys; /* those that are not closed, a tree */
	size_t key_count;
	uint64_t opened;    /* how often a key opened */
	uint64_t untracked; /* of these, past PHASES_KEYS_MAX */
	struct timeline_counts sum;
	struct timeline timeline;
};

/**
 * Notes the phase that a call at `now_ns` left a key in. Times never go back. False: out of
 * memory.
 */
bool phases_note(struct phases *phases, const struct algo_limit *limit, uint64_t key,
                 const struct algo_decision *outcome, uint64_t now_ns);

/** Nothing comes behind `now_ns`: counts what has not ended. */
void phases_end(struct phases *phases, const struct algo_limit *limit, uint64_t now_ns);

void phases_close(struct phases *phases);

#endif
