/*
 * permits.c: permits: the units that a plan took, and their way back.
 *
 * A step that knows the places of a request gives them back. All else that a permit covers goes
 * back by one thread: the one that first takes the permit off the list of those held
 * (store/permit.h).
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
	engine_apply_told(turn,
	                  &(struct step){.limit = limit,
	                                 .key = store_key(store, &limit->algo, taken->charge.key)},
	                  &(struct algo_call){.op = ALGO_REFUND,
	                                      .cost = taken->cost,
	                                      .until_ns = taken->charge.until_ns,
	                                      .permit = taken->permit},
	                  &ignored);
	waitlist_wake(&turn->table->waiting, taken->charge.key);
}

bool engine_is_reported(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (algo_is_reported(&plan->steps[i].limit->algo))
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

void engine_permits(const struct plan *plan, struct weir_permits *permits,
                    struct engine_names *names)
{
	*permits = (struct weir_permits){.id = plan->permit.id};
	if (permits->id == 0)
		return;
	permits->cost = plan->cost;
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct step *step = &plan->steps[i];

		if (!step->taken)
			continue;
		if (names)
			names->of[permits->count] =
			    step->remote || step->limit->fleet ? step->key_name : (struct slice){NULL, 0};
		permits->charges[permits->count++] = charge_of(step);
	}
}

/* NULL data in `name`: there is none. False: such a charge can't be given back. */
static bool find_charge(const struct weir_engine *engine, const struct weir_charge *charge,
                        struct slice name, struct step *step)
{
	const struct weir_table *table = engine_table(engine);
	const struct weir_limit *limit = engine_limit_of(engine, charge->limit);
	bool remote = limit && engine_remote_store(table, limit);

	if (!limit || (remote && !name.data))
		return false;
	*step = (struct step){.limit = limit,
	                      .key_name = name,
	                      .until_ns = charge->until_ns,
	                      .taken = charge->until_ns != 0,
	                      .remote = remote};
	/* Another server's memory has another secret, and so other hashes. */
	step->key.hash = remote ? store_hash(table->store, charge->limit, name.data, name.len)
	                        : charge->key;
	step->key = store_key(table->store, &limit->algo, step->key.hash);
	return true;
}

int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           const struct engine_names *names, struct arena *arena,
                           struct plan *plan)
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
		struct step *step = &plan->steps[plan->step_count];

		plan->permit.keys ^= permits->charges[i].key;
		if (!find_charge(engine, &permits->charges[i],
		                 names ? names->of[i] : (struct slice){NULL, 0}, step))
			continue;
		plan->remote |= step->remote;
		plan->step_count++;
	}
	return WEIR_OK;
}

/* Whether a mark in memory says that it may be given back. A remote store has its own. */
static bool is_marked(const struct step *step)
{
	return step->taken && !step->remote && !algo_holds_places(&step->limit->algo);
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
		if (is_marked(step))
			until_ns = u64_max(until_ns, step->until_ns);
	}
	if (!any)
		plan->permit.id = 0;
	else if (until_ns > 0)
		permit_hold(turn->table->store, plan->permit, until_ns, turn->at.now_ns);
}

static bool has_marked(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (is_marked(&plan->steps[i]))
			return true;
	return false;
}

void permits_begin(const struct turn *turn, struct plan *plan)
{
	if (!has_marked(plan))
		plan->gives_rest = true;
	else if (plan->cost == 0)
		plan->gives_rest = permit_is_held(turn->table->store, plan->permit, turn->at.now_ns);
	else
		plan->gives_rest = permit_take(turn->table->store, plan->permit, turn->at.now_ns);
}

void permits_drop_ended(const struct turn *turn, struct plan *plan)
{
	for (size_t i = 0; plan->remote && i < plan->step_count; i++) {
		struct step *step = &plan->steps[i];

		if (step->remote && step->until_ns <= algo_time_at(&step->limit->algo, turn->at).now_ns)
			step->taken = false;
	}
}
