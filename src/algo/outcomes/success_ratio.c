/*
 * success_ratio.c: decides `throttle` limits. Computes which share of requests to deny, from the
 * number of requests in a window and of those that the backend accepted, and whether a request is
 * in that share.
 *
 * The window is split into parts of time. One request a second passes in any case.
 */
#include "algo/outcomes/success_ratio.h"

/* Sums over the window. */
struct sums {
	uint64_t requests, accepts;
	/*
	 * The newest parts in a row that had only failures, or no failure; parts without reports are
	 * skipped.
	 */
	unsigned failing_parts, working_parts;
};

static struct sums sum_window(const struct success_params *params,
                              const struct success_state *state)
{
	struct sums sums = {0};

	for (unsigned i = 0; i < params->parts; i++) {
		const struct success_part *part = &state->parts[i];

		sums.requests += part->requests;
		sums.accepts += part->accepts;
		if (part->failed)
			sums.working_parts = 0;
		else if (part->accepts > 0)
			sums.working_parts++;
		if (part->accepts > 0)
			sums.failing_parts = 0;
		else if (part->failed)
			sums.failing_parts++;
	}
	return sums;
}

/*
 * Returns the share to deny, in 1/PRIORITY_ALL: (n - spared - k a) / (n + 1) after n requests, a of
 * them accepted; `spared` ones are never too many. In some presets k falls to k_least with the
 * failing parts, and the share to 0 with the working ones (`recovers`). Both k, and so all sums,
 * are in 1/SUCCESS_UNIT. The fraction is exact in 64 bits: a record counts so few requests that n
 * times SUCCESS_UNIT is below 2^57, and times the parts below 2^63.
 */
uint64_t success_shed_share(const struct success_params *params, const struct success_state *state)
{
	struct sums sums = sum_window(params, state);
	uint64_t k = params->k - (params->k - params->k_least) * sums.failing_parts / params->parts;
	uint64_t excess = sat_sub(sums.requests, params->spared) * SUCCESS_UNIT;
	uint64_t all = (sums.requests + 1) * SUCCESS_UNIT;
	u128 allowed = (u128)k * sums.accepts;

	if (sums.requests < params->minimum || excess <= allowed)
		return 0;
	excess -= (uint64_t)allowed;
	if (params->recovers) {
		excess *= params->parts - sums.working_parts;
		all *= params->parts;
	}
	return (uint64_t)((u128)excess * PRIORITY_ALL / all);
}

#define DEMAND_SLOTS 5

/* The recent demand by priority is counted in slots of a few parts each. */
void success_set_demand_slots(struct success_params *params)
{
	uint64_t parts = u64_min(ceil_div(PRIORITY_WINDOW_NS, params->part_ns), params->parts);

	params->demand_parts = (uint32_t)ceil_div(parts, DEMAND_SLOTS);
	params->demand_slots = (uint32_t)ceil_div(parts, params->demand_parts);
}

/* All requests since the first slot of the demand, which is at most as old as the window. */
static uint64_t recent_requests(const struct success_params *params,
                                const struct success_state *state)
{
	uint64_t slot = success_slot_of(params, state->newest) + 1 - params->demand_slots;
	uint64_t parts = state->newest + 1 - slot * params->demand_parts, requests = 0;

	for (uint64_t i = params->parts - u64_min(parts, params->parts); i < params->parts; i++)
		requests += state->parts[i].requests;
	return requests;
}

/* Returns the share of one priority to deny, if `share` of all requests is denied, lowest first. */
uint64_t success_shed_share_of(const struct success_params *params,
                               const struct success_state *state, uint64_t share, unsigned priority)
{
	struct priority_demand demand = state->demand;
	uint64_t lower = 0;

	for (unsigned i = 1; i < PRIORITY_CLASSES; i++)
		lower += demand.calls[i];
	if (lower == 0 && priority == 0)
		return share;
	demand.calls[0] = sat_sub(recent_requests(params, state), lower);
	demand.calls[priority]++;
	return priority_share(share, &demand, priority);
}

/*
 * Denies by the draw, unless no request has passed for a second: then this one is forced through.
 */
enum success_verdict success_decide(const struct success_state *state, uint64_t share,
                                    uint64_t draw)
{
	if (share == 0)
		return SUCCESS_PASSES;
	if (!priority_is_in(share, draw))
		return SUCCESS_DRAWN;
	return success_is_starved(state) ? SUCCESS_FORCED : SUCCESS_DENIED;
}

void success_count(const struct success_params *params, struct success_state *state,
                   enum success_verdict verdict)
{
	state->parts[params->parts - 1].requests++;
	if (verdict == SUCCESS_DRAWN || verdict == SUCCESS_FORCED)
		state->passed_ns = u64_max(state->passed_ns, state->now_ns);
}

/*
 * Returns how long the state still matters: until its newest used part leaves the window and the
 * second after the last passed request is over.
 */
uint64_t success_ttl_ns(const struct success_params *params, const struct success_state *state,
                        uint64_t now_ns)
{
	uint64_t until_ns = state->passed_ns ? state->passed_ns + SUCCESS_PASS_NS : 0, part_number;

	for (unsigned i = params->parts; i-- > 0;) {
		const struct success_part *part = &state->parts[i];

		if (part->requests == 0 && part->accepts == 0 && !part->failed)
			continue;
		part_number = state->newest + 1 + i - params->parts;
		until_ns = u64_max(until_ns, success_part_leaves_ns(params, part_number));
		break;
	}
	return sat_sub(until_ns, now_ns);
}
