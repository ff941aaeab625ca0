/*
 * success_ratio.h: decides by the ratio of requests that a backend accepted: `throttle` limits.
 *
 * All requests count, including those denied and those in flight; reports say which of them the
 * backend accepted. The window is split into parts, and moves by one part at a time. Decisions are
 * made here, on structs; src/records stores these in cells.
 */
#ifndef ALGO_OUTCOMES_SUCCESS_RATIO_H
#define ALGO_OUTCOMES_SUCCESS_RATIO_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "algo/priority/priority.h"

/* While requests are shed, one passes in each such time. */
#define SUCCESS_PASS_NS NS_PER_S

struct success_part {
	uint64_t requests, accepts;
	bool failed; /* a request of this part was reported as failed */
};

struct success_state {
	uint64_t now_ns;               /* no earlier than the start of the newest part */
	uint64_t newest;               /* number of the part that contains now */
	struct priority_demand demand; /* of all priorities but 0, see success_shed_share_of */
	uint64_t passed_ns;            /* time of the last request that a draw let pass, or 0 */
	struct success_part
	    parts[SUCCESS_PARTS_MAX]; /* the last is the newest, at [params->parts - 1] */
};

/** The number of the part that contains a time, and the time at which a part leaves the window. */
static inline uint64_t success_part_of(const struct success_params *params, uint64_t at_ns)
{
	return at_ns / params->part_ns;
}

static inline uint64_t success_part_leaves_ns(const struct success_params *params, uint64_t part)
{
	return (part + params->parts) * params->part_ns;
}

/** The share of all requests that is shed, of PRIORITY_ALL. */
uint64_t success_shed_share(const struct success_params *params, const struct success_state *state);

/** The share that requests of one priority lose if `share` of all is shed; counts a new request. */
uint64_t success_shed_share_of(const struct success_params *params,
                               const struct success_state *state, uint64_t share,
                               unsigned priority);

/** The number of the slot in which the demand of a part is counted. */
static inline uint64_t success_slot_of(const struct success_params *params, uint64_t part)
{
	return part / params->demand_parts;
}

/** Sets demand_parts and demand_slots from the length and number of parts. */
void success_set_demand_slots(struct success_params *params);

enum success_verdict {
	SUCCESS_PASSES, /* passes, since no share is shed */
	SUCCESS_DRAWN,  /* passes by its draw, and is recorded in passed_ns */
	SUCCESS_FORCED, /* passes since none has for SUCCESS_PASS_NS, if it can be recorded in passed_ns
	                 */
	SUCCESS_DENIED,
};

/** Whether no request has passed for so long that one is forced through. */
static inline bool success_is_starved(const struct success_state *state)
{
	return state->passed_ns == 0 || state->passed_ns + SUCCESS_PASS_NS <= state->now_ns;
}

/** Decides a request of a priority that loses `share`; `draw` is 64 fair random bits. */
enum success_verdict success_decide(const struct success_state *state, uint64_t share,
                                    uint64_t draw);

/** How long the state still has an effect, or 0 if it equals none. */
uint64_t success_ttl_ns(const struct success_params *params, const struct success_state *state,
                        uint64_t now_ns);

/** Counts a request that got this verdict. */
void success_count(const struct success_params *params, struct success_state *state,
                   enum success_verdict verdict);

/* The number of priorities whose demand is in one cell; the highest priority needs none. */
#define SUCCESS_CLASSES_PER_CELL 3
#define SUCCESS_DEMAND_CELLS     (PRIORITY_LOWEST / SUCCESS_CLASSES_PER_CELL)

/** The cells of a record: for passed_ns, the parts, and the demand. */
static inline unsigned success_cells(const struct success_params *params)
{
	return 1 + params->parts + params->demand_slots * SUCCESS_DEMAND_CELLS;
}

#endif
