/* store_failure.h: decides steps whose store has failed, by the policy of `on_store_failure`. */
#ifndef ENGINE_REMOTE_STORE_FAILURE_H
#define ENGINE_REMOTE_STORE_FAILURE_H

#include "engine/plan/plan.h"

/**
 * Returns the policy for a step whose store has failed. Opens the local limit of a limit that came
 * with its command. RULES_CLOSED replaces RULES_LOCAL if the local limit could never grant the
 * plan's charges.
 */
enum rules_failure failure_policy(const struct decision_context *context, const struct plan *plan,
                                  const struct plan_step *step);

/** Makes `decision` the decision of such a step: allowed without a charge, or denied. */
void failure_decide(const struct plan_step *step, bool allowed, struct weir_decision *decision);

/** After a stage: marks the steps that a policy has decided, and the plan's decision so far. */
void failure_mark_degraded(struct plan *plan, struct weir_decision *decision);

/** Moves a step to another limit, with that limit's key and store. */
void failure_move_step(const struct weir_table *table, struct plan_step *step,
                       const struct weir_limit *limit);

/** Resets the key in the memory of a remote limit's local limit. */
void failure_reset_local(const struct decision_context *context, const struct plan_step *step);

/**
 * Moves the steps of a plan that moved to local limits back to their stores, to try these again.
 */
void failure_move_steps_back(const struct weir_table *table, struct plan *plan);

#endif
