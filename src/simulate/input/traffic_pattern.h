/*
 * traffic_pattern.h: traffic made up to show limits at work.
 *
 * Its shape is relative to the rate that a limit declares, and so are its
 * times: `edge-burst` sends a whole quota just before the end of a window and
 * another just after it.
 */
#ifndef SIMULATE_TRAFFIC_PATTERN_H
#define SIMULATE_TRAFFIC_PATTERN_H

#include "base/buffer.h"
#include "engine/limit.h"
#include "simulate/input/format.h"

#define PATTERN_NAMES     "steady, edge-burst, ramp or flash-sale"
#define PATTERN_COUNT_MAX 1000000 /* of the limit's rate */

struct pattern_phase;

struct pattern {
	const struct pattern_phase *phase, *end; /* the one now, and past the last */
	const struct fields *fields;
	uint64_t clients;
	uint64_t count, period_ns;
	uint64_t begin_ns; /* of the first phase */
	uint64_t parts;    /* of a period, before this phase */
	uint64_t sent;     /* in the phase */
	uint64_t number;   /* of the request, from 0 */
	char address[32];
};

/**
 * Appends every algorithm at one rate, side by side, as a rule file: for callers without a file.
 */
void pattern_add_limits(struct buffer *yaml);

/**
 * Traffic for a limit of `count` per period. Errors: ENOTFOUND (no such pattern),
 * ERANGE (more than PATTERN_COUNT_MAX).
 */
int pattern_open(struct pattern *pattern, const char *name, const struct weir_limit *limit,
                 uint64_t count, const struct fields *fields, struct weir_error *error);

/**
 * A struct source's `next`. 1: *record is the next, good until the next call; 0 if there is none.
 */
int pattern_next(void *pattern, struct record *record, struct weir_error *error);

#endif
