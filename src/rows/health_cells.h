/* health_cells.h: the places in the row of rows/health.h, and the swap of one. */
#ifndef ROWS_HEALTH_CELLS_H
#define ROWS_HEALTH_CELLS_H

#include "algo/health.h"
#include "rows/rows.h"

#define HEALTH_PHASE_AT 0
#define HEALTH_CALM_AT  1

/* In the first stripe; 0 is the place of none. */
#define HEALTH_FLIGHT_AT HEALTH_FIRST_STRIPE

/** Whether the row is still the key's. */
static inline bool health_row_is_own(const struct row_state *at)
{
	return (uint32_t)(cell_peek_low(at->cell) >> 32) == at->row.tag;
}

/**
 * Swaps a cell that may be another key's, so it looks at the head first. Only the key itself
 * changes cells that have its tag.
 */
static inline bool health_row_swap(const struct row_state *at, unsigned place, struct cell before,
                                   struct cell after)
{
	return health_row_is_own(at) && cell_swap(&at->row.cells[place], before, after);
}

#endif
