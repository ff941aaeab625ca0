/* wide.h: a head and its row, wherever they are. */
#ifndef STORE_WIDE_H
#define STORE_WIDE_H

#include "store/apply_step.h"

/* The place of a state, and the head that was found there. */
struct wide_state {
	struct wide_table *asked; /* the table that was searched first */
	struct wide_table *wide;  /* the one with the head, if any; NULL for one limit's own */
	struct table_position position;
	struct row_state at;
};

/** The row behind a cell of the table, whose entries carry this tag. */
static inline struct row wide_row(const struct wide_table *wide, struct cell *head, uint32_t tag)
{
	ptrdiff_t index = head ? head - wide->table.cells : 0;
	unsigned width = wide->section.row_cells;

	return (struct row){wide->rows + index * (ptrdiff_t)width, width, tag,
	                    wide->table.load_is_atomic};
}

/** Whether a header has still this value. */
static inline bool wide_is_still(struct cell *cell, struct cell value, const struct row *row)
{
	return cell_bits(cell_load(cell, row->load_is_atomic)) == cell_bits(value);
}

/**
 * The key's head in a table, or in those before it whose keys stay there (wide_usable_former). It
 * is in one of them at most.
 */
void wide_find(struct wide_table *wide, const struct store_key *key, struct wide_state *state);

/** Whether the head is what it was found as. */
bool wide_still(const struct wide_state *state);

/**
 * Swaps the head for `after`, or makes one; where others have to make room for it, a peek of
 * the step's limit tells how much they have in use. Returns false if it has changed, or
 * wide_is_full tells.
 */
bool wide_store_head(struct wide_state *state, const struct row_step *on, struct cell after);

/** Whether there is no room for a head that is missing. */
bool wide_is_full(const struct wide_state *state, uint64_t now_ns);

enum wide_carried {
	WIDE_NOTHING,  /* there is nothing to carry over */
	WIDE_AGAIN,    /* something was done, or others did it: look again */
	WIDE_ANSWERED, /* it was a peek, and `out` stands */
};

/** Carries a log over from a narrower row of a former table, step by step. */
enum wide_carried wide_carry_log(struct wide_state *newest, const struct store_key *key,
                                 const struct row_step *on, struct algo_decision *out);

/* Whose records a call is on: those of a key in a store, or one header and row. */
struct holder {
	struct memory *store;
	const struct store_key *key;
	const struct wide_state *alone;
	const struct algo_limit **by; /* in: the limit; out: the one that has taken over from it */
	uint64_t now_ns;
};

/**
 * wide_apply and wide_apply_cell for a limit whose requests are reported: with places, phases, a
 * count of accepted requests, or a measured limit of those in flight.
 */
uint64_t places_apply(const struct holder *holder, const struct algo_call *call,
                      struct algo_decision *out);
uint64_t health_apply(const struct holder *holder, const struct algo_call *call,
                      struct algo_decision *out);
uint64_t accepts_apply(const struct holder *holder, const struct algo_call *call,
                       struct algo_decision *out);
uint64_t flying_apply(const struct holder *holder, const struct algo_call *call,
                      struct algo_decision *out);

#endif
