/*
 * in_flight.h: a key's permits in flight, and the measurements of their reports, in its record.
 *
 *     counts     tag 32 | part's number 12 | given in that part 14, in the one before 14, …
 *     seen, room  tag 32 | 96 bits of struct headroom: which priorities ask, and the room of each
 *     estimate    tag 32 | 96 bits of an estimator (algo/measured/estimate.h), one cell or more
 *
 * All permits in flight are in one cell, so check and add are one compare-and-swap, and no more are
 * in flight than the limit that was read. A part is a fifth of a permit's time, so those of
 * IN_FLIGHT_PARTS parts are all that can be in flight. Parts leave the cell as time goes on.
 *
 * The key's header counts nothing: it keeps the record. While permits fly it is HELD until the
 * newest part is over, and no other key can evict it. Without permits it is not HELD, and keeps the
 * measurements for IN_FLIGHT_RETENTION_NS. In between it is closing (records.h). A new header is
 * VOID: the record is first cleaned of an earlier life of the key. The header's word tells lives
 * apart, by 14 bits.
 */
#ifndef RECORDS_FLYING_H
#define RECORDS_FLYING_H

#include "algo/measured/estimate.h"
#include "algo/priority/headroom.h"
#include "records/record.h"

/* So long what was measured is kept without a request. */
#define IN_FLIGHT_RETENTION_NS (3600 * NS_PER_S)

#define IN_FLIGHT_GIVEN_BITS 14
#define IN_FLIGHT_GIVEN_MAX  ((1U << IN_FLIGHT_GIVEN_BITS) - 1)

struct in_flight_counts {
	uint64_t part; /* the newest */
	u128 given;    /* IN_FLIGHT_GIVEN_BITS each: in that, in the one before, … */
	uint64_t sum;  /* of these */
};

struct in_flight_snapshot {
	struct cell cell;               /* as the counts are kept, ... */
	struct in_flight_counts counts; /* and as they are now */
	uint64_t lost;                  /* whose time is over, and which the cell still has */
	uint64_t in_flight;
	struct estimate_cell estimate[ESTIMATE_CELLS_MAX];
	struct cell kept[ESTIMATE_CELLS_MAX]; /* as these are kept */
	struct headroom headroom;
	struct cell seen, room; /* as that is kept */
	bool has_priorities;    /* some request had one */
};

/** When a permit that is good until then was given, to IN_FLIGHT_START_NS. */
static inline uint64_t in_flight_start_ns(const struct in_flight_params *params, uint64_t until_ns)
{
	return until_ns / IN_FLIGHT_START_NS * IN_FLIGHT_START_NS - params->timeout_ns;
}

/** The part that a permit is of which was given then. */
static inline uint64_t in_flight_part_of(const struct in_flight_params *params, uint64_t start_ns)
{
	return divide_by(start_ns, params->part_ns, params->part_inverse);
}

/** The part of one that is given now. */
static inline uint64_t in_flight_part(const struct in_flight_params *params, uint64_t now_ns)
{
	return in_flight_part_of(params, in_flight_start_ns(params, now_ns + params->timeout_ns));
}

/** When a permit that is given at a time, in a window, is over. */
static inline uint64_t in_flight_until_ns(const struct in_flight_params *params, uint64_t start_ns,
                                          uint8_t window)
{
	return (start_ns + params->timeout_ns) / IN_FLIGHT_START_NS * IN_FLIGHT_START_NS + window;
}

/** When the last permit given in a part is over. */
static inline uint64_t in_flight_end_ns(const struct in_flight_params *params, uint64_t part)
{
	return (part + IN_FLIGHT_PARTS) * params->part_ns;
}

enum in_flight_header {
	IN_FLIGHT_NONE, /* no header, or it says nothing any more */
	IN_FLIGHT_VOID,
	IN_FLIGHT_OPEN, /* held or not */
};

enum in_flight_header in_flight_header_of(const struct algo_limit *limit,
                                          const struct record_state *at, uint64_t now_ns);

/** A new header. */
struct cell in_flight_void_header(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns);
/** A header that says nothing any more, to clocks that lag either. */
struct cell in_flight_spent_header(uint32_t tag, uint64_t now_ns);
/**
 * The header while permits fly whose newest part is that; whether a header is as good. One that is
 * too far ahead is not: the counts' number would not be clear by it.
 */
struct cell in_flight_pinned_header(const struct algo_limit *limit, struct cell header,
                                    uint64_t part);
bool in_flight_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                           uint64_t part);
/** The header while none does. */
struct cell in_flight_idle_header(struct cell header, uint64_t now_ns);

/** Whether headers are of one life of the key, in which no flight was cleaned. */
static inline bool in_flight_is_same_life(struct cell header, struct cell other)
{
	return ((cell_word(header) ^ cell_word(other)) & RECORD_WORD_MASK) == 0;
}

/** Empties all cells of a record whose header is void. Returns false if it is not any more. */
bool in_flight_clean(const struct algo_limit *limit, const struct record_state *at);

/** Reads a record with its header; one without cells is that of a key which has none yet. */
void in_flight_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                    const struct record *record, struct in_flight_snapshot *snapshot);

/*
 * The functions below swap a cell, if it is as the look has found it, and change the look so.
 * False: it has changed, or as said.
 */

/** The counts as they are now. */
bool in_flight_store_expiry(const struct record_state *at, struct in_flight_snapshot *snapshot);
/** One more in the newest part; also false: no more fit. */
bool in_flight_acquire(const struct record_state *at, struct in_flight_snapshot *snapshot);
/** So many less of a part, of which no fewer fly. */
bool in_flight_release(const struct record_state *at, struct in_flight_snapshot *snapshot,
                       uint64_t part, uint64_t n);
/** A cell of the estimate. */
bool in_flight_store_estimate(const struct record_state *at, struct in_flight_snapshot *snapshot,
                              const struct estimate_change *change);
/** Whether the counts are still as the look has them. */
bool in_flight_is_unchanged(const struct record_state *at,
                            const struct in_flight_snapshot *snapshot);

/** Swaps what differs of the look's headroom; false if others have changed it. */
bool in_flight_store_headroom(const struct record_state *at,
                              const struct in_flight_snapshot *snapshot,
                              const struct headroom *after);

/** How many fly that were given so many parts before the newest. */
static inline uint32_t in_flight_before(const struct in_flight_counts *counts, unsigned before)
{
	return (uint32_t)(counts->given >> before * IN_FLIGHT_GIVEN_BITS) & IN_FLIGHT_GIVEN_MAX;
}

/** How many fly that were given in a part. */
static inline uint64_t in_flight_of_part(const struct in_flight_counts *counts, uint64_t part)
{
	uint64_t before = counts->part - part; /* of a later part far more */

	return before < IN_FLIGHT_PARTS ? in_flight_before(counts, (unsigned)before) : 0;
}

#endif
