/*
 * success_ratio.h: the requests that a backend has accepted lately, and the share to shed for it.
 *
 * All requests count, also those denied and those in flight; reports tell which of them the backend
 * has accepted. The window moves by parts. All decisions fall here, on the meaning of a state;
 * src/records keeps it in cells.
 */
#ifndef ALGO_OUTCOMES_SUCCESS_RATIO_H
#define ALGO_OUTCOMES_SUCCESS_RATIO_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "algo/priority/priority.h"

/* While requests are shed, one passes in so long, if any comes. */
#define SUCCESS_PASS_NS NS_PER_S

struct success_part {
	uint64_t requests, accepts;
	bool failed; /* a request is known to have failed in it */
};

struct success_state {
	uint64_t now_ns;    /* never before the newest part */
	uint64_t newest;    /* the number of the part of now */
	struct priority_demand
	    demand;         /* but for priority 0, which all others have: see success_shed_share_of */
	uint64_t passed_ns; /* when the last passed of those that a draw decided on, or 0 */
	struct success_part
	    parts[SUCCESS_PARTS_MAX]; /* the last is the newest, at [params->parts - 1] */
};

/** The number of the part that a time is in, and when what it counts has left the window. */
static inline uint64_t success_part_of(const struct success_params *params, uint64_t at_ns)
{
	return at_ns / params->part_ns;
}

static inline uint64_t success_end_ns(const struct success_params *params, uint64_t part)
{
	return (part + params->parts) * params->part_ns;
}

/** The share of requests that is shed, of PRIORITY_ALL. */
uint64_t success_shed_share(const struct success_params *params, const struct success_state *state);

/** And of these the share that requests of a priority lose, one that asks included. */
uint64_t success_shed_share_of(const struct success_params *params,
                               const struct success_state *state, uint64_t share,
                               unsigned priority);

/** The slot that a part's demand is counted in. */
static inline uint64_t success_slot_of(const struct success_params *params, uint64_t part)
{
	return part / params->demand_parts;
}

/** How demand is counted, from the length and number of parts. */
void success_set_demand_slots(struct success_params *params);

enum success_verdict {
	SUCCESS_PASSES, /* without a draw */
	SUCCESS_DRAWN,  /* it passes by its draw: then it is noted as the last that did */
	SUCCESS_FORCED, /* it passes, since none has for so long: only if it is noted as the last */
	SUCCESS_DENIED,
};

/** Whether a request passes where it loses such a share; `draw` is 64 fair bits. */
enum success_verdict success_decide(const struct success_state *state, uint64_t share,
                                    uint64_t draw);

/** How long the state says something. */
uint64_t success_ttl_ns(const struct success_params *params, const struct success_state *state,
                        uint64_t now_ns);

/** Counts a request, decided on so. */
void success_count(const struct success_params *params, struct success_state *state,
                   enum success_verdict verdict);

/* So many classes of demand stand together in a cell; the highest needs none. */
#define SUCCESS_CLASSES      3
#define SUCCESS_DEMAND_CELLS (PRIORITY_LOWEST / SUCCESS_CLASSES)

/** How many cells a record needs: for the last that passed, the parts, and the demand. */
static inline unsigned success_cells(const struct success_params *params)
{
	return 1 + params->parts + params->demand_slots * SUCCESS_DEMAND_CELLS;
}

#endif
