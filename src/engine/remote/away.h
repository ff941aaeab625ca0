/* away.h: steps whose store is away. */
#ifndef ENGINE_REMOTE_AWAY_H
#define ENGINE_REMOTE_AWAY_H

#include "engine/plan/plan.h"

/**
 * Chooses what happens if the store of a step could not do it. Makes the `local` of a limit that
 * a command brought. RULES_CLOSED replaces RULES_LOCAL where the share could never grant the plan's
 * charges on it.
 */
enum rules_failure away_policy(const struct decision_context *context, const struct plan *plan,
                               const struct step *step);

/** Allowed, with nothing taken, or denied. */
void away_decide(const struct step *step, bool allowed, struct weir_decision *d);

/** After a stage: says of steps, and of the plan's decision so far, what a policy has decided. */
void away_explain(struct plan *plan, struct weir_decision *d);

/** From here on the step is of another limit. */
void away_move(const struct weir_table *table, struct step *step, const struct weir_limit *limit);

/** A reset forgets what a remote limit has used in memory, too. */
void away_forget(const struct decision_context *context, const struct step *step);

/** A plan whose steps have moved to memory tries their stores again. */
void away_return(const struct weir_table *table, struct plan *plan);

#endif
