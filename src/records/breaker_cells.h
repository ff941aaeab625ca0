/*
 * breaker_cells.h: says which cells of a breaker's record have which meaning, unpacks the cell of
 * the phase, and tells in-flight entries from other cells.
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

/** The phase that a cell stores; closed if the cell is of another key. */
static inline struct breaker_state breaker_unpack_phase(struct cell cell, uint32_t tag,
                                                        uint64_t now_ns)
{
	struct breaker_state state;
	uint32_t word = cell_word(cell);
	uint64_t since_ns = now_ns + (uint64_t)cell_ahead_ns(cell, now_ns);
	bool is_for_ever = cell_generation(cell) & BREAKER_PHASE_FOR_EVER;

	if (cell_tag(cell) != tag)
		return (struct breaker_state){.phase = BREAKER_CLOSED};
	state = (struct breaker_state){.phase = word & 7,
	                               .since_ns = is_for_ever ? BREAKER_FOREVER : since_ns,
	                               .ended = cell_generation(cell) >> 1};
	if (state.phase == BREAKER_OPEN) {
		state.doublings = word >> 3 & 127;
		state.spread = word >> 10 & 127;
	} else {
		state.probes_in_flight = word >> 3 & 127;
		state.good = word >> 10 & 127;
		state.bad = word >> 17 & 127;
		state.slow = word >> 24 & 127;
	}
	return state;
}

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

/* The bit of an entry's mark (its generation) that says that it is of a single permit. */
#define BREAKER_SINGLE 1u

/** Whether an in-flight entry is of a single permit, and not shared by several. */
static inline bool breaker_entry_is_single(struct cell entry)
{
	return cell_generation(entry) & BREAKER_SINGLE;
}

/** Whether a cell with this low word may be an in-flight entry. The whole cell must be checked. */
static inline bool breaker_may_be_in_flight(uint64_t low, uint32_t tag)
{
	return low - ((uint64_t)tag << 32) - 1 < BREAKER_IN_FLIGHT_MAX;
}

/**
 * Whether a cell is an in-flight entry: of a single permit, or shared. Entries of another timeout
 * have another mark, and do not count.
 */
static inline bool breaker_is_in_flight(const struct breaker_params *params, struct cell cell,
                                        uint32_t tag)
{
	return breaker_may_be_in_flight(cell.low, tag) &&
	       (cell_generation(cell) | BREAKER_SINGLE) == (params->in_flight_mark | BREAKER_SINGLE);
}

/** Whether a cell is a shared entry of a limit without max_concurrent, whose own mark that is. */
static inline bool breaker_is_shared_entry(const struct breaker_params *params, struct cell cell,
                                           uint32_t tag)
{
	return breaker_may_be_in_flight(cell.low, tag) &&
	       cell_generation(cell) == params->in_flight_mark;
}

/** Whether an entry has timed out, or a clock that was set back since has put it too far ahead. */
static inline bool breaker_is_overdue(const struct breaker_params *params, int64_t ahead_ns)
{
	return ahead_ns <= 0 || ahead_ns > (int64_t)(params->timeout_ns + ALGO_SKEW_NS);
}

/** Expires an in-flight entry with all its permits. Returns false if it has changed. */
static inline bool breaker_expire_entry(struct cell *at, struct cell entry)
{
	return cell_swap(at, entry, cell_with_word(entry, 0));
}

#endif
