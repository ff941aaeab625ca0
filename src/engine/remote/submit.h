/* submit.h: the steps of a plan at remote stores, which complete them later. */
#ifndef ENGINE_REMOTE_SUBMIT_H
#define ENGINE_REMOTE_SUBMIT_H

#include "engine/plan/plan.h"

struct submitted {
	struct store_operation operation; /* first, so that either is the other */
	struct submission *of;
	struct plan_step *step;
	bool follows;  /* another one is before it in its list */
	bool is_apart; /* in a list of its own */
	bool marks;    /* that a charge is spent: it is no step of the plan */
	bool claims;   /* the permit, for what it covers in memory */
};

/** The memory that a plan has for its steps at stores, from the first until it is done or waits. */
size_t submit_size(const struct plan *plan);

/** Makes room for the steps of a stage. Returns false if there is no memory. */
bool submit_open(const struct decision_context *context, struct plan *plan);

/** Adds a step behind the others: to the list of those at its store. */
void submit_step(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                 const struct algo_call *call, bool together);

/**
 * Adds a step that gives back by the plan's permit, in a list of its own: only where the store
 * finds no mark that this charge of the permit is spent. It marks that, if `call->cost` is not 0
 * or the plan spends what it does not give back.
 */
void submit_by_permit(const struct decision_context *context, struct plan *plan,
                      struct plan_step *step, const struct algo_call *call);

/**
 * Adds a mark, made once, at context->claims that the permit is given back. Returns false if there
 * is no memory.
 */
bool submit_claim(const struct decision_context *context, struct plan *plan,
                  struct plan_step *step);

/**
 * Hands each list to its store. Whether a store still has any of the steps: then context->ready is
 * called later, and `decision` is kept until submit_decision.
 */
bool submit_all(const struct decision_context *context, struct plan *plan,
                const struct weir_decision *decision);

/** The decision as it was kept. */
void submit_decision(const struct plan *plan, struct weir_decision *decision);

/** How many steps have come back, *results; each is returned once. */
size_t submit_results(struct plan *plan, struct submitted **results);

/** When the plan is done, or waits for a key. */
void submit_close(struct plan *plan);

#endif
