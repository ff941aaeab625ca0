/* run_plan.h: runs the plan of a request, its steps at limits, and sets the error if it fails. */
#ifndef SERVER_RUN_PLAN_H
#define SERVER_RUN_PLAN_H

#include "server/requests/work_error.h"

/** The engine's operation for an enum request_op. */
static inline enum algo_op run_plan_op(unsigned op)
{
	static const enum algo_op ops[] = {
	    [REQUEST_ACQUIRE] = ALGO_ACQUIRE,
	    [REQUEST_PEEK] = ALGO_PEEK,
	    [REQUEST_REFUND] = ALGO_REFUND,
	    [REQUEST_RESET] = ALGO_RESET,
	};

	return ops[op];
}

typedef enum engine_state plan_begin(const struct decision_context *context, struct plan *plan,
                                     struct weir_decision *decision);

/** Begins or resumes the plan. Returns false if it waits, is at a store, or has failed. */
static inline bool run_plan(struct decider *decider, struct work *work, struct reply *reply,
                            plan_begin *begin)
{
	const struct decision_context *context = &decider->context;
	struct plan *plan = &work->plan;
	struct weir_decision *d = &reply->decision;
	enum engine_state state =
	    plan->stage == PLAN_PREPARED ? begin(context, plan, d) : engine_resume(context, plan, d);

	reply->must_wait = state == ENGINE_WAITS;
	reply->is_unfinished = decider_count_submission(decider, state);
	if (__builtin_expect(plan->status != WEIR_OK, 0) && state == ENGINE_DONE) {
		if (plan->status == WEIR_ECOST)
			work_fail_cost(decider, work);
		else
			work_set_status(work, plan->status);
	}
	return state == ENGINE_DONE && plan->status == WEIR_OK;
}

#endif
