/*
 * newest.h: finds the n newest of many entries, which a refund without a permit releases.
 *
 * The ends of all entries would need 80 KB, and the work must stay bounded. So a first pass over
 * the entries samples their ends, a second pass counts around the n-th end, and in a third pass the
 * caller releases the entries that newest_includes() accepts. If n is up to 256, the first pass
 * keeps all ends that matter, and the second is not needed.
 *
 * The sample: each NEWEST_CHUNK consecutive ends are sorted, and each NEWEST_STEP-th of them is
 * kept. The rank of a sample is therefore known to within NEWEST_STEP - 1 for each chunk, whatever
 * the ends are. So few ends lie between the two samples that surely surround the n-th end that they
 * can be kept.
 *
 * An end is any number except 0 that grows with time, and is the same in all passes.
 */
#ifndef RECORDS_NEWEST_H
#define RECORDS_NEWEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/record_kinds.h"

#define NEWEST_CHUNK 512
#define NEWEST_STEP  16

/* The widest record, and as many entries in the narrower records of former tables. */
#define NEWEST_CHUNKS  (2 * ALGO_WIDTH_MOST / NEWEST_CHUNK)
#define NEWEST_SAMPLES (NEWEST_CHUNKS * NEWEST_CHUNK / NEWEST_STEP)
#define NEWEST_BETWEEN (2 * NEWEST_CHUNKS * (NEWEST_STEP - 1) + 2 * NEWEST_STEP)

struct newest {
	uint64_t n;     /* how many are wanted */
	uint64_t count; /* ends added */
	uint64_t least; /* at least n ends are this or later, so earlier ones are ignored */
	size_t chunk_count, sample_count;
	unsigned reduced_chunks;
	uint64_t upper_sample, lower_sample; /* the samples that surround the n-th end */
	uint64_t above_upper, at_upper, at_lower;
	size_t between_count;
	/* The n newest are all that end after `nth_end`, and `then_at_nth` of those that end then. */
	uint64_t nth_end, then_at_nth;
	union {
		struct {
			uint64_t chunk[NEWEST_CHUNK], sample[NEWEST_SAMPLES];
		};
		uint64_t ends[NEWEST_BETWEEN];
	};
};

_Static_assert(sizeof(struct newest) <= 16384, "it is on the stack");

/* Handles one end in a pass. */
typedef void newest_visit(struct newest *newest, uint64_t end);

/** `n` is at least 1. */
void newest_begin(struct newest *newest, uint64_t n);

/** First pass: adds an end. */
void newest_add_end(struct newest *newest, uint64_t end);

/**
 * Ends the first pass, and searches for the `n` newest, no more than newest_begin got. Returns
 * whether a second pass is needed.
 */
bool newest_needs_count(struct newest *newest, uint64_t n);

/** Second pass: adds an end. */
void newest_count_end(struct newest *newest, uint64_t end);

/**
 * Ends the second pass. Returns false if other threads have changed so many entries meanwhile that
 * the first pass has to be repeated.
 */
bool newest_end_count(struct newest *newest);

/** Whether an entry that ends at `end` is one of the n newest. */
static inline bool newest_includes(const struct newest *newest, uint64_t end)
{
	return end > newest->nth_end || (end == newest->nth_end && newest->then_at_nth > 0);
}

/** Counts the release of such an entry. */
static inline void newest_count_release(struct newest *newest, uint64_t end)
{
	newest->then_at_nth -= end == newest->nth_end;
}

#endif
