/* store_failure.h: steps whose store is away. */
#ifndef ENGINE_REMOTE_STORE_FAILURE_H
#define ENGINE_REMOTE_STORE_FAILURE_H

#include "engine/plan/plan.h"

/**
 * Chooses what happens if the store of a step could not do it. Makes the `local` of a limit that
 * a command brought. RULES_CLOSED replaces RULES_LOCAL where the share could never grant the plan's
 * charges on it.
 */
enum rules_failure failure_policy(const struct decision_context *context, const struct plan *plan,
                                  const struct plan_step *step);

/** Allowed, with nothing taken, or denied. */
void failure_decide(const struct plan_step *step, bool allowed, struct weir_decision *d);

/** After a stage: says of steps, and of the plan's decision so far, what a policy has decided. */
void failure_explain(struct plan *plan, struct weir_decision *d);

/** From here on the step is of another limit. */
void failure_move_step(const struct weir_table *table, struct plan_step *step,
                       const struct weir_limit *limit);

/** A reset forgets what a remote limit has used in memory, too. */
void failure_reset_local(const struct decision_context *context, const struct plan_step *step);

/** A plan whose steps have moved to memory tries their stores again. */
void failure_return_steps(const struct weir_table *table, struct plan *plan);

#endif
