/* wide.h: a header and its record, wherever they are. */
#ifndef STORE_WIDE_H
#define STORE_WIDE_H

#include "store/apply_step.h"

/* The place of a state, and the header that was found there. */
struct wide_state {
	struct wide_table *asked; /* the table that was searched first */
	struct wide_table *wide;  /* the one with the header, if any; NULL for one limit's own */
	struct table_position position;
	struct record_state at;
};

/** The record behind a cell of the table, whose entries carry this tag. */
static inline struct record wide_record(const struct wide_table *wide, struct cell *header,
                                        uint32_t tag)
{
	ptrdiff_t index = header ? header - wide->table.cells : 0;
	unsigned width = wide->section.record_cells;

	return (struct record){wide->records + index * (ptrdiff_t)width, width, tag,
	                       wide->table.load_is_atomic};
}

/** Whether a header has still this value. */
static inline bool wide_cell_is_unchanged(struct cell *cell, struct cell value,
                                          const struct record *record)
{
	return cell_bits(cell_load(cell, record->load_is_atomic)) == cell_bits(value);
}

/**
 * The key's header in a table, or in those before it whose keys stay there (wide_usable_former). It
 * is in one of them at most.
 */
void wide_find(struct wide_table *wide, const struct store_key *key, struct wide_state *state);

/** Whether the header is what it was found as. */
bool wide_is_unchanged(const struct wide_state *state);

/**
 * Swaps the header for `after`, or makes one; where others have to make room for it, a peek of
 * the step's limit tells how much they have in use. Returns false if it has changed, or
 * wide_is_full tells.
 */
bool wide_store_header(struct wide_state *state, const struct record_step *on, struct cell after);

/** Whether there is no room for a header that is missing. */
bool wide_is_full(const struct wide_state *state, uint64_t now_ns);

enum wide_widening {
	WIDE_NOT_NEEDED, /* there is nothing to carry over */
	WIDE_RETRY,      /* something was done, or others did it: look again */
	WIDE_ANSWERED,   /* it was a peek, and `out` stands */
};

/** Carries a log over from a narrower record of a former table, step by step. */
enum wide_widening wide_widen_log(struct wide_state *newest, const struct store_key *key,
                                  const struct record_step *on, struct algo_decision *out);

/* Whose entries a call is on: those of a key in a store, or one header and record. */
struct call_target {
	struct memory *store;
	const struct store_key *key;
	const struct wide_state *alone;
	const struct algo_limit **limit; /* in: the limit; out: the one that has taken over from it */
	uint64_t now_ns;
};

/**
 * wide_apply and wide_apply_cell for a limit whose requests are reported: with places, phases, a
 * count of accepted requests, or a measured limit of those in flight.
 */
uint64_t leases_apply(const struct call_target *target, const struct algo_call *call,
                      struct algo_decision *out);
uint64_t breaker_apply(const struct call_target *target, const struct algo_call *call,
                       struct algo_decision *out);
uint64_t success_apply(const struct call_target *target, const struct algo_call *call,
                       struct algo_decision *out);
uint64_t in_flight_apply(const struct call_target *target, const struct algo_call *call,
                         struct algo_decision *out);

#endif
