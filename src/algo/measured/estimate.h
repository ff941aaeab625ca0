/*
 * estimate.h: stores the estimators of estimators.h in cells, which change one at a time.
 *
 * The state of an estimator is one to ESTIMATE_CELLS_MAX cells of 96 bits. All cells are zero if
 * nothing was measured yet. For a report, estimate_step computes which cell changes next, and how.
 * The caller swaps that cell (compare and swap) and calls again, until nothing is left to change.
 * Other threads may swap cells meanwhile, and a process may die between two swaps: the next caller
 * completes the change.
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
	struct adaptive_sample sample; /* but for `dropped`, which follows from the outcome */
	uint8_t window;                /* estimate_window when the request was admitted */
	uint64_t now_ns;
	bool counted; /* a change with `counts` has been made for this report */
};

struct estimate_change {
	unsigned index; /* of the cell */
	struct estimate_cell after;
	bool counts; /* this change counts the report; more changes may follow */
	bool last;   /* no change follows */
};

/**
 * The most requests that may be in flight. If no request has a priority (has_priorities), only
 * `quota` is computed.
 */
struct headroom_limits estimate_limits(const struct in_flight_params *params,
                                       const struct estimate_cell *cells, uint32_t cpu,
                                       uint64_t now_ns, bool has_priorities);

/** Computes the change for a request that was denied. Returns false if that changes nothing. */
bool estimate_record_denial(const struct in_flight_params *params,
                            const struct estimate_cell *cells, uint32_t cpu, uint64_t now_ns,
                            struct estimate_change *change);

/** The number of the window, by which late reports are recognized: see estimate_report.window. */
uint8_t estimate_window(const struct in_flight_params *params, const struct estimate_cell *cells);

/** Computes the next change for a report. Returns false if nothing is left to change. */
bool estimate_step(const struct in_flight_params *params, const struct estimate_cell *cells,
                   const struct estimate_report *report, struct estimate_change *change);

/** The number of cells of a method, and its default bounds. */
unsigned estimate_cells(enum weir_method method);
struct adaptive_bounds estimate_bounds(enum weir_method method);

/** Whether samples need `draw`. */
static inline bool estimate_needs_draw(enum weir_method method)
{
	return method == WEIR_METHOD_VEGAS;
}

/** Whether the method depends on the load of the processors. */
static inline bool estimate_needs_cpu(enum weir_method method)
{
	return method == WEIR_METHOD_BBR;
}

#endif
