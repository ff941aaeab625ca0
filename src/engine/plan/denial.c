/* denial.c: finds the step that a denied plan names, and the time after which it would pass. */
#include "engine/plan/denial.h"

#include "engine/plan/stage.h"

uint64_t denial_earlier_charges(const struct plan *plan, const struct plan_step *step)
{
	uint64_t charges = 0;

	for (const struct plan_step *other = plan->steps; other < step && !plan->independent; other++)
		charges += !other->shadow && other->key.hash == step->key.hash;
	return sat_u64((u128)charges * u64_max(plan->cost, 1));
}

uint64_t denial_cost(const struct plan *plan, const struct plan_step *step)
{
	uint64_t earlier;

	if (step->shadow || step->limit->algo.algorithm->pays_later)
		return plan->cost;
	earlier = denial_earlier_charges(plan, step);
	return earlier > 0 ? sat_add(u64_max(plan->cost, 1), earlier) : plan->cost;
}

static bool pays_later(const struct plan_step *step)
{
	return !step->shadow && step->limit->algo.algorithm->pays_later;
}

void denial_charge(const struct plan *plan, const struct plan_step *step, struct algo_call *call)
{
	call->cost = denial_cost(plan, step);
	if (pays_later(step))
		call->earlier = denial_earlier_charges(plan, step);
}

bool denial_peeks_ahead(const struct plan *plan, const struct plan_step *step)
{
	return plan->by_order ||
	       (plan->adds_earlier && pays_later(step) && denial_earlier_charges(plan, step) > 0);
}

bool denial_peeks_at(const struct plan *plan, const struct plan_step *step)
{
	if (step->shadow)
		return false;
	if (step->remote ? !step->answered
	                 : step > plan->refused || (plan->remote && step < plan->refused))
		return true;
	/* The step ran after the earlier charge, so its retry_after_ns was not for the sum of both. */
	return denial_cost(plan, step) > plan->cost;
}

bool denial_is_shadowed(const struct plan *plan, const struct plan_step *step)
{
	for (size_t i = 0; i < plan->step_count && !step->shadow; i++) {
		const struct plan_step *other = &plan->steps[i];

		if (other->shadow && other->key.hash == step->key.hash && other->allowed)
			return true;
	}
	return false;
}

bool denial_is_early(struct plan *plan)
{
	if (!plan->has_shadow || !plan_charges(plan))
		return false;
	for (size_t i = 0; i < plan->step_count; i++)
		if (denial_is_shadowed(plan, &plan->steps[i])) {
			plan->adds_earlier = true;
			return true;
		}
	return false;
}

bool denial_needs_peek(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (denial_peeks_at(plan, &plan->steps[i]))
			return true;
	return false;
}

enum weir_reason denial_reason(const struct plan *plan, const struct plan_step *step,
                               const struct weir_decision *d)
{
	bool asks = !plan_charges(plan) || plan->cost_exceeds_limit;

	return wait_refusal_reason(&step->limit->algo, plan->position, asks ? WEIR_ZERO : plan->max_wait_ns,
	                    d);
}

/* Lets the denial name `step`, which is before the step that it named so far. */
static void name_instead(struct plan *plan, struct plan_step *step, const struct weir_decision *one,
                         struct weir_decision *d)
{
	plan->refused = step;
	*d = *one;
	if (!plan->in_order || d->reason == WEIR_REASON_STORE_FAILURE)
		return;
	d->reason = denial_reason(plan, step, d);
	if (d->reason == WEIR_REASON_OK) /* the plan could wait for this step, but not for the other */
		d->reason = WEIR_REASON_WAIT_TOO_LONG;
	step->reason = d->reason;
}

void denial_record_among_others(struct plan *plan, struct plan_step *step,
                                const struct weir_decision *one, struct weir_decision *d)
{
	bool is_first = plan->passes && plan->stage < PLAN_EXPLAIN;

	step->refused = true;
	step->retry_after_ns = one->retry_after_ns;
	if (is_first) {
		d->retry_after_ns = step->retry_after_ns;
		plan->passes = false;
		plan->refused = step;
	} else if (step < plan->refused && plan->stage != PLAN_EXPLAIN_SHADOWED) {
		name_instead(plan, step, one, d);
	}
}

void denial_of_cost(struct plan_step *step, struct weir_decision *d)
{
	step->until_ns = 0;
	step->allowed = d->allowed = false;
	step->reason = d->reason = WEIR_REASON_OVER_LIMIT;
	stage_explain(step, d);
	d->wait_ns = 0;
	d->retry_after_ns = ALGO_HORIZON_NS; /* never: later than any state ends */
}

void denial_decide(struct plan *plan, enum weir_reason reason, struct weir_decision *d)
{
	struct plan_step *step = plan->refused;

	wait_deny(d, reason);
	stage_explain(step, d);
	step->allowed = false;
	step->reason = reason;
	step->refused = true;
	step->retry_after_ns = d->retry_after_ns;
}

/*
 * If the order of rules decides, a rule may allow requests that its limit refuses. After the
 * retries of the rules above it such a rule passes the request if it is still refused itself, so
 * later rules do not count.
 */
static uint64_t longest_retry_ns(const struct plan *plan)
{
	uint64_t longest_ns = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (step->shadow || !step->refused)
			continue;
		if (!plan->by_order || step->rule->answer != RULES_ALLOW)
			longest_ns = u64_max(longest_ns, step->retry_after_ns);
		else if (longest_ns > 0 && step->retry_after_ns > longest_ns)
			break;
	}
	return longest_ns;
}

void denial_explain(const struct plan *plan, struct weir_decision *d)
{
	d->retry_after_ns = longest_retry_ns(plan);
	if (plan->step_decisions)
		plan->step_decisions[plan->refused - plan->steps].retry_after_ns = d->retry_after_ns;
}

void denial_reset(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].answered = plan->steps[i].refused = false;
}

void denial_listed(const struct rules_rule *rule, struct weir_decision *d)
{
	bool allowed = rule->answer == RULES_ALLOW;

	*d = (struct weir_decision){
	    .allowed = allowed,
	    .reason = WEIR_REASON_LISTED,
	    .rule = rule->name,
	    .result = allowed ? NULL : rule->result,
	    .retry_after_ns = allowed ? 0 : ALGO_RETRY_DEFAULT_NS, /* no limit says better */
	    .degraded = d->degraded,
	};
}
