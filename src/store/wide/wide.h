/*
 * wide.h: finds, stores and changes wide states in the tables of a store. A wide state needs more
 * than a key's cell of 16 bytes: that cell is its header, and a record of further cells belongs to
 * it (records/record.h).
 */
#ifndef STORE_WIDE_H
#define STORE_WIDE_H

#include "store/apply_step.h"

/* Where a wide state is, and its header as it was read. */
struct wide_state {
	struct wide_table *newest_table; /* the limit's newest table, in which a new header is made */
	struct wide_table *header_table; /* the table that has the header, or newest_table if none has;
	                                    NULL for the state of a limit without keys */
	struct table_position position;
	struct record_state at;
};

/** The record behind a cell of the table; its entries carry this tag. */
static inline struct record wide_record(const struct wide_table *wide, struct cell *header,
                                        uint32_t tag)
{
	ptrdiff_t index = header ? header - wide->table.cells : 0;
	unsigned width = wide->section.record_cells;

	return (struct record){wide->records + index * (ptrdiff_t)width, width, tag,
	                       wide->table.load_is_atomic};
}

/** Whether a header still has this value. */
static inline bool wide_cell_is_unchanged(struct cell *cell, struct cell value,
                                          const struct record *record)
{
	return cell_bits(cell_load(cell, record->load_is_atomic)) == cell_bits(value);
}

/**
 * Finds the key's header in a table, or in the former tables in which keys stay
 * (wide_usable_former). It is in one of them at most.
 */
void wide_find(struct wide_table *newest, const struct store_key *key, struct wide_state *state);

/** Whether the header is unchanged since it was read. */
bool wide_is_unchanged(const struct wide_state *state);

/**
 * Swaps the header for `after`, or inserts it. An insert may evict the state of another key: peeks
 * by the step's limit tell how much other keys have in use. Returns false if the header has changed
 * or the table is full (wide_is_full).
 */
bool wide_store_header(struct wide_state *state, const struct record_step *step, struct cell after);

/** Whether the header is missing and there is no capacity to insert it. */
bool wide_is_full(const struct wide_state *state, uint64_t now_ns);

enum wide_widening {
	WIDE_NOT_NEEDED, /* there is no log to move */
	WIDE_RETRY,      /* this or another thread has changed something: start over */
	WIDE_ANSWERED,   /* the call was a peek, and `out` is its decision */
};

/** Moves a log from a narrower record in a former table, step by step. */
enum wide_widening wide_widen_log(struct wide_state *newest, const struct store_key *key,
                                  const struct record_step *step, struct algo_decision *out);

/* The state that a call is on: a key's in a store, or one header and record. */
struct call_target {
	struct memory *store;
	const struct store_key *key;
	const struct wide_state *single_state; /* of a limit without keys; `store` is NULL then */
	const struct algo_limit *
	    *limit; /* in: the limit; out: the limit that has replaced it, if any */
	uint64_t now_ns;
};

/**
 * wide_apply and wide_apply_cell for limits whose requests are reported: on concurrency, breakers,
 * on the success ratio, and measured limits on permits in flight.
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
