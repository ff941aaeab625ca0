/* stage.h: the steps of the stage that a plan is in. */
#ifndef ENGINE_PLAN_STAGE_H
#define ENGINE_PLAN_STAGE_H

#include "engine/plan/plan.h"

/** Whether it gives back. */
static inline bool stage_refunds(enum plan_stage stage)
{
	return stage >= PLAN_ROLL_BACK;
}

/**
 * The index of the step that comes `i`-th in the stage. What is given back goes back newest first:
 * of several turns in one paced count only the newest can be given back.
 */
static inline size_t stage_index(const struct plan *plan, size_t i)
{
	return stage_refunds((enum plan_stage)plan->stage) ? plan->step_count - 1 - i : i;
}

/** Says in a decision which rule it is of. */
static inline void stage_explain(const struct plan_step *step, struct weir_decision *d)
{
	d->rule = step->rule ? step->rule->name : NULL;
	d->result = step->rule && !d->allowed ? step->rule->result : NULL;
}

/**
 * Whether the plan is the first that waits for the key. It would wake itself, and take and give
 * back for ever, where two rules charge one key.
 */
static inline bool stage_is_first_of(const struct plan *plan, uint64_t hash)
{
	return plan->position >= WAIT_FIRST && plan->waits_at == hash;
}

/** Whether the stage asks only when a plan that is denied would pass. */
static inline bool stage_explains(const struct plan *plan)
{
	return plan->stage == PLAN_EXPLAIN || plan->stage == PLAN_EXPLAIN_SHADOWED;
}

/** The rule whose answer decides the plan, as far as it is decided; or NULL. */
static inline const struct rules_rule *stage_answering(const struct plan *plan)
{
	const struct rules_rule *rule = plan->refused ? plan->refused->rule : plan->listed;

	return rule && rule->answer != RULES_BY_LIMITS ? rule : NULL;
}

/** The same if the plan ends by it: it does not ask what else there is. */
static inline const struct rules_rule *stage_ending(const struct plan *plan)
{
	const struct rules_rule *rule = stage_answering(plan);

	return rule && !plan->explains_all ? rule : NULL;
}

/** Whether the order of rules ends before the step: a rule above it has decided. */
static inline bool stage_is_below(const struct plan *plan, const struct plan_step *step)
{
	return plan->by_order && plan->refused && step > plan->refused;
}

/* The passes in which PLAN_EXECUTE comes to the steps in memory of a plan to acquire. */
enum {
	PASS_AFTER_PEEK,
	PASS_WITHOUT_PEEK, /* before all others: the one that nobody has peeked at */
	PASS_PACED, /* paced: only the newest start can be given back, so it had better not be asked to
	             */
};

#define STAGE_PASS(pass) (1u << (pass))
#define STAGE_ANY_PASS   (~0u) /* of other stages */

/**
 * In order_steps.c. Orders the steps when the plan starts. Returns whether to peek before anything
 * is taken.
 */
bool stage_order_steps(struct plan *plan);

#endif
