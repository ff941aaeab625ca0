/* submit.h: the steps of a plan at stores that complete them later. */
#ifndef ENGINE_SUBMIT_H
#define ENGINE_SUBMIT_H

#include "engine/plan.h"

struct submitted {
	struct store_job job; /* first, so that either is the other */
	struct submission *of;
	struct step *step;
};

/** Hands a step to the store of its limit. 0 or ENOMEM. */
int submit_step(const struct turn *turn, struct plan *plan, struct step *step,
                const struct algo_call *call);

/**
 * Behind all steps that can be submitted at once: whether a store still has any of them. Then
 * turn->ready is called later, and `decision` is kept until submit_results.
 */
bool submit_is_pending(struct plan *plan, const struct weir_decision *decision);

/** The decision as it was kept. */
void submit_decision(const struct plan *plan, struct weir_decision *decision);

/** How many steps have come back, *results; they are not told again. */
size_t submit_results(struct plan *plan, struct submitted **results);

/** When the plan is done. */
void submit_close(struct plan *plan);

#endif
