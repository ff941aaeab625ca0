/* apply.h: one step in the store of a table, explained; no rule. */
#ifndef ENGINE_PLAN_APPLY_H
#define ENGINE_PLAN_APPLY_H

#include "engine/plan/plan.h"
#include "store/store.h"

/** Any step of `limit`. Returns as store_run. */
__attribute__((noinline)) uint64_t engine_apply_slow(const struct weir_limit *limit,
                                                     const struct store_step *step,
                                                     struct weir_decision *decision);

/**
 * An acquire from a wide state that is in key.cell, where it is done at once. Returns the end
 * of the state that it left, or 0 if nothing has happened. It gets no more than it needs, because a
 * step that is passed whole would be in memory for all callers.
 */
__attribute__((noinline)) uint64_t engine_try_row(const struct weir_limit *limit,
                                                  struct store_key key, uint64_t cost,
                                                  uint64_t now_ns,
                                                  struct weir_decision *decision);

/** Any step of a limit that does not draw. Tells context->phase_changed. Returns as store_run. */
__attribute__((noinline)) uint64_t engine_apply_observed(const struct decision_context *context,
                                                         const struct plan_step *step,
                                                         const struct algo_call *call,
                                                         struct weir_decision *decision);

/** The time by which a refund by permit names what the step took (store_refund_end). */
uint64_t engine_refund_end(const struct decision_context *context, const struct plan_step *step);

/** Does a step at once on a key that was found before. Returns false if it has done nothing. */
static inline bool engine_try(const struct weir_limit *limit, const struct store_step *step,
                              struct weir_decision *decision, uint64_t *until_ns)
{
	struct algo_decision outcome;

	if (__builtin_expect(!step->key.cell || !algo_is_current(step->limit), 0))
		return false;
	if (__builtin_expect(!store_try(step, &outcome, until_ns), 0)) {
		if (step->limit->width == 0 || step->call.op != ALGO_ACQUIRE)
			return false;
		*until_ns = engine_try_row(limit, step->key, step->call.cost, step->at.now_ns, decision);
		return *until_ns != 0;
	}
	limit_explain(limit, step->limit, &outcome, decision);
	return true;
}

/** Any step. Inline, so that what is known of it is left out. */
static inline uint64_t engine_apply(const struct weir_limit *limit, struct store_step step,
                                    struct weir_decision *decision)
{
	uint64_t until_ns;

	if (!step.key.cell)
		store_find_likely(step.store, &step.key);
	/* A copy: else the step would be in memory, not in registers, for those that are quick, too. */
	if (__builtin_expect(!engine_try(limit, &step, decision, &until_ns), 0))
		return engine_apply_slow(limit, &(struct store_step){step.store, step.limit, step.key,
		                                                     step.call, step.at}, decision);
	return until_ns;
}

#endif
