/*
 * ending.h: how a log says that a request ended: after how long, and how well.
 *
 * These are fields like others, which are only asked for where a limit is to be told. nginx's
 * request_time also says when a request began, since nginx writes the time at which it ended.
 */
#ifndef SIMULATE_ENDING_H
#define SIMULATE_ENDING_H

#include "base/number.h"
#include "simulate/input/format.h"

/* Longer than this no call takes. */
#define ENDING_LATENCY_MAX_NS NS_PER_DAY

/* In the order in which they count: the first latency, the first outcome that a request has. */
enum {
	ENDING_LATENCY_MS,
	ENDING_LATENCY,
	ENDING_UPSTREAM_TIME,
	ENDING_REQUEST_TIME,
	ENDING_OUTCOME,
	ENDING_STATUS,
	ENDING_FIELDS,
};

_Static_assert(ENDING_FIELDS == FORMAT_ENDING_FIELDS, "there is room for them");

struct endings {
	size_t fields[ENDING_FIELDS]; /* where they stand among those asked for */

	/* Counts of the requests so far: */
	uint64_t wrong;      /* had a field that is no latency or no outcome, which is passed over */
	uint64_t no_latency; /* end at once */
	uint64_t no_outcome; /* but a latency: succeed */
	uint64_t no_end;     /* neither: are never reported */
};

/** Asks for these fields, which stand behind all others but those that are asked for already. */
void endings_add_fields(struct endings *endings, struct fields *fields);

/** Fills what *record says about its end, and makes its time that of its beginning. */
void endings_read(struct endings *endings, struct record *record);

/** Whether *record has a latency. */
bool endings_has_latency(const struct endings *endings, const struct record *record);

#endif
