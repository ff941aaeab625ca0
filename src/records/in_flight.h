/*
 * in_flight.h: keeps the permits of a key that are in flight, and the measurements made from their
 * reports, in a record.
 *
 *     counts      tag 32 | newest part's number 12 | given in it 14, in the part before 14, …
 *     requests    tag 32 | 96 bits of struct headroom: when each priority class requested last
 *     capacity    tag 32 | 96 bits of it: how far above the limit each class may go
 *     estimate    tag 32 | 96 bits of an estimator (algo/measured/estimate.h), one cell or more
 *
 * One cell counts all permits in flight, so one compare-and-swap checks the limit and adds a
 * permit. Permits are counted by the part of time in which they were given. A part is a fifth of a
 * permit's time, so permits of IN_FLIGHT_PARTS parts are all that can be in flight, and a part
 * leaves the cell once they have timed out.
 *
 * The header counts nothing: it retains the record. While permits are in flight it is PINNED until
 * the newest part times out, so no other key can evict it. Without permits it is unpinned and
 * retains the measurements for IN_FLIGHT_RETENTION_NS. In between it is closing (record.h). A new
 * header is VOID: the record is first cleaned of an earlier life of the key. The header's word has
 * a 14-bit number of the key's life.
 */
#ifndef RECORDS_IN_FLIGHT_H
#define RECORDS_IN_FLIGHT_H

#include "algo/measured/estimate.h"
#include "algo/priority/headroom.h"
#include "records/record.h"

/* Measurements are retained for this long without a request. */
#define IN_FLIGHT_RETENTION_NS (3600 * NS_PER_S)

#define IN_FLIGHT_GIVEN_BITS 14
#define IN_FLIGHT_GIVEN_MAX  ((1U << IN_FLIGHT_GIVEN_BITS) - 1)

struct in_flight_counts {
	uint64_t part;       /* the newest */
	u128 given_per_part; /* IN_FLIGHT_GIVEN_BITS each: those of the newest part, of the part before,
	                        … */
	uint64_t total;      /* of all parts */
};

struct in_flight_snapshot {
	struct cell counts_cell;        /* the stored counts, ... */
	struct in_flight_counts counts; /* and the counts at now_ns */
	uint64_t timed_out;             /* permits that the cell still counts */
	uint64_t in_flight;
	struct estimate_cell estimate[ESTIMATE_CELLS_MAX];
	struct cell estimate_stored[ESTIMATE_CELLS_MAX]; /* the stored cells of `estimate` */
	struct headroom headroom;
	struct cell requests_cell, capacity_cell; /* the stored cells of `headroom` */
	bool has_priorities;                      /* some request had a priority */
};

/** When a permit that ends at `until_ns` was given, rounded down to IN_FLIGHT_START_NS. */
static inline uint64_t in_flight_start_ns(const struct in_flight_params *params, uint64_t until_ns)
{
	return until_ns / IN_FLIGHT_START_NS * IN_FLIGHT_START_NS - params->timeout_ns;
}

/** The part that counts a permit given at `start_ns`. */
static inline uint64_t in_flight_part_of(const struct in_flight_params *params, uint64_t start_ns)
{
	return divide_by(start_ns, params->part_ns, params->part_inverse);
}

/** The part that counts a permit given at `now_ns`. */
static inline uint64_t in_flight_part(const struct in_flight_params *params, uint64_t now_ns)
{
	return in_flight_part_of(params, in_flight_start_ns(params, now_ns + params->timeout_ns));
}

/**
 * When a permit ends that is given at `start_ns` in a window of the estimator. Its low bits are the
 * window.
 */
static inline uint64_t in_flight_until_ns(const struct in_flight_params *params, uint64_t start_ns,
                                          uint8_t window)
{
	return (start_ns + params->timeout_ns) / IN_FLIGHT_START_NS * IN_FLIGHT_START_NS + window;
}

/** When the last permit of a part times out. */
static inline uint64_t in_flight_end_ns(const struct in_flight_params *params, uint64_t part)
{
	return (part + IN_FLIGHT_PARTS) * params->part_ns;
}

enum in_flight_header {
	IN_FLIGHT_NONE, /* no header, or a spent one */
	IN_FLIGHT_VOID,
	IN_FLIGHT_OPEN, /* pinned or not */
};

enum in_flight_header in_flight_header_of(const struct algo_limit *limit,
                                          const struct record_state *at, uint64_t now_ns);

/** The header of a new life of the key. */
struct cell in_flight_void_header(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns);
/** A spent header, also for clocks that lag. */
struct cell in_flight_spent_header(uint32_t tag, uint64_t now_ns);
/**
 * The header that retains the record until `part` times out, and whether a header does. A header
 * that is too far ahead doesn't fit: the number of the counts' part would be ambiguous.
 */
struct cell in_flight_pinned_header(const struct algo_limit *limit, struct cell header,
                                    uint64_t part);
bool in_flight_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                           uint64_t part);
/** The unpinned header, without permits in flight. */
struct cell in_flight_idle_header(struct cell header, uint64_t now_ns);

/** Whether two headers are of one life of the key, during which no count was cleaned. */
static inline bool in_flight_is_same_life(struct cell header, struct cell other)
{
	return ((cell_word(header) ^ cell_word(other)) & RECORD_WORD_MASK) == 0;
}

/** Empties all cells of a record whose header is VOID. Returns false if the header has changed. */
bool in_flight_clean(const struct algo_limit *limit, const struct record_state *at);

/** Reads the record. A record without cells is that of a key without a header. */
void in_flight_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                    const struct record *record, struct in_flight_snapshot *snapshot);

/*
 * The functions below swap a cell if it is as `snapshot` has it, and update `snapshot`. They return
 * false if the cell has changed, or for the reason given.
 */

/** Stores the counts without the permits that have timed out. */
bool in_flight_drop_timed_out(const struct record_state *at, struct in_flight_snapshot *snapshot);
/** Adds a permit to the newest part. Also false if the cell can count no more in it. */
bool in_flight_acquire(const struct record_state *at, struct in_flight_snapshot *snapshot);
/** Takes `n` permits off a part, which has at least as many. */
bool in_flight_release(const struct record_state *at, struct in_flight_snapshot *snapshot,
                       uint64_t part, uint64_t n);
/** Stores one cell of the estimate. */
bool in_flight_store_estimate(const struct record_state *at, struct in_flight_snapshot *snapshot,
                              const struct estimate_change *change);
/** Whether the stored counts are unchanged. */
bool in_flight_is_unchanged(const struct record_state *at,
                            const struct in_flight_snapshot *snapshot);

/** Stores a changed headroom. Returns false if another thread has changed the cells. */
bool in_flight_store_headroom(const struct record_state *at,
                              const struct in_flight_snapshot *snapshot,
                              const struct headroom *after);

/** How many permits are in flight that were given `before` parts before the newest part. */
static inline uint32_t in_flight_given_before(const struct in_flight_counts *counts,
                                              unsigned before)
{
	return (uint32_t)(counts->given_per_part >> before * IN_FLIGHT_GIVEN_BITS) &
	       IN_FLIGHT_GIVEN_MAX;
}

/** How many permits are in flight that were given in a part. */
static inline uint64_t in_flight_given_in(const struct in_flight_counts *counts, uint64_t part)
{
	uint64_t before = counts->part - part; /* wraps for a later part */

	return before < IN_FLIGHT_PARTS ? in_flight_given_before(counts, (unsigned)before) : 0;
}

#endif
