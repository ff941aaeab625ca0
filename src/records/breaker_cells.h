/* breaker_cells.h: the places in the record of records/breaker_record.h, and the swap of one. */
#ifndef RECORDS_HEALTH_CELLS_H
#define RECORDS_HEALTH_CELLS_H

#include "algo/algo.h"
#include "algo/outcomes/breaker_state.h"
#include "records/record.h"

/* Names begin with this bit, which no flight counts up to: neither is read as the other. */
#define BREAKER_NAME_BIT      (UINT32_C(1) << 31)
#define BREAKER_IN_FLIGHT_MAX (BREAKER_NAME_BIT - 1)

#define BREAKER_PHASE_AT     0
#define BREAKER_QUIESCENT_AT 1
#define BREAKER_LAYOUT_AT    2
#define BREAKER_SLEEP_AT     3

/* In the first stripe. */
#define BREAKER_WINDOW_AT BREAKER_FIRST_STRIPE

/** Where its flights begin; 0 is the place of none. */
static inline unsigned breaker_in_flight_at(const struct breaker_params *params)
{
	return BREAKER_WINDOW_AT + breaker_window_cells(params);
}

/** The low word alone of a cell, acquire. */
static inline uint64_t breaker_low(const struct record *record, unsigned index)
{
	cell_touch(&record->cells[index]);
	return __atomic_load_n(&record->cells[index].low, __ATOMIC_ACQUIRE);
}

/** Whether a low word is not that of a cell without permits. */
static inline bool breaker_may_be_in_flight(uint64_t low, uint32_t tag)
{
	return low - ((uint64_t)tag << 32) - 1 < BREAKER_IN_FLIGHT_MAX;
}

/** Whether a cell counts permits, in the way of these parameters, or also in the other. */
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

/** Whether a flight's time is over, or a clock that was set back since has put it too far ahead. */
static inline bool breaker_is_overdue(const struct breaker_params *params, int64_t ahead_ns)
{
	return ahead_ns <= 0 || ahead_ns > (int64_t)(params->timeout_ns + ALGO_SKEW_NS);
}

/** Ends a flight with all its permits. Returns false if it has changed. */
static inline bool breaker_expire_entry(struct cell *at, struct cell entry)
{
	return cell_swap(at, entry, (struct cell){entry.low - cell_word(entry), entry.high});
}

#endif
