/* health_cells.h: the places in the row of rows/health.h, and the swap of one. */
#ifndef ROWS_HEALTH_CELLS_H
#define ROWS_HEALTH_CELLS_H

#include "algo/algo.h"
#include "algo/outcomes/health.h"
#include "rows/rows.h"

/* Names begin with this bit, which no flight counts up to: neither is read as the other. */
#define HEALTH_NAME_BIT    (UINT32_C(1) << 31)
#define HEALTH_FLIGHTS_MAX (HEALTH_NAME_BIT - 1)

#define HEALTH_PHASE_AT  0
#define HEALTH_CALM_AT   1
#define HEALTH_LAYOUT_AT 2
#define HEALTH_SLEEP_AT  3

/* In the first stripe. */
#define HEALTH_WINDOW_AT HEALTH_FIRST_STRIPE

/** Where its flights begin; 0 is the place of none. */
static inline unsigned health_flights_at(const struct health_params *params)
{
	return HEALTH_WINDOW_AT + health_window_cells(params);
}

/** The low word alone of a cell, acquire. */
static inline uint64_t health_low(const struct row *row, unsigned place)
{
	cell_touch(&row->cells[place]);
	return __atomic_load_n(&row->cells[place].low, __ATOMIC_ACQUIRE);
}

/** Whether a low word is not that of a cell without permits. */
static inline bool health_may_fly(uint64_t low, uint32_t tag)
{
	return low - ((uint64_t)tag << 32) - 1 < HEALTH_FLIGHTS_MAX;
}

/** Whether a cell counts permits, in the way of these parameters, or also in the other. */
static inline bool health_flies(const struct health_params *params, struct cell cell, uint32_t tag)
{
	return health_may_fly(cell.low, tag) && cell_generation(cell) == params->flight_mark;
}

static inline bool health_flies_anyhow(const struct health_params *params, struct cell cell,
                                       uint32_t tag)
{
	return health_may_fly(cell.low, tag) &&
	       (cell_generation(cell) | 1) == (params->flight_mark | 1u);
}

/** Whether a flight's time is over, or a clock that was set back since has put it too far ahead. */
static inline bool health_is_overdue(const struct health_params *params, int64_t ahead_ns)
{
	return ahead_ns <= 0 || ahead_ns > (int64_t)(params->timeout_ns + ALGO_SKEW_NS);
}

/** Ends a flight with all its permits. Returns false if it has changed. */
static inline bool health_end(struct cell *at, struct cell flight)
{
	return cell_swap(at, flight, (struct cell){flight.low - cell_word(flight), flight.high});
}

#endif
