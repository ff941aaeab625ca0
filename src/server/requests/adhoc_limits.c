#include "server/requests/adhoc_limits.h"

#include "base/error.h"

void adhoc_open(struct adhoc *adhoc)
{
	uint64_t year_s = 365 * NS_PER_DAY / NS_PER_S;

	engine_adhoc_limit(&adhoc->any_limit, ALGO_HORIZON_NS / NS_PER_S / year_s, 1, year_s, NULL);
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
	status = engine_adhoc_limit(limit, params->burst, params->count, params->period_s, error);
	if (status == WEIR_OK && is_empty)
		adhoc->slots[i].params = *params;
	*out = limit;
	return status;
}

void adhoc_release_limits(struct adhoc *adhoc)
{
	for (size_t i = 0; adhoc->has_collisions && i < ADHOC_SLOTS; i++)
		adhoc->slots[i].params.count = 0;
	adhoc->has_collisions = false;
}
