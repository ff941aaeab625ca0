/*
 * order_steps.c: decides whether a plan peeks at its steps before it charges any, and in which
 * order the steps run.
 *
 * A step is an operation on one key of one limit; a plan charges the keys of all its enforced steps
 * or of none. A peek at all steps first avoids most charges that would have to be rolled back.
 */
#include "engine/plan/stage.h"

/*
 * Whether to peek before charging: if several enforced steps are all or nothing. If the order of
 * rules decides and all enforced steps are remote, their store runs them in that order without a
 * peek. It also peeks if a rule behind the steps answers without limits, or if its limit could
 * never grant the cost: then the steps only find out whether one of them is refused first.
 */
static bool peeks_first(const struct plan *plan)
{
	size_t enforced = 0, remote = 0;

	if (plan->steps_are_independent || !algo_op_requests(plan->op))
		return false;
	for (size_t i = 0; i < plan->step_count; i++) {
		enforced += !plan->steps[i].shadow;
		remote += !plan->steps[i].shadow && plan->steps[i].remote;
	}
	if (plan->first_refusal_decides) {
		bool steps_only_find_refusal = plan->answering_rule || plan->cost_exceeds_limit;

		return steps_only_find_refusal || (enforced > 1 && remote < enforced);
	}
	return algo_op_consumes(plan->op) && enforced > 1;
}

/*
 * Whether `last`, the last enforced step, can be charged before the others without a peek: if each
 * of the others is granted after its peek passed, unless another request comes between. This does
 * not hold for a limit that draws, which decides only when it is charged, nor for two steps on one
 * key: the first may leave too little for the second. A paced limit is charged last.
 */
static bool can_skip_peek(const struct plan *plan, const struct plan_step *last)
{
	for (const struct plan_step *step = plan->steps; step <= last; step++) {
		if (step->shadow)
			continue;
		if (step->pass == PASS_PACED)
			return false;
		if (step < last && (step->key.hash == last->key.hash || step->limit->algo.algorithm->draws))
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
	/* Also with a paced limit, because the refund of a start is not always exact. */
	if (!plan_charges(plan) || plan->first_refusal_decides || passes & STAGE_PASS(PASS_PACED))
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
	plan->execute_passes = passes & 7;
	return peeks;
}
