/*
 * adhoc_limits.c: caches the limits whose parameters come with requests. Each set of parameters has
 * one slot of a table without chains, found by its hash.
 */
#include "server/requests/adhoc_limits.h"

#include "algo/parameter.h"
#include "base/error.h"
#include "proto/adhoc_command.h"

_Static_assert(ADHOC_COUNT_MAX == ALGO_COUNT_MAX &&
                   ADHOC_PERIOD_MAX_S * NS_PER_S == ALGO_PERIOD_MAX_NS,
               "messages of the parser name the bounds of a limit");

/* `any_limit` has one token a year, and a burst of as many years as any state may reach ahead. */
void adhoc_open(struct adhoc *adhoc)
{
	uint64_t year_s = 365 * NS_PER_DAY / NS_PER_S;
	uint64_t burst = ALGO_HORIZON_NS / NS_PER_S / year_s;

	limit_init_adhoc(&adhoc->any_limit, burst, 1, year_s, NULL);
}

static size_t slot_of_params(const struct request_adhoc *params)
{
	uint64_t mixed = params->burst * UINT64_C(0x9e3779b97f4a7c15) +
	                 params->count * UINT64_C(0xc2b2ae3d27d4eb4f) +
	                 params->period_s * UINT64_C(0x165667b19e3779f9);

	return (size_t)(mixed >> 32) % ADHOC_SLOTS;
}

static bool same_params(const struct request_adhoc *a, const struct request_adhoc *b)
{
	return a->burst == b->burst && a->count == b->count && a->period_s == b->period_s;
}

/* If other parameters have the slot, the limit is made in `arena`, for this request alone. */
int adhoc_limit(struct adhoc *adhoc, const struct request_adhoc *params, struct arena *arena,
                struct weir_limit **out, struct weir_error *error)
{
	size_t i = slot_of_params(params);
	struct weir_limit *limit = &adhoc->slots[i].limit;
	bool is_empty = adhoc->slots[i].params.count == 0;
	int status;

	if (!is_empty && same_params(&adhoc->slots[i].params, params)) {
		*out = limit;
		return WEIR_OK;
	}
	if (!is_empty) {
		adhoc->has_collisions = true;
		limit = arena_alloc(arena, sizeof *limit);
		if (!limit)
			return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	status = limit_init_adhoc(limit, params->burst, params->count, params->period_s, error);
	if (status == WEIR_OK && is_empty)
		adhoc->slots[i].params = *params;
	*out = limit;
	return status;
}

/* If two limits share a slot, empties the cache, so that the other one may get the slot next. */
void adhoc_release_limits(struct adhoc *adhoc)
{
	for (size_t i = 0; adhoc->has_collisions && i < ADHOC_SLOTS; i++)
		adhoc->slots[i].params.count = 0;
	adhoc->has_collisions = false;
}
