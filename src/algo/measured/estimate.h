/*
 * estimate.h: the estimators of estimators.h behind one step, as cells that change one by one.
 *
 * An estimator's knowledge is one to ESTIMATE_CELLS_MAX cells of 96 bits; all zero is an estimator
 * that knows nothing yet. For a report, a step says which one cell to change next, and how. Its
 * caller swaps that cell and steps again, until a step wants no change. Others may swap cells
 * meanwhile, and a caller may die between two swaps: the next one finishes its work.
 */
#ifndef ALGO_MEASURED_ESTIMATE_H
#define ALGO_MEASURED_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/measured/estimators.h"
#include "algo/priority/headroom.h"
#include "algo/record_kinds.h"

#define ESTIMATE_CELLS_MAX (1 + BBR_PARTS)

struct estimate_cell {
	uint64_t high;
	uint32_t low;
};

struct estimate_report {
	enum weir_outcome outcome;
	struct adaptive_sample sample; /* `dropped` follows from the outcome */
	uint8_t window; /* estimate_window when the request was let through */
	uint64_t now_ns;
	bool counted; /* a change that `counts` has been made */
};

struct estimate_change {
	unsigned place;
	struct estimate_cell after;
	bool counts; /* once it is made, the report is counted; a step may want more all the same */
	bool last;   /* once it is made, a step wants nothing more */
};

/**
 * The most that may be in flight; cells that no estimator has written are zero. Without priorities
 * only `quota` is computed.
 */
struct headroom_limits estimate_limits(const struct in_flight_params *params,
                                       const struct estimate_cell *cells, uint32_t cpu,
                                       uint64_t now_ns, bool has_priorities);

/** A request was denied beside so many. Returns false if that changes nothing. */
bool estimate_record_denial(const struct in_flight_params *params,
                            const struct estimate_cell *cells, uint32_t cpu, uint64_t now_ns,
                            struct estimate_change *change);

/** Tells permits of one time from those of another. */
uint8_t estimate_window(const struct in_flight_params *params, const struct estimate_cell *cells);

/** The next change for a report. Returns false if there is nothing left to do. */
bool estimate_step(const struct in_flight_params *params, const struct estimate_cell *cells,
                   const struct estimate_report *report, struct estimate_change *change);

/** How many cells a method has, and the bounds that it has by default. */
unsigned estimate_cells(enum weir_method method);
struct adaptive_bounds estimate_bounds(enum weir_method method);

/** Whether samples of it need a draw. */
static inline bool estimate_needs_draw(enum weir_method method)
{
	return method == WEIR_METHOD_VEGAS;
}

/** Whether it looks at the processors. */
static inline bool estimate_needs_cpu(enum weir_method method)
{
	return method == WEIR_METHOD_BBR;
}

#endif
