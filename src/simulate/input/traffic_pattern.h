/*
 * traffic_pattern.h: generates traffic that shows how limits behave.
 *
 * Its amount and times are relative to the rate of a limit. For example, `edge-burst` sends a whole
 * quota just before the end of a window and another just after it.
 */
#ifndef SIMULATE_TRAFFIC_PATTERN_H
#define SIMULATE_TRAFFIC_PATTERN_H

#include "base/buffer.h"
#include "engine/limit.h"
#include "simulate/input/format.h"

#define PATTERN_NAMES     "steady, edge-burst, ramp or flash-sale"
#define PATTERN_COUNT_MAX 1000000 /* the largest count of the limit's rate */

struct pattern_phase;

struct pattern {
	const struct pattern_phase *phase, *end; /* the current phase, and the end of all */
	const struct fields *fields;
	uint64_t clients;
	uint64_t quota, period_ns; /* of the limit: its rate */
	uint64_t begin_ns;         /* of the first phase */
	uint64_t parts;            /* sum of the phases before this one, in parts of a period */
	uint64_t sent;             /* requests in this phase */
	uint64_t number;           /* of the next request, from 0 */
	char address[32];
};

/** Appends a rule file with a limit of each algorithm, all at one rate. */
void pattern_add_limits(struct buffer *yaml);

/**
 * Opens a pattern for a limit of `quota` units per period. Errors: ENOTFOUND (no such pattern),
 * ERANGE (more than PATTERN_COUNT_MAX).
 */
int pattern_open(struct pattern *pattern, const char *name, const struct weir_limit *limit,
                 uint64_t quota, const struct fields *fields, struct weir_error *error);

/** The `next` function of a struct source. */
int pattern_next(void *pattern, struct record *record, struct weir_error *error);

#endif
