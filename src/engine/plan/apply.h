/*
 * apply.h: runs one step of a plan (an operation on one key of one limit) on the states in a
 * table's memory, and turns its outcome into a decision.
 */
#ifndef ENGINE_PLAN_APPLY_H
#define ENGINE_PLAN_APPLY_H

#include "engine/plan/plan.h"
#include "store/store.h"

/** Runs any step of `limit`. Returns as store_run. */
__attribute__((noinline)) uint64_t engine_apply_slow(const struct weir_limit *limit,
                                                     const struct store_step *step,
                                                     struct weir_decision *decision);

/**
 * Acquires from the wide state whose header is in key.cell, if the fast path can. Returns the end
 * of the state after it, or 0 if it has done nothing. It gets single arguments, because a struct
 * store_step that is passed by address would have to be in memory, not in registers, for all
 * callers.
 */
__attribute__((noinline)) uint64_t engine_try_wide(const struct weir_limit *limit,
                                                   struct store_key key, uint64_t cost,
                                                   uint64_t now_ns, struct weir_decision *decision);

/**
 * Runs any step of a limit that does not draw; calls context->breaker_ran. Returns as store_run.
 */
__attribute__((noinline)) uint64_t engine_apply_observed(const struct decision_context *context,
                                                         const struct plan_step *step,
                                                         const struct algo_call *call,
                                                         struct weir_decision *decision);

/** Returns the end by which a refund by permit finds the step's charge (store_refund_end). */
uint64_t engine_converted_charge_end(const struct decision_context *context,
                                     const struct plan_step *step);

/**
 * Runs a step by the fast path on a key whose cell was found. Returns false if it has done nothing.
 */
static inline bool engine_try(const struct weir_limit *limit, const struct store_step *step,
                              struct weir_decision *decision, uint64_t *until_ns)
{
	struct algo_decision outcome;

	if (__builtin_expect(!step->key.cell || !algo_is_current(step->limit), 0))
		return false;
	if (__builtin_expect(!store_try(step, &outcome, until_ns), 0)) {
		if (step->limit->width == 0 || step->call.op != ALGO_ACQUIRE)
			return false;
		*until_ns = engine_try_wide(limit, step->key, step->call.cost, step->at.now_ns, decision);
		return *until_ns != 0;
	}
	limit_fill_decision(limit, step->limit, &outcome, decision);
	return true;
}

/**
 * Runs any step. Inline, so that the compiler omits the cases that the caller's step can't have.
 */
static inline uint64_t engine_apply(const struct weir_limit *limit, struct store_step step,
                                    struct weir_decision *decision)
{
	uint64_t until_ns;

	if (!step.key.cell)
		store_find_likely(step.store, &step.key);
	/* The slow path gets a copy, so that `step` stays in registers on the fast path. */
	if (__builtin_expect(!engine_try(limit, &step, decision, &until_ns), 0))
		return engine_apply_slow(limit, &(struct store_step){step.store, step.limit, step.key,
		                                                     step.call, step.at}, decision);
	return until_ns;
}

#endif
