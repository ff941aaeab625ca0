/*
 * replay.h: replays the requests of a log through scenarios (configurations to try, scenario.h),
 * each at its own time, without waiting.
 *
 * Requests are decided in batches, by the same passes as in the server (engine/pipeline.h). A limit
 * that learns from how requests end, such as a breaker, gets a report when a request that passed
 * ends.
 */
#ifndef SIMULATE_REPLAY_H
#define SIMULATE_REPLAY_H

#include <stdio.h>

#include "simulate/input/ending.h"
#include "simulate/input/time_order.h"
#include "simulate/scenario.h"

/* A source of requests. */
struct source {
	/**
	 * Returns 1 and sets *record to the next request, whose values are valid until the next call; 0
	 * at the end; or an error.
	 */
	int (*next)(void *context, struct record *record, struct weir_error *error);
	void *context;
};

struct replay {
	struct scenario *scenarios;
	size_t scenario_count;
	struct fields fields;
	FILE *decisions; /* a JSON line for each request and limit, in the log's order; or NULL */
	/** Called from time to time with the number of requests read; may be NULL. */
	void (*progress)(void *context, uint64_t requests);
	void *progress_context;

	bool reads_ends; /* a scenario needs reports; then these count: */
	struct endings endings;
	uint64_t ended_early;     /* because too many were in flight */
	uint64_t evicted_permits; /* requests whose permits the table evicted before they ended */

	uint64_t requests;
	uint64_t first_ns, last_ns;          /* times of the first and the last request */
	uint64_t seen;                       /* bit i: some request had attribute i, not empty */
	uint64_t without[FORMAT_FIELDS_MAX]; /* requests that lack this field of a key */
	struct order_stats order;
};

/** Replays until the source ends. Errors: those of the source, EIO (decisions not written), ENOMEM.
 */
int replay_run(struct replay *replay, const struct source *source, struct weir_error *error);

/**
 * Merges intervals of the timelines until none has more than `intervals_max` and all have the same
 * width, so that they can be shown side by side.
 */
void replay_widen(const struct replay *replay, size_t intervals_max);

#endif
