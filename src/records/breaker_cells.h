/*
 * breaker_cells.h: says which cells of a breaker's record have which meaning, and tells in-flight
 * entries from others.
 */
#ifndef RECORDS_BREAKER_CELLS_H
#define RECORDS_BREAKER_CELLS_H

#include "algo/algo.h"
#include "algo/outcomes/breaker_state.h"
#include "records/record.h"

/*
 * The first bit of a name. No count of permits reaches it, so that neither is taken for the other.
 */
#define BREAKER_NAME_BIT      (UINT32_C(1) << 31)
#define BREAKER_IN_FLIGHT_MAX (BREAKER_NAME_BIT - 1)

#define BREAKER_PHASE_AT     0
#define BREAKER_QUIESCENT_AT 1
#define BREAKER_LAYOUT_AT    2
#define BREAKER_SLEEP_AT     3

/* A bit in the generation of the phase's cell, beside `ended`. */
#define BREAKER_PHASE_FOR_EVER 1

/* The window of the first stripe. */
#define BREAKER_WINDOW_AT BREAKER_FIRST_STRIPE

/** The index of the first in-flight entry. 0 is the index of no entry. */
static inline unsigned breaker_in_flight_at(const struct breaker_params *params)
{
	return BREAKER_WINDOW_AT + breaker_window_cells(params);
}

/** Loads the low word of a cell, with acquire order. */
static inline uint64_t breaker_low(const struct record *record, unsigned index)
{
	cell_touch(&record->cells[index]);
	return __atomic_load_n(&record->cells[index].low, __ATOMIC_ACQUIRE);
}

/** Whether a cell with this low word may count permits. */
static inline bool breaker_may_be_in_flight(uint64_t low, uint32_t tag)
{
	return low - ((uint64_t)tag << 32) - 1 < BREAKER_IN_FLIGHT_MAX;
}

/**
 * Whether a cell counts permits by the mark of these parameters. The second function also accepts
 * the mark of the other layout: one permit in each entry, or several.
 */
static inline bool breaker_is_in_flight(const struct breaker_params *params, struct cell cell,
                                        uint32_t tag)
{
	return breaker_may_be_in_flight(cell.low, tag) &&
	       cell_generation(cell) == params->in_flight_mark;
}

static inline bool breaker_is_in_flight_by_either_mark(const struct breaker_params *params,
                                                       struct cell cell, uint32_t tag)
{
	return breaker_may_be_in_flight(cell.low, tag) &&
	       (cell_generation(cell) | 1) == (params->in_flight_mark | 1u);
}

/** Whether an entry has timed out, or a clock that was set back since has put it too far ahead. */
static inline bool breaker_is_overdue(const struct breaker_params *params, int64_t ahead_ns)
{
	return ahead_ns <= 0 || ahead_ns > (int64_t)(params->timeout_ns + ALGO_SKEW_NS);
}

/** Expires an in-flight entry with all its permits. Returns false if it has changed. */
static inline bool breaker_expire_entry(struct cell *at, struct cell entry)
{
	return cell_swap(at, entry, (struct cell){entry.low - cell_word(entry), entry.high});
}

#endif
