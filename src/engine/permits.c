/*
 * permits.c: permits: what a plan took, and its way back.
 *
 * Places that a request holds are given back by the step that knows them. All else that
 * a permit covers is given back by the thread that takes the permit itself off the list of
 * those held (store/permit.h), before anything is given back.
 */
#include "engine/apply.h"
#include "engine/engine.h"
#include "wait/waitlist.h"

static struct weir_charge charge_of(const struct step *step)
{
	return (struct weir_charge){step->limit->algo.identity, step->key.hash, step->until_ns};
}

size_t engine_taken(const struct plan *plan, struct engine_taken *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct step *step = &plan->steps[i];

		if (step->taken && taken)
			taken[n] = (struct engine_taken){charge_of(step), plan->cost, plan->permit.id};
		n += step->taken;
	}
	return n;
}

void engine_give_back(const struct turn *turn, const struct weir_engine *engine,
                      const struct engine_taken *taken)
{
	const struct weir_limit *limit = engine_limit_of(engine, taken->charge.limit);
	struct store *store = turn->table->store;
	struct weir_decision ignored;

	if (!limit)
		return;
	engine_apply_slow(limit, &(struct store_step){
	    .store = store,
	    .limit = &limit->algo,
	    .key = store_key(store, &limit->algo, taken->charge.key),
	    .call = {.op = ALGO_REFUND,
	             .cost = taken->cost,
	             .until_ns = taken->charge.until_ns,
	             .permit = taken->permit},
	    .at = turn->at,
	}, &ignored);
	waitlist_wake(&turn->table->waiting, taken->charge.key);
}

bool engine_holds_places(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (algo_holds_places(&plan->steps[i].limit->algo))
			return true;
	return false;
}

int engine_want_permit(struct plan *plan)
{
	if (plan->op != ALGO_ACQUIRE || plan->cost == 0)
		return WEIR_OK;
	plan->wants_permit = plan->step_count <= WEIR_PERMITS_MAX;
	return plan->wants_permit ? WEIR_OK : WEIR_ELONG;
}

void engine_permits(const struct plan *plan, struct weir_permits *permits)
{
	*permits = (struct weir_permits){.id = plan->permit.id};
	if (permits->id == 0)
		return;
	permits->cost = plan->cost;
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].taken)
			permits->charges[permits->count++] = charge_of(&plan->steps[i]);
}

int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           struct arena *arena, struct plan *plan)
{
	size_t count = permits->id == 0 ? 0 : permits->count;

	engine_prepare_none(&(struct algo_call){ALGO_REFUND, permits->cost}, plan);
	plan->permit.id = permits->id;
	if (count > WEIR_PERMITS_MAX)
		return WEIR_EINVAL;
	plan->steps = arena_array(arena, count, sizeof *plan->steps);
	if (!plan->steps)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct weir_charge *taken = &permits->charges[i];
		const struct weir_limit *limit = engine_limit_of(engine, taken->limit);

		plan->permit.keys ^= taken->key;
		if (limit)
			plan->steps[plan->step_count++] = (struct step){
			    .limit = limit,
			    .key = store_key(engine_table(engine)->store, &limit->algo, taken->key),
			    .until_ns = taken->until_ns,
			    .taken = taken->until_ns != 0,
			};
	}
	return WEIR_OK;
}

void permits_hold(const struct turn *turn, struct plan *plan)
{
	uint64_t until_ns = 0;
	bool any = false;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct step *step = &plan->steps[i];

		if (!step->taken)
			continue;
		any = true;
		plan->permit.keys ^= step->key.hash;
		if (!algo_holds_places(&step->limit->algo))
			until_ns = u64_max(until_ns, step->until_ns);
	}
	if (!any)
		plan->permit.id = 0;
	else if (until_ns > 0)
		permit_hold(turn->table->store, plan->permit, until_ns, turn->at.now_ns);
}

/* Whether it covers anything but places. */
static bool has_rest(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].taken && !algo_holds_places(&plan->steps[i].limit->algo))
			return true;
	return false;
}

void permits_begin(const struct turn *turn, struct plan *plan)
{
	if (!has_rest(plan))
		plan->gives_rest = true;
	else if (plan->cost == 0)
		plan->gives_rest = permit_is_held(turn->table->store, plan->permit, turn->at.now_ns);
	else
		plan->gives_rest = permit_take(turn->table->store, plan->permit, turn->at.now_ns);
}
