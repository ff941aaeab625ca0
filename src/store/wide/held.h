/*
 * held.h: a key of a limit whose requests are reported, as one call reads it: its header and row
 * in the limit's newest table, and those in former tables, whose records count until they end.
 *
 * The header counts nothing. It keeps the row the key's for as long as a record in the row may
 * count, and each record changes by a swap of its own. What a record is, src/rows says for places
 * (places.h), breakers (health.h), accepted requests (accepts.h) and requests in flight (flying.h).
 */
#ifndef STORE_HELD_H
#define STORE_HELD_H

#include "rows/newest.h"
#include "store/wide/wide.h"

#define HELD_ROWS_MAX (1 + SECTION_FORMERS)

struct held {
	const struct holder *holder;
	const struct algo_limit *limit; /* in force when the key was read */
	uint64_t now_ns;
	size_t count;
	struct wide_state rows[HELD_ROWS_MAX]; /* the newest table's first, which may have no header */
};

/** Before the first read. The rest of `held` is set by the read: it has 2 KB. */
static inline void held_begin(struct held *held, const struct holder *holder)
{
	held->holder = holder;
	held->limit = *holder->by;
	held->now_ns = holder->now_ns;
}

/** Reads the headers of the key, by the limit that has taken over. */
void held_find(struct held *held);

/** The same of the newest table alone. */
void held_find_first(struct held *held);

/** Whether all headers are as they were read: no record that is counted in one was released. */
bool held_is_unchanged(const struct held *held);

/** Whether another call that reads the key from now on reads the same rows, by the same limit. */
bool held_is_newest(const struct held *held);

/** Whether there is no room for a header that is missing. */
static inline bool held_is_full(const struct held *held)
{
	return wide_is_full(&held->rows[0], held->now_ns);
}

enum held_kept {
	HELD_KEPT,    /* the header is the one wanted */
	HELD_CHANGED, /* others have changed it, or it is a new one: read the key anew */
	HELD_NO_ROOM,
};

/** Swaps the header in the newest table for `head`, or makes one. What was read of the row stands. */
enum held_kept held_store(struct held *held, struct cell head);

/* Visits the ends of those records of a row that a refund without a permit may give back. */
typedef void held_ends(const struct algo_limit *limit, uint64_t now_ns, const struct row_state *at,
                       newest_visit *visit, struct newest *newest);

/** The same of all rows. */
void held_visit(const struct held *held, held_ends *ends, newest_visit *visit,
                struct newest *newest);

/** After a first pass that has added all ends: finds the `n` newest, no more than that began with.
 */
void held_find_newest(const struct held *held, held_ends *ends, uint64_t n, struct newest *newest);

#endif
