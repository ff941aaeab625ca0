/*
 * denial.h: decides which step a denied plan names, and after how long the request would pass.
 *
 * A denial names the first refused enforced step in the order of the rules, in whichever order they
 * ran. Its retry_after_ns is the longest of the refused steps, because the request passes when none
 * of them is refused any more. A plan stops at the first refusal, so it peeks at the other steps
 * (PLAN_EXPLAIN) before it is denied. A plan that is granted does none of this.
 *
 * Two rules may charge one key of one limit. Then the key needs capacity for both charges, and the
 * later step is refused if its limit would not grant the sum, even if it would grant either charge.
 */
#ifndef ENGINE_PLAN_DENIAL_H
#define ENGINE_PLAN_DENIAL_H

#include "engine/plan/plan.h"

/**
 * Whether the plan has a single step, in memory: then the denial of the step is that of the plan.
 */
static inline bool denial_has_one_step(const struct plan *plan)
{
	return plan->step_count == 1 && !plan->has_remote_steps;
}

/** Returns the stage after a refused PLAN_EXECUTE: a single step leaves nothing to roll back. */
static inline enum plan_stage denial_next_stage(const struct plan *plan)
{
	return denial_has_one_step(plan) ? PLAN_REFUSED : PLAN_ROLL_BACK;
}

/** Returns the units that earlier enforced steps of the plan charge to an enforced step's key. */
uint64_t denial_earlier_charges(const struct plan *plan, const struct plan_step *step);

/** Sets the cost of a peek's call, and the earlier charges if they are not in the cost. */
void denial_set_peek_cost(const struct plan *plan, const struct plan_step *step,
                          struct algo_call *call);

/**
 * Whether a plan peeks at a remote step before it charges: if the order of rules decides, or if a
 * roll-back of an earlier charge of the key would not be exact.
 */
bool denial_peeks_before_charge(const struct plan *plan, const struct plan_step *step);

/** Makes `decision` the denial of a shadow step whose limit could never grant the cost. */
void denial_for_excess_cost(struct plan_step *step, struct weir_decision *decision);

/** Marks a step as refused, and keeps the time of its decision for a retry. */
static inline void denial_set_refused(struct plan_step *step,
                                      const struct weir_decision *step_decision)
{
	step->refused = true;
	step->retry_after_ns = step_decision->retry_after_ns;
}

/**
 * Records that a step was refused with the decision `step_decision`. `decision` becomes the denial
 * by the first refused step in the order of the rules. denial_record calls it if the plan has
 * several steps.
 */
void denial_record_among_others(struct plan *plan, struct plan_step *step,
                                const struct weir_decision *step_decision,
                                struct weir_decision *decision);

static inline void denial_record(struct plan *plan, struct plan_step *step,
                                 const struct weir_decision *step_decision,
                                 struct weir_decision *decision)
{
	if (!denial_has_one_step(plan)) {
		denial_record_among_others(plan, step, step_decision, decision);
		return;
	}
	denial_set_refused(step, step_decision);
	plan->none_refused = false;
	plan->refused_step = step;
}

/**
 * Whether a plan that is to wait first asks the step: it may deny the plan for good, and it has not
 * passed yet, or only without the earlier charges of its key. Not steps at or behind a rule with an
 * answer of its own, since that may decide before them.
 */
bool denial_asks_before_wait(const struct plan *plan, const struct plan_step *step);

/** Whether PLAN_EXPLAIN peeks at the step: it did not run, or ran without the earlier charges. */
bool denial_needs_peek_at(const struct plan *plan, const struct plan_step *step);

/** Whether the step is enforced and a shadow rule has charged its key. */
bool denial_key_has_shadow_charge(const struct plan *plan, const struct plan_step *step);

/**
 * Whether shadow rules have charged a key of a denied plan: then its retry_after_ns is too early,
 * and PLAN_EXPLAIN_SHADOWED peeks at these keys again.
 */
bool denial_needs_second_peek(const struct plan *plan);

/** Whether PLAN_EXPLAIN peeks at any step. */
bool denial_needs_peek(const struct plan *plan);

/**
 * Returns the reason why the step denies the plan, or WEIR_REASON_OK if the plan can wait for it.
 */
enum weir_reason denial_reason(const struct plan *plan, const struct plan_step *step,
                               const struct weir_decision *decision);

/** Makes `decision` a denial by plan->refused_step. */
void denial_decide(struct plan *plan, enum weir_reason reason, struct weir_decision *decision);

/** Sets decision->retry_after_ns after the peeks: the time after which the request would pass. */
void denial_set_retry_after(const struct plan *plan, struct weir_decision *decision);

/** Clears the results of an attempt, before a plan that waited tries again. */
void denial_clear_attempt(struct plan *plan);

/** Makes `decision` the decision of a rule that answers without limits. */
void denial_decide_by_rule(const struct rules_rule *rule, struct weir_decision *decision);

#endif
