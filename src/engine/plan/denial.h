/*
 * denial.h: which step a denied plan names, and after how long the request would pass.
 *
 * The answer names the first refused enforced step in the order of the rules, whichever step was
 * asked first. The answer's retry_after_ns is the longest of theirs, because the
 * request passes when none is refused any more. A plan that is refused has not asked every step:
 * it stopped at the first refusal, and it asks memory before remote stores. So before it is
 * denied, it peeks at the others (PLAN_EXPLAIN). A plan that is granted does none of this.
 *
 * Two steps may be on one count, because two rules charge it. Then the count must have room for
 * both, and a step that would be refused beside the earlier one is refused, even if the earlier
 * one is not.
 */
#ifndef ENGINE_PLAN_DENIAL_H
#define ENGINE_PLAN_DENIAL_H

#include "engine/plan/plan.h"

/** Whether the plan has one step, and that in memory: then a denial of the step says all. */
static inline bool denial_has_one_step(const struct plan *plan)
{
	return plan->step_count == 1 && !plan->remote;
}

/** The stage behind a refused PLAN_EXECUTE: a step that is alone has taken nothing. */
static inline enum plan_stage denial_next_stage(const struct plan *plan)
{
	return denial_has_one_step(plan) ? PLAN_REFUSED : PLAN_ROLL_BACK;
}

/** The units that earlier enforced steps of the plan charge on the count of an enforced step. */
uint64_t denial_earlier_charges(const struct plan *plan, const struct plan_step *step);

/** The cost of a peek: together with those units, where that is the same as one charge of both. */
uint64_t denial_cost(const struct plan *plan, const struct plan_step *step);

/** Sets what a peek at the step asks for: that cost, or its own and those units. */
void denial_charge(const struct plan *plan, const struct plan_step *step, struct algo_call *call);

/**
 * Whether a plan peeks at a remote step before it takes anything: by the order of rules, and if a
 * refusal would give back an earlier charge of the count that may not be given back exactly.
 */
bool denial_peeks_ahead(const struct plan *plan, const struct plan_step *step);

/** Makes `d` the denial of a cost that could never be granted. */
void denial_of_cost(struct plan_step *step, struct weir_decision *d);

/**
 * A step of a stage was refused, as `one` says: the plan does not pass. Keeps `d`, which is about
 * the first refused step that was asked, about the first one in order.
 */
void denial_record_among_others(struct plan *plan, struct plan_step *step,
                                const struct weir_decision *one, struct weir_decision *d);

static inline void denial_record(struct plan *plan, struct plan_step *step,
                                 const struct weir_decision *one, struct weir_decision *d)
{
	if (!denial_has_one_step(plan)) {
		denial_record_among_others(plan, step, one, d);
		return;
	}
	step->refused = true;
	step->retry_after_ns = one->retry_after_ns;
	plan->passes = false;
	plan->refused = step;
}

/** Whether a plan that is denied has yet to ask the step. */
bool denial_peeks_at(const struct plan *plan, const struct plan_step *step);

/** Whether a shadow rule has charged the count of the step, which is enforced. */
bool denial_is_shadowed(const struct plan *plan, const struct plan_step *step);

/**
 * Whether shadow rules have charged any count of a plan that is denied: then its retry_after_ns is
 * too early, and PLAN_EXPLAIN_SHADOWED peeks at these counts for all charges together.
 */
bool denial_is_early(struct plan *plan);

/** Whether it has yet to ask any. */
bool denial_needs_peek(const struct plan *plan);

/** Why a plan is denied by this step, or WEIR_REASON_OK if the plan could wait for it. */
enum weir_reason denial_reason(const struct plan *plan, const struct plan_step *step,
                               const struct weir_decision *d);

/** Makes `d` a denial by plan->refused. */
void denial_decide(struct plan *plan, enum weir_reason reason, struct weir_decision *d);

/** All steps are asked: `d` says when the request would pass. */
void denial_explain(const struct plan *plan, struct weir_decision *d);

/** Before a plan that waited tries again. */
void denial_reset(struct plan *plan);

/** The decision of a rule that answers by itself. */
void denial_listed(const struct rules_rule *rule, struct weir_decision *d);

#endif
