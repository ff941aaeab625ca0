/*
 * newest.h: the n newest of many entries, which a refund without a permit gives back.
 *
 * The ends of all entries together would need 80 KB, and the work must stay bounded. So a first
 * pass over the entries keeps a sample of their ends, a second one counts around the one that is
 * searched for, and a third, the caller's, gives back those that newest_includes() names. Where
 * there are 256 entries or fewer, the first pass keeps all ends, so the second is not needed.
 *
 * The sample: each NEWEST_CHUNK ends that come one after the other are sorted, and each
 * NEWEST_STEP-th of them is kept. So the rank of a sample is known to within NEWEST_STEP - 1 for
 * each chunk, whatever the ends are. Between the two samples that surely surround the n-th end,
 * there are then few ends enough to keep.
 *
 * An end is any number but 0 that grows with time, the same in all passes.
 */
#ifndef RECORDS_NEWEST_H
#define RECORDS_NEWEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/record_kinds.h"

#define NEWEST_CHUNK 512
#define NEWEST_STEP  16

/* The widest record, and as many entries in narrower ones of former tables. */
#define NEWEST_CHUNKS  (2 * ALGO_WIDTH_MOST / NEWEST_CHUNK)
#define NEWEST_SAMPLES (NEWEST_CHUNKS * NEWEST_CHUNK / NEWEST_STEP)
#define NEWEST_BETWEEN (2 * NEWEST_CHUNKS * (NEWEST_STEP - 1) + 2 * NEWEST_STEP)

struct newest {
	uint64_t n;
	uint64_t count; /* of all ends */
	uint64_t least; /* so many as n end then or later: earlier ones are ignored */
	size_t filled, samples;
	unsigned chunks;
	uint64_t later, earlier; /* the samples around the n-th end */
	uint64_t beyond, at_later, at_earlier;
	size_t between;
	/* Of the n newest all that end after it, and so many that end then. */
	uint64_t after, then;
	union {
		struct {
			uint64_t chunk[NEWEST_CHUNK], sample[NEWEST_SAMPLES];
		};
		uint64_t ends[NEWEST_BETWEEN];
	};
};

_Static_assert(sizeof(struct newest) <= 16384, "it is on the stack");

/* A pass, for an end. */
typedef void newest_visit(struct newest *newest, uint64_t end);

/** `n`: at least 1. */
void newest_begin(struct newest *newest, uint64_t n);

/** The first pass: an end. */
void newest_add_end(struct newest *newest, uint64_t end);

/**
 * Ends the first pass, and searches for no more than the number that it began with. Whether there
 * has to be a second.
 */
bool newest_needs_count(struct newest *newest, uint64_t n);

/** The second pass: an end. */
void newest_count_end(struct newest *newest, uint64_t end);

/**
 * Ends it. Returns false if so many others have changed entries meanwhile that all has to begin
 * anew.
 */
bool newest_end_count(struct newest *newest);

/** Whether an entry that ends then is one of the n newest. */
static inline bool newest_includes(const struct newest *newest, uint64_t end)
{
	return end > newest->after || (end == newest->after && newest->then > 0);
}

/** Such an entry was given back. */
static inline void newest_count_release(struct newest *newest, uint64_t end)
{
	newest->then -= end == newest->after;
}

#endif
