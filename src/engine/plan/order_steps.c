/* order_steps.c: which steps a plan peeks at, and in which order it takes from them. */
#include "engine/plan/stage.h"

/*
 * Whether to ask before anything is taken: several steps, since all of them or none is. Where the
 * order decides, remote steps that are alone are taken in their order anyway.
 */
static bool asks_first(const struct plan *plan)
{
	size_t enforced = 0, remote = 0;

	if (plan->independent || !algo_op_requests(plan->op))
		return false;
	for (size_t i = 0; i < plan->step_count; i++) {
		enforced += !plan->steps[i].shadow;
		remote += !plan->steps[i].shadow && plan->steps[i].remote;
	}
	if (plan->by_order)
		return plan->listed || plan->cost_exceeds_limit || (enforced > 1 && remote < enforced);
	return algo_op_consumes(plan->op) && enforced > 1;
}

/*
 * Whether `last`, the last enforced step, can be taken before the others without a peek: if each of
 * these is granted whenever its peek passed and no other request came between. A limit that draws
 * decides only when it is taken, and of two steps on one key the first may leave too little for
 * the second. A paced limit is taken last.
 */
static bool can_be_unasked(const struct plan *plan, const struct plan_step *last)
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

/* Whether two steps may be on one count. If two are, it says so. */
static bool may_share(const struct plan *plan)
{
	uint64_t seen = 0, shared = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		uint64_t bit = UINT64_C(1) << (plan->steps[i].key.hash & 63);

		shared |= seen & bit;
		seen |= bit;
	}
	return shared != 0;
}

bool stage_order_steps(struct plan *plan)
{
	bool asks = asks_first(plan);
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
	/* With a paced limit, too: a turn that was taken is not always given back exactly. */
	if (!plan_charges(plan) || plan->by_order || passes & STAGE_PASS(PASS_PACED))
		plan->adds_earlier = algo_op_requests(plan->op) && !plan->independent && may_share(plan);
	/*
	 * If the steps before it would pass, it is taken first: its refusal then leaves nothing taken.
	 */
	if (asks && algo_op_consumes(plan->op) && !plan->listed && !plan->cost_exceeds_limit &&
	    !plan->remote && can_be_unasked(plan, last)) {
		last->pass = PASS_WITHOUT_PEEK;
		passes |= STAGE_PASS(PASS_WITHOUT_PEEK);
	}
	plan->execute_passes = passes & 7;
	return asks;
}
