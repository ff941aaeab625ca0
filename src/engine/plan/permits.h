/*
 * permits.h: permits: the units that a plan took, and their way back.
 *
 * A step that knows the places of a request gives them back. All else that a permit covers goes
 * back by one thread: the one that first takes the permit off the list of those held
 * (store/permit.h).
 */
#ifndef ENGINE_PLAN_PERMITS_H
#define ENGINE_PLAN_PERMITS_H

#include "engine/plan/plan.h"

/**
 * Call this when a plan with a permit was allowed: the permit is held from now on,
 * if the plan took anything.
 */
void permits_hold(const struct decision_context *context, struct plan *plan);
/** Before a refund by permit: takes the permit from those that are held, and sets `refunds_rest`.
 */
void permits_begin(const struct decision_context *context, struct plan *plan);
/** The rest of the call by which a step is given back by permit. */
void permits_call(const struct plan *plan, const struct plan_step *step, struct algo_call *call);
/**
 * Takes a permit of this server from those that are held once it is claimed. Not before: if another
 * server has claimed it, its report is to find the permit held.
 */
void permits_consume_claimed(const struct decision_context *context, struct plan *plan);
/** Before a report of a permit without places: whether it is held. */
bool permits_are_held(const struct decision_context *context, struct plan *plan);
/**
 * Before that, and before a report: leaves out charges that have surely ended at their remote stores.
 * The store's clock decides whether the other charges have ended.
 */
void permits_drop_ended(const struct decision_context *context, struct plan *plan);
/** Whether the plan reports to any limit: then nothing else that the permit covers is given back. */
bool permits_spend_rest(const struct plan *plan);
/**
 * Adds a step of such a refund to the plan's decision: it is allowed if anything was held, and says
 * how the tightest of all stands.
 */
void permits_fold(struct plan *plan, struct plan_step *step, const struct weir_decision *one,
                  struct weir_decision *d);

#endif
