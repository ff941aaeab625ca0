/* stage.h: properties of the stage that a plan is in, and the order in which it runs its steps. */
#ifndef ENGINE_PLAN_STAGE_H
#define ENGINE_PLAN_STAGE_H

#include "engine/plan/plan.h"

/** Whether the stage refunds. */
static inline bool stage_refunds(enum plan_stage stage)
{
	return stage >= PLAN_ROLL_BACK;
}

/**
 * Returns the index of the stage's `i`-th step. Refunds begin with the newest charge, because a
 * paced limit can refund only the newest of its starts.
 */
static inline size_t stage_index(const struct plan *plan, size_t i)
{
	return stage_refunds((enum plan_stage)plan->stage) ? plan->step_count - 1 - i : i;
}

/** Sets the rule of a step's decision, and the rule's result if it is a denial. */
static inline void stage_set_rule(const struct plan_step *step, struct weir_decision *decision)
{
	decision->rule = step->rule ? step->rule->name : NULL;
	decision->result = step->rule && !decision->allowed ? step->rule->result : NULL;
}

/**
 * Whether the plan is the first that waits for the key. It must not wake that key's queue: if two
 * rules charge the key, it would wake itself again and again.
 */
static inline bool stage_is_first_waiter(const struct plan *plan, uint64_t hash)
{
	return plan->queue_position >= WAIT_FIRST && plan->awaited_key_hash == hash;
}

/** Whether the stage only peeks, to find when a denied plan would pass. */
static inline bool stage_explains(const struct plan *plan)
{
	return plan->stage == PLAN_EXPLAIN || plan->stage == PLAN_EXPLAIN_SHADOWED;
}

/** Returns the rule whose own answer decides the plan so far, or NULL. */
static inline const struct rules_rule *stage_deciding_rule(const struct plan *plan)
{
	const struct rules_rule *rule =
	    plan->refused_step ? plan->refused_step->rule : plan->answering_rule;

	return rule && rule->answer != RULES_BY_LIMITS ? rule : NULL;
}

/** As stage_deciding_rule, but NULL if the plan runs its other steps in spite of that rule. */
static inline const struct rules_rule *stage_ending_rule(const struct plan *plan)
{
	const struct rules_rule *rule = stage_deciding_rule(plan);

	return rule && !plan->decides_every_step ? rule : NULL;
}

/** With `first_refusal_decides`: whether a rule above the step has decided. */
static inline bool stage_is_below_decision(const struct plan *plan, const struct plan_step *step)
{
	return plan->first_refusal_decides && plan->refused_step && step > plan->refused_step;
}

/* The passes in which PLAN_EXECUTE runs the steps in memory of a plan to acquire. */
enum {
	PASS_AFTER_PEEK,
	PASS_WITHOUT_PEEK, /* first of all: the step that the plan has not peeked at */
	PASS_PACED,        /* last of all: a paced limit can refund only its newest start */
};

#define STAGE_PASS(pass) (1u << (pass))
#define STAGE_PASSES     (STAGE_PASS(PASS_PACED + 1) - 1) /* all of PLAN_EXECUTE */
#define STAGE_ANY_PASS   (~0u)                            /* the one pass of other stages */

/**
 * In order_steps.c. Sets the pass of each step. Returns whether to peek before any step is charged.
 */
bool stage_order_steps(struct plan *plan);

/** Returns how many units are left by a decision: no number of them ends if there is no quota. */
static inline uint64_t stage_units_left(const struct weir_decision *decision)
{
	return decision->quota > 0 ? decision->remaining : UINT64_MAX;
}

/**
 * Whether the limit of step `i` has fewer units left than that of the plan's decision so far. Of
 * equal ones the first in the order of the rules is tighter, whatever the order in which they ran.
 */
static inline bool stage_is_tighter(const struct plan *plan, uint32_t i,
                                    const struct weir_decision *step_decision,
                                    const struct weir_decision *decision)
{
	uint64_t left = stage_units_left(step_decision), least = stage_units_left(decision);

	return left < least || (left == least && i < plan->tightest);
}

#endif
