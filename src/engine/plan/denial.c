/*
 * denial.c: finds the step that the denial of a plan names, and the time after which the request
 * would pass.
 *
 * Two steps of a plan may charge one key. Then the later step is refused if its limit does not
 * grant the sum of both charges, so a peek at it adds the *earlier charges* to its cost. Shadow
 * steps only count; enforced steps decide.
 */
#include "engine/plan/denial.h"

#include "engine/plan/stage.h"

/* Returns the units that enforced steps before `step` charge to its key. */
uint64_t denial_earlier_charges(const struct plan *plan, const struct plan_step *step)
{
	uint64_t charges = 0;

	for (const struct plan_step *other = plan->steps; other < step && !plan->steps_are_independent;
	     other++)
		charges += !other->shadow && other->key.hash == step->key.hash;
	return sat_u64((u128)charges * u64_max(plan->cost, 1));
}

/*
 * Returns the cost of a peek at the step: with the earlier charges of its key, unless the limit
 * makes not this request but the next one wait for a charge (algorithm.h, pays_later).
 */
static uint64_t peek_cost(const struct plan *plan, const struct plan_step *step)
{
	uint64_t earlier;

	if (step->shadow || step->limit->algo.algorithm->pays_later)
		return plan->cost;
	earlier = denial_earlier_charges(plan, step);
	return earlier > 0 ? sat_add(u64_max(plan->cost, 1), earlier) : plan->cost;
}

/* In some paced limits a request does not wait for its own cost, but the next one does. */
static bool pays_later(const struct plan_step *step)
{
	return !step->shadow && step->limit->algo.algorithm->pays_later;
}

void denial_set_peek_cost(const struct plan *plan, const struct plan_step *step,
                          struct algo_call *call)
{
	call->cost = peek_cost(plan, step);
	if (pays_later(step))
		call->earlier = denial_earlier_charges(plan, step);
}

/* Whether a peek at a remote step must come before any charge. */
bool denial_peeks_before_charge(const struct plan *plan, const struct plan_step *step)
{
	return plan->first_refusal_decides || (plan->peek_adds_earlier_charges && pays_later(step) &&
	                                       denial_earlier_charges(plan, step) > 0);
}

/*
 * Whether a denied plan peeks at the step, to find its retry_after_ns: if the step did not run, or
 * ran for its own cost alone and the key needs capacity for the earlier charges, too.
 */
bool denial_needs_peek_at(const struct plan *plan, const struct plan_step *step)
{
	bool has_run;

	if (step->shadow)
		return false;
	if (step->remote)
		has_run = step->store_answered;
	else if (step == plan->refused_step)
		has_run = true;
	else /* remote steps run first: if one was refused, those in memory did not run */
		has_run = step < plan->refused_step && !plan->has_remote_steps;
	return !has_run || peek_cost(plan, step) > plan->cost;
}

static bool is_behind_answer(const struct plan *plan, const struct plan_step *step)
{
	for (const struct plan_step *other = plan->steps; other <= step; other++)
		if (!other->shadow && other->rule && other->rule->answer != RULES_BY_LIMITS)
			return true;
	return false;
}

bool denial_asks_before_wait(const struct plan *plan, const struct plan_step *step)
{
	bool has_passed = step->allowed && denial_earlier_charges(plan, step) == 0;

	return !step->shadow && step != plan->refused_step && !has_passed &&
	       !is_behind_answer(plan, step);
}

/* Whether a shadow step has charged the enforced step's key. */
bool denial_key_has_shadow_charge(const struct plan *plan, const struct plan_step *step)
{
	for (size_t i = 0; i < plan->step_count && !step->shadow; i++) {
		const struct plan_step *other = &plan->steps[i];

		if (other->shadow && other->key.hash == step->key.hash && other->allowed)
			return true;
	}
	return false;
}

/* Whether a shadow step has charged the key of an enforced step: that makes its retry later. */
bool denial_needs_second_peek(const struct plan *plan)
{
	if (!plan->has_shadow || !plan_charges(plan))
		return false;
	for (size_t i = 0; i < plan->step_count; i++)
		if (denial_key_has_shadow_charge(plan, &plan->steps[i]))
			return true;
	return false;
}

bool denial_needs_peek(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (denial_needs_peek_at(plan, &plan->steps[i]))
			return true;
	return false;
}

/* Returns WEIR_REASON_OK if the plan can wait for the step's key: never for a store that failed. */
enum weir_reason denial_reason(const struct plan *plan, const struct plan_step *step,
                               const struct weir_decision *decision)
{
	bool cannot_wait = !plan_charges(plan) || plan->cost_exceeds_limit;
	bool store_failed = decision->reason == WEIR_REASON_STORE_FAILURE;
	uint64_t max_wait_ns = cannot_wait ? WEIR_ZERO : plan->max_wait_ns;
	enum wait_position position = plan->queue_position;
	bool waited_for_another = position >= WAIT_BEHIND && plan->awaited_key_hash != step->key.hash;

	if (cannot_wait && position == WAIT_LATE) /* an earlier deadline would not have helped */
		position = WAIT_NEW;
	if (waited_for_another) /* a longer wait would not have helped here */
		position = WAIT_NEW;
	return store_failed ? WEIR_REASON_STORE_FAILURE
	                    : wait_refusal_reason(&step->limit->algo, position, max_wait_ns, decision);
}

/*
 * Lets the denial name `step` in place of a step behind it in the order of the rules; but not if
 * the plan could wait for this step, and only not for the other.
 */
static void name_earlier_step(struct plan *plan, struct plan_step *step,
                              const struct weir_decision *step_decision,
                              struct weir_decision *decision)
{
	enum weir_reason reason =
	    plan->respects_queue ? denial_reason(plan, step, step_decision) : step_decision->reason;

	if (reason == WEIR_REASON_OK)
		return;
	plan->refused_step = step;
	*decision = *step_decision;
	decision->reason = step->reason = reason;
}

/*
 * Records a refused step of a plan with several steps. The first refusal makes the plan a denial.
 * Then the plan peeks at other steps, and the denial names one that is earlier in the order of the
 * rules. The last peeks come after shadow steps have charged: they only find later retry times.
 */
void denial_record_among_others(struct plan *plan, struct plan_step *step,
                                const struct weir_decision *step_decision,
                                struct weir_decision *decision)
{
	bool is_denied_already = plan->stage >= PLAN_EXPLAIN || !plan->none_refused;
	bool shadow_has_charged = plan->stage == PLAN_EXPLAIN_SHADOWED;

	denial_set_refused(step, step_decision);
	if (!is_denied_already) {
		decision->retry_after_ns = step->retry_after_ns;
		plan->none_refused = false;
		plan->refused_step = step;
	} else if (step < plan->refused_step && !shadow_has_charged) {
		name_earlier_step(plan, step, step_decision, decision);
	}
}

/* Makes the decision of a shadow step a denial: its limit could never grant the cost. */
void denial_for_excess_cost(struct plan_step *step, struct weir_decision *decision)
{
	step->charge_ends_ns = 0;
	step->allowed = decision->allowed = false;
	step->reason = decision->reason = WEIR_REASON_OVER_LIMIT;
	stage_set_rule(step, decision);
	decision->wait_ns = 0;
	decision->retry_after_ns = ALGO_HORIZON_NS; /* never: later than any state ends */
}

/* Makes `decision` the plan's denial, for a reason that was found after the step had run. */
void denial_decide(struct plan *plan, enum weir_reason reason, struct weir_decision *decision)
{
	struct plan_step *step = plan->refused_step;

	wait_deny(decision, reason);
	stage_set_rule(step, decision);
	step->allowed = false;
	step->reason = reason;
	step->refused = true;
	step->retry_after_ns = decision->retry_after_ns;
}

/*
 * Returns the longest retry time of the refused steps: then none of them is refused any more. If
 * the first refusal decides, its rule may allow the request (RULES_ALLOW): then later rules do not
 * count. Say rule A, which denies, could pass in 3 s, and rule B, which allows, in 5 s: in 3 s B is
 * still refused, and now first, so it allows the request.
 */
static uint64_t longest_retry_ns(const struct plan *plan)
{
	uint64_t longest_ns = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];
		bool refusal_allows = plan->first_refusal_decides && step->rule->answer == RULES_ALLOW;

		if (step->shadow || !step->refused)
			continue;
		if (!refusal_allows)
			longest_ns = u64_max(longest_ns, step->retry_after_ns);
		else if (longest_ns > 0 && step->retry_after_ns > longest_ns)
			break; /* all rules above pass by then, and this one is still refused */
	}
	return longest_ns;
}

void denial_set_retry_after(const struct plan *plan, struct weir_decision *decision)
{
	decision->retry_after_ns = longest_retry_ns(plan);
	if (plan->step_decisions)
		plan->step_decisions[plan->refused_step - plan->steps].retry_after_ns =
		    decision->retry_after_ns;
}

/* Before a plan that waited tries again. */
void denial_clear_attempt(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].store_answered = plan->steps[i].refused = false;
}

/* Makes `decision` that of a rule that allows or denies requests by itself, without limits. */
void denial_decide_by_rule(const struct rules_rule *rule, struct weir_decision *decision)
{
	bool allowed = rule->answer == RULES_ALLOW;

	*decision = (struct weir_decision){
	    .allowed = allowed,
	    .reason = WEIR_REASON_LISTED,
	    .rule = rule->name,
	    .result = allowed ? NULL : rule->result,
	    .retry_after_ns = allowed ? 0 : ALGO_RETRY_DEFAULT_NS, /* no limit says better */
	    .degraded = decision->degraded,
	};
}
