/*
 * flying.h: a key's permits in flight, and the measurements of their reports, in its row.
 *
 *     flights     tag 32 | part's number 12 | given in that part 14, in the one before 14, …
 *     seen, room  tag 32 | 96 bits of struct headroom: which priorities ask, and the room of each
 *     estimate    tag 32 | 96 bits of an estimator (algo/measured/estimate.h), one cell or more
 *
 * All permits in flight are in one cell, so check and add are one compare-and-swap, and no more are
 * in flight than the limit that was read. A part is a fifth of a permit's time, so those of
 * FLYING_PARTS parts are all that can be in flight. Parts leave the cell as time goes on.
 *
 * The key's head counts nothing: it keeps the row. While permits fly it is HELD until the newest
 * part is over, and no other key can evict it. Without permits it is not HELD, and keeps the
 * measurements for FLYING_KEEP_NS. In between it is closing (rows.h). A new head is VOID: the row
 * is first cleaned of an earlier life of the key. The head's word tells lives apart, by 14 bits.
 */
#ifndef ROWS_FLYING_H
#define ROWS_FLYING_H

#include "algo/measured/estimate.h"
#include "algo/priority/headroom.h"
#include "rows/rows.h"

/* So long what was measured is kept without a request. */
#define FLYING_KEEP_NS (3600 * NS_PER_S)

#define FLYING_GIVEN_BITS 14
#define FLYING_GIVEN_MAX  ((1U << FLYING_GIVEN_BITS) - 1)

struct flights {
	uint64_t part; /* the newest */
	u128 given;    /* FLYING_GIVEN_BITS each: in that, in the one before, … */
	uint64_t sum;  /* of these */
};

struct flying_look {
	struct cell cell; /* as the flights are kept, ... */
	struct flights flights; /* and as they are now */
	uint64_t lost;          /* whose time is over, and which the cell still has */
	uint64_t in_flight;
	struct estimate_cell estimate[ESTIMATE_CELLS_MAX];
	struct cell kept[ESTIMATE_CELLS_MAX]; /* as these are kept */
	struct headroom headroom;
	struct cell seen, room; /* as that is kept */
	bool has_priorities;    /* some request had one */
};

/** When a permit that is good until then was given, to FLYING_START_NS. */
static inline uint64_t flying_start_ns(const struct flying_params *params, uint64_t until_ns)
{
	return until_ns / FLYING_START_NS * FLYING_START_NS - params->timeout_ns;
}

/** The part that a permit is of which was given then. */
static inline uint64_t flying_part_of(const struct flying_params *params, uint64_t start_ns)
{
	return divide_by(start_ns, params->part_ns, params->part_inverse);
}

/** The part of one that is given now. */
static inline uint64_t flying_part(const struct flying_params *params, uint64_t now_ns)
{
	return flying_part_of(params, flying_start_ns(params, now_ns + params->timeout_ns));
}

/** When a permit that is given at a time, in a window, is over. */
static inline uint64_t flying_until_ns(const struct flying_params *params, uint64_t start_ns,
                                       uint8_t window)
{
	return (start_ns + params->timeout_ns) / FLYING_START_NS * FLYING_START_NS + window;
}

/** When the last permit given in a part is over. */
static inline uint64_t flying_end_ns(const struct flying_params *params, uint64_t part)
{
	return (part + FLYING_PARTS) * params->part_ns;
}

enum flying_head {
	FLYING_NONE, /* no head, or it says nothing any more */
	FLYING_VOID,
	FLYING_OPEN, /* held or not */
};

enum flying_head flying_head_of(const struct algo_limit *limit, const struct row_state *at,
                                uint64_t now_ns);

/** A new head. */
struct cell flying_void(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns);
/** A head that says nothing any more, to clocks that lag either. */
struct cell flying_spent(uint32_t tag, uint64_t now_ns);
/**
 * The head while permits fly whose newest part is that; whether a head is as good. One that is too
 * far ahead is not: the flights' number would not be clear by it.
 */
struct cell flying_held(const struct algo_limit *limit, struct cell head, uint64_t part);
bool flying_fits(const struct algo_limit *limit, struct cell head, uint32_t tag, uint64_t part);
/** The head while none does. */
struct cell flying_rest(struct cell head, uint64_t now_ns);

/** Whether heads are of one life of the key, in which no flight was cleaned. */
static inline bool flying_is_same_life(struct cell head, struct cell other)
{
	return ((cell_word(head) ^ cell_word(other)) & ROW_WORD_MASK) == 0;
}

/** Empties all cells of a row whose head is void. Returns false if it is not any more. */
bool flying_clean(const struct algo_limit *limit, const struct row_state *at);

/** Reads a row with its head; one without cells is that of a key which has none yet. */
void flying_look(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                 const struct row *row, struct flying_look *look);

/*
 * The functions below swap a cell, if it is as the look has found it, and change the look so.
 * False: it has changed, or as said.
 */

/** The flights as they are now. */
bool flying_settle(const struct row_state *at, struct flying_look *look);
/** One more in the newest part; also false: no more fit. */
bool flying_give(const struct row_state *at, struct flying_look *look);
/** So many less of a part, of which no fewer fly. */
bool flying_take(const struct row_state *at, struct flying_look *look, uint64_t part, uint64_t n);
/** A cell of the estimate. */
bool flying_learn(const struct row_state *at, struct flying_look *look,
                  const struct estimate_change *change);
/** Whether the flights are still as the look has them. */
bool flying_still(const struct row_state *at, const struct flying_look *look);

/** Swaps what differs of the look's headroom; false if others have changed it. */
bool flying_prefer(const struct row_state *at, const struct flying_look *look,
                   const struct headroom *after);

/** How many fly that were given so many parts before the newest. */
static inline uint32_t flights_given(const struct flights *flights, unsigned before)
{
	return (uint32_t)(flights->given >> before * FLYING_GIVEN_BITS) & FLYING_GIVEN_MAX;
}

/** How many fly that were given in a part. */
static inline uint64_t flights_of(const struct flights *flights, uint64_t part)
{
	uint64_t before = flights->part - part; /* of a later part far more */

	return before < FLYING_PARTS ? flights_given(flights, (unsigned)before) : 0;
}

#endif
