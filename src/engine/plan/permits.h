/*
 * permits.h: issues, redeems and checks the permits of plans. A permit names the charges of a
 * request, so that they can be refunded, or the request's outcome be reported, once.
 *
 * A concurrency limit finds the entries of a permit in the key's own state and releases them there.
 * All other charges are refunded only by the thread that redeems the permit, which means that it
 * removes the permit from the table's outstanding ones (store/permit.h).
 */
#ifndef ENGINE_PLAN_PERMITS_H
#define ENGINE_PLAN_PERMITS_H

#include "engine/plan/plan.h"

/** Makes the permit of an allowed plan outstanding, or voids it if the plan has no charges. */
void permits_issue(const struct decision_context *context, struct plan *plan);
/** Before a refund by permit: redeems the permit, and sets `permit_is_valid` if it was outstanding.
 */
void permits_redeem(const struct decision_context *context, struct plan *plan);
/** Completes the call by which a step is refunded by permit. */
void permits_fill_call(const struct plan *plan, const struct plan_step *step,
                       struct algo_call *call);
/**
 * Redeems a permit of this server after its claim has succeeded. Not before: if another server has
 * claimed the permit, that server's report must find it outstanding.
 */
void permits_redeem_claimed(const struct decision_context *context, struct plan *plan);
/** Whether the permit is outstanding. For a report to limits that are not concurrency limits. */
bool permits_are_outstanding(const struct decision_context *context, struct plan *plan);
/**
 * Before a refund or a report: drops the charges that have ended at their remote stores by any
 * clock (PERMITS_CLOCKS_NS). The store's clock decides about the other charges.
 */
void permits_drop_ended(const struct decision_context *context, struct plan *plan);
/** Whether the plan reports to a limit: then the permit's other charges stay, and are spent. */
bool permits_spend_other_charges(const struct plan *plan);
/**
 * Merges a step's decision into the plan's: allowed if any charge was outstanding, with the numbers
 * of the step that has the fewest units remaining.
 */
void permits_merge_decision(struct plan *plan, struct plan_step *step,
                            const struct weir_decision *step_decision,
                            struct weir_decision *decision);

#endif
