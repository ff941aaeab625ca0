/*
 * order_steps.c: decides whether a plan peeks at its steps before it charges any, and in which
 * order the steps run.
 *
 * A step is an operation on one key of one limit; a plan charges the keys of all its enforced steps
 * or of none. A peek at all steps first avoids most charges that would have to be rolled back.
 */
#include "engine/plan/stage.h"

/*
 * Whether to peek before charging. If the order of rules decides, the first refused step decides
 * the request. If none is refused, a rule behind the steps may: one that answers without limits, or
 * whose limit could never grant the cost.
 */
static bool peeks_first(const struct plan *plan)
{
	size_t enforced = 0, remote = 0;
	bool later_rule_decides = plan->answering_rule || plan->cost_exceeds_limit;

	if (plan->steps_are_independent || !algo_op_requests(plan->op))
		return false;
	for (size_t i = 0; i < plan->step_count; i++) {
		enforced += !plan->steps[i].shadow;
		remote += !plan->steps[i].shadow && plan->steps[i].remote;
	}
	if (!plan->first_refusal_decides)
		return algo_op_consumes(plan->op) && enforced > 1;
	if (later_rule_decides) /* so no step is charged: they only find out whether one is refused */
		return true;
	return enforced > 1 && remote < enforced; /* a store runs its own steps in the rules' order */
}

/*
 * Whether `last`, the last enforced step, can be charged before the others without a peek: if each
 * of the others is granted after its peek passed, unless another request comes between. This does
 * not hold for two steps on one key: the first may leave too little for the second. A paced limit
 * is charged last.
 */
static bool can_skip_peek(const struct plan *plan, const struct plan_step *last)
{
	for (const struct plan_step *step = plan->steps; step <= last; step++) {
		if (step->shadow)
			continue;
		if (step->pass == PASS_PACED)
			return false;
		if (step < last && step->key.hash == last->key.hash)
			return false;
	}
	return true;
}

/* Returns true if two steps are on one key; may also be true if none are (a Bloom filter). */
static bool may_share_key(const struct plan *plan)
{
	uint64_t used = 0, shared = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		uint64_t bit = UINT64_C(1) << (plan->steps[i].key.hash & 63);

		shared |= used & bit;
		used |= bit;
	}
	return shared != 0;
}

/*
 * Whether charges alone tell that a key has too little for two steps: then the second is refused,
 * and the first rolled back. Otherwise a peek must ask for the charges of earlier steps on its key,
 * too. A plan that only peeks, or decides by the first refusal, must know before it charges; and a
 * paced limit can't always be rolled back exactly.
 */
static bool can_roll_back(const struct plan *plan, bool has_paced)
{
	return plan_charges(plan) && !plan->first_refusal_decides && !has_paced;
}

/*
 * Sets in which of the passes each step runs: the step that was not peeked at, then the others,
 * then paced ones. Returns whether the plan peeks first.
 */
bool stage_order_steps(struct plan *plan)
{
	bool peeks = peeks_first(plan), charges_after_peek;
	struct plan_step *last = NULL;
	unsigned passes = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		step->pass = step->limit->algo.paced ? PASS_PACED : PASS_AFTER_PEEK;
		passes |= STAGE_PASS(step->pass);
		if (!step->shadow)
			last = step;
		plan->has_shadow |= step->shadow;
	}
	if (!can_roll_back(plan, passes & STAGE_PASS(PASS_PACED)))
		plan->peek_adds_earlier_charges =
		    algo_op_requests(plan->op) && !plan->steps_are_independent && may_share_key(plan);
	/* After the peeks at the other steps, the last one is charged first: if it refuses, no charge
	 * has to be rolled back. */
	charges_after_peek = peeks && algo_op_consumes(plan->op) && !plan->answering_rule &&
	                     !plan->cost_exceeds_limit && !plan->has_remote_steps;
	if (charges_after_peek && can_skip_peek(plan, last)) {
		last->pass = PASS_WITHOUT_PEEK;
		passes |= STAGE_PASS(PASS_WITHOUT_PEEK);
	}
	plan->execute_passes = passes & STAGE_PASSES;
	return peeks;
}
