/* submit.h: submits steps of a plan to remote stores, which complete them later. */
#ifndef ENGINE_REMOTE_SUBMIT_H
#define ENGINE_REMOTE_SUBMIT_H

#include "engine/plan/plan.h"

struct submitted {
	struct store_operation operation; /* first, so that either is the other */
	struct submission *submission;
	struct plan_step *step;
	bool follows_another; /* it is not the first operation of its list */
	bool has_own_list;    /* it is in a list of its own, not in that of its store */
	bool is_mark;         /* it marks a charge as spent, and is no step of the plan */
	bool is_claim;        /* it claims the permit, for the permit's charges in memory */
};

/** Returns the size of the memory that a plan has for its operations until it is done or waits. */
size_t submit_size(const struct plan *plan);

/** Allocates the memory for the operations of a stage. Returns false if there is none. */
bool submit_open(const struct decision_context *context, struct plan *plan);

/**
 * Appends an operation for a step to the list of its store. `all_or_none`: if the store denies an
 * operation of the list, it charges none.
 */
void submit_step(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                 const struct algo_call *call, bool all_or_none);

/**
 * Appends a refund by the plan's permit, in a list of its own, which the store withholds if the
 * charge is marked as spent. The list also marks the charge, if `call->cost` is not 0 or the plan
 * spends the charges that it does not refund (permits_spend_other_charges).
 */
void submit_refund_by_permit(const struct decision_context *context, struct plan *plan,
                             struct plan_step *step, const struct algo_call *call);

/**
 * Appends a claim of the permit at context->claim_store: a mark that only one server can make.
 * Returns false if it can't be made.
 */
bool submit_claim(const struct decision_context *context, struct plan *plan,
                  struct plan_step *step);

/**
 * Submits each list to its store. Returns whether a store has not completed its list: then
 * context->ready is called later, and submit_decision returns a copy of `decision`.
 */
bool submit_all(const struct decision_context *context, struct plan *plan,
                const struct weir_decision *decision);

/** Copies the decision that submit_all stored. */
void submit_decision(const struct plan *plan, struct weir_decision *decision);

/** Returns the number of completed operations, and these in *results. Each is returned once. */
size_t submit_results(struct plan *plan, struct submitted **results);

/** Releases the plan's submission, when the plan is done or waits for a key. */
void submit_close(struct plan *plan);

#endif
