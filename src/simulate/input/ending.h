/*
 * ending.h: reads the latency and the outcome of a request from the fields of its log line.
 *
 * The fields are read only if a limit needs reports. nginx's request_time also shows when a request
 * began, since nginx logs the time at which it ended.
 */
#ifndef SIMULATE_ENDING_H
#define SIMULATE_ENDING_H

#include "base/number.h"
#include "simulate/input/format.h"

/* A longer latency counts as wrong. */
#define ENDING_LATENCY_MAX_NS NS_PER_DAY

/* In order of precedence: the first latency and the first outcome of a request count. */
enum {
	ENDING_LATENCY_MS,
	ENDING_LATENCY,
	ENDING_UPSTREAM_TIME,
	ENDING_REQUEST_TIME,
	ENDING_OUTCOME,
	ENDING_STATUS,
	ENDING_FIELDS,
};

_Static_assert(ENDING_FIELDS == FORMAT_ENDING_FIELDS, "format.h reserves this many fields");

struct endings {
	size_t fields[ENDING_FIELDS]; /* their indices in struct fields */

	/* Counts of the requests so far: */
	uint64_t invalid;    /* with an invalid latency or outcome, which is ignored */
	uint64_t no_latency; /* with an outcome only: end at once */
	uint64_t no_outcome; /* with a latency only: succeed */
	uint64_t no_end;     /* with neither: are never reported */
};

/** Appends these fields to `fields`, except those that it has already. */
void endings_add_fields(struct endings *endings, struct fields *fields);

/** Fills in latency, outcome and end of *record, and changes its time to that of its beginning. */
void endings_read(struct endings *endings, struct record *record);

/** Whether *record has a latency. */
bool endings_has_latency(const struct endings *endings, const struct record *record);

#endif
