/*
 * replay.h: a trace in virtual time through scenarios.
 *
 * In batches, by the passes that the server makes over a loop turn, each
 * request at its own time. Where limits are told how requests end, one that has
 * passed is reported when it ends.
 */
#ifndef SIMULATE_REPLAY_H
#define SIMULATE_REPLAY_H

#include <stdio.h>

#include "simulate/input/ending.h"
#include "simulate/input/time_order.h"
#include "simulate/scenario.h"

/* A source of requests. */
struct source {
	/** 1: *record is the next, its values good until the next call; 0 at the end; or an error. */
	int (*next)(void *context, struct record *record, struct weir_error *error);
	void *context;
};

struct replay {
	struct scenario *scenarios;
	size_t scenario_count;
	struct fields fields;
	FILE *decisions; /* a JSON line for each request and limit, in the log's order; or NULL */
	/** Told now and then how many requests were read; may be NULL. */
	void (*progress)(void *context, uint64_t requests);
	void *progress_context;

	bool reads_ends; /* a scenario is told how requests end: */
	struct endings endings;
	uint64_t early;  /* ended before their time, since too many were in flight */
	uint64_t unheld; /* had to make room in a table before they ended */

	uint64_t requests;
	uint64_t first_ns, last_ns; /* when the first and the last counted */
	uint64_t without[FORMAT_FIELDS_MAX]; /* requests of which a key lacks this field */
	struct order_stats order;
};

/**
 * Until the source ends. Errors: those of the
 * source, EIO (decisions not written), ENOMEM.
 */
int replay_run(struct replay *replay, const struct source *source, struct weir_error *error);

/**
 * Puts intervals of the timelines together until none has more than `most`, and all have one
 * width, so that they can be shown side by side.
 */
void replay_widen(const struct replay *replay, size_t most);

#endif
