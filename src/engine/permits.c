/*
 * permits.c: permits: what a request took, and its way back.
 *
 * Places that a request holds are given back by the step that knows them. All else that
 * a permit covers is given back by whoever takes the permit itself off the list of those
 * held (store/permit.h), before anything is given back.
 */
#include "engine/engine.h"

#include "wait/waitlist.h"

/* What a permit covers of a plan, or NULL. */
static const struct step *covered(const struct plan *plan, size_t i)
{
	const struct step *step = plan_step_at(plan, i);

	return engine_has_taken(step) ? step : NULL;
}

static struct weir_charge charge_of(const struct step *step)
{
	return (struct weir_charge){step->limit->algo.identity, step->key.hash, step->until_ns};
}

size_t engine_taken(const struct plan *plan, struct engine_taken *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < plan_step_count(plan); i++) {
		const struct step *step = covered(plan, i);

		if (step && taken)
			taken[n] = (struct engine_taken){charge_of(step), plan->cost, plan->permit.id};
		n += step != NULL;
	}
	return n;
}

/* Whoever waits for the key may try then. */
static void refund(const struct turn *turn, const struct weir_limit *limit,
                   const struct memory_key *key, const struct algo_call *call,
                   struct weir_decision *d)
{
	engine_apply_slow(turn->table, limit, *key, *call, turn->at, d);
	waitlist_wake(&turn->table->waiting, key->hash);
}

void engine_give_back(const struct turn *turn, const struct weir_engine *engine,
                      const struct engine_taken *taken)
{
	const struct weir_limit *limit = engine_limit_of(engine, taken->charge.limit);
	struct algo_call call = {.op = ALGO_REFUND,
	                         .cost = taken->cost,
	                         .until_ns = taken->charge.until_ns,
	                         .permit = taken->permit};
	struct weir_decision ignored;
	struct memory_key key;

	if (!limit)
		return;
	key = memory_key(turn->table, &limit->algo, taken->charge.key);
	refund(turn, limit, &key, &call, &ignored);
}

void engine_undo(const struct turn *turn, struct plan *plan)
{
	struct algo_call call = {ALGO_REFUND, plan->cost, .permit = plan->permit.id};

	if (plan->permit.id != 0)
		permit_take(turn->table, plan->permit, turn->at.now_ns);
	/* The newest first: of turns no other can be given back. */
	for (size_t i = plan_step_count(plan); i > 0; i--) {
		const struct step *step = covered(plan, i - 1);
		struct weir_decision ignored;

		call.until_ns = step ? step->until_ns : 0;
		if (step)
			refund(turn, step->limit, &step->key, &call, &ignored);
	}
	plan->permit.id = 0;
}

bool engine_holds_places(const struct plan *plan)
{
	for (size_t i = 0; i < plan_step_count(plan); i++)
		if (algo_holds_places(&plan_step_at(plan, i)->limit->algo))
			return true;
	return false;
}

int engine_want_permit(struct plan *plan)
{
	if (plan->op != ALGO_ACQUIRE || plan->cost == 0)
		return WEIR_OK;
	plan->wants_permit = plan_step_count(plan) <= WEIR_PERMITS_MAX;
	return plan->wants_permit ? WEIR_OK : WEIR_ELONG;
}

void engine_permits(const struct plan *plan, struct weir_permits *permits)
{
	*permits = (struct weir_permits){.id = plan->permit.id};
	if (permits->id == 0)
		return;
	permits->cost = plan->cost;
	for (size_t i = 0; i < plan_step_count(plan); i++) {
		const struct step *step = covered(plan, i);

		if (step)
			permits->charges[permits->count++] = charge_of(step);
	}
}

int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           struct arena *arena, struct plan *plan)
{
	size_t count = permits->id == 0 ? 0 : permits->count;

	*plan = (struct plan){
	    .op = ALGO_REFUND, .cost = permits->cost, .permit = {permits->id, 0}};
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
			    .key = memory_key(engine_table(engine), &limit->algo, taken->key),
			    .until_ns = taken->until_ns,
			};
	}
	return WEIR_OK;
}

void permits_hold(const struct turn *turn, struct plan *plan)
{
	uint64_t until_ns = 0;
	bool any = false;

	for (size_t i = 0; i < plan_step_count(plan); i++) {
		const struct step *step = covered(plan, i);

		if (!step)
			continue;
		any = true;
		plan->permit.keys ^= step->key.hash;
		if (!algo_holds_places(&step->limit->algo))
			until_ns = u64_max(until_ns, step->until_ns);
	}
	if (!any)
		plan->permit.id = 0;
	else if (until_ns > 0)
		permit_hold(turn->table, plan->permit, until_ns, turn->at.now_ns);
}

void permits_drop(const struct turn *turn, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct step *step = &plan->steps[i];
		struct algo_call call = {ALGO_REFUND, plan->cost, step->until_ns,
		                         .permit = plan->permit.id};
		struct weir_decision ignored;

		if (step->shadow && engine_has_taken(step))
			refund(turn, step->limit, &step->key, &call, &ignored);
	}
	plan->permit.id = 0;
}

/* Whether it covers any places, or (if not `places`) anything else. */
static bool covers(const struct plan *plan, bool places)
{
	for (size_t i = 0; i < plan_step_count(plan); i++) {
		const struct step *step = covered(plan, i);

		if (step && algo_holds_places(&step->limit->algo) == places)
			return true;
	}
	return false;
}

/*
 * Gives back all places, and with `rest` all else. Returns whether anything of that was
 * held, and how the tightest of all stands in *d.
 */
static bool give_back(const struct turn *turn, const struct plan *plan, bool rest, struct weir_decision *d)
{
	bool given = false, first = true;

	for (size_t i = 0; i < plan_step_count(plan); i++) {
		const struct step *step = covered(plan, i);
		struct algo_call call = {ALGO_REFUND, 0, .permit = plan->permit.id};
		struct weir_decision one;
		bool mine = step && (rest || algo_holds_places(&step->limit->algo));

		if (!step)
			continue;
		call.cost = mine ? plan->cost : 0;
		call.until_ns = step->until_ns;
		refund(turn, step->limit, &step->key, &call, &one);
		given |= mine && one.allowed;
		if (first || one.remaining < d->remaining)
			*d = one;
		first = false;
	}
	return given;
}

void permits_refund(const struct turn *turn, const struct plan *plan, struct weir_decision *d)
{
	bool rest = !covers(plan, false);

	if (!rest)
		rest = plan->cost == 0 ? permit_is_held(turn->table, plan->permit, turn->at.now_ns)
		                          : permit_take(turn->table, plan->permit, turn->at.now_ns);
	*d = (struct weir_decision){.reason = WEIR_REASON_OK};
	d->allowed = give_back(turn, plan, rest, d);
}

bool engine_report(const struct turn *turn, const struct plan *plan)
{
	struct weir_decision ignored;

	if (!covers(plan, true))
		return permit_is_held(turn->table, plan->permit, turn->at.now_ns);
	permit_take(turn->table, plan->permit, turn->at.now_ns); /* what else it covers stays taken */
	return give_back(turn, plan, false, &ignored);
}
