/* run.h: for those that handle requests: to run the plan of a work, and to tell its error. */
#ifndef SERVER_RUN_H
#define SERVER_RUN_H

#include "server/undo.h"
#include "server/work.h"

/** What the engine is to do for an enum request_op. */
static inline enum algo_op run_op(unsigned op)
{
	static const enum algo_op ops[] = {
	    [REQUEST_ACQUIRE] = ALGO_ACQUIRE,
	    [REQUEST_PEEK] = ALGO_PEEK,
	    [REQUEST_REFUND] = ALGO_REFUND,
	    [REQUEST_RESET] = ALGO_RESET,
	};

	return ops[op];
}

/** The answer is an error, whatever was asked. `message` outlives the answer. */
static inline void run_refuse(struct work *work, int status, const char *message)
{
	if (work->kind == REQUEST_LOCAL) /* it has an answer of its own */
		return;
	work->status = (signed char)status;
	work->message = status != WEIR_OK ? message : NULL;
}

/** Of `status` as the engine's functions return it, which may be 0. */
static inline void run_check(struct work *work, int status)
{
	run_refuse(work, status, weir_strerror(status));
}

/** The message is copied. */
void run_fail(struct worker *worker, struct work *work, int status, struct slice message);
/** "expected …, found 'NAME'". */
void run_fail_name(struct worker *worker, struct work *work, int status, const char *expected,
                   struct slice name);

/** As run_check, of a request that was prepared by the rules. */
void run_check_rules(struct worker *worker, struct work *work, int status, const struct request *r);

typedef enum engine_state run_begin(const struct turn *turn, struct plan *plan,
                                    struct weir_decision *decision);

/** Begins, or goes on. False: the plan waits, is at a store, or has failed. */
static inline bool run_plan(struct worker *worker, struct work *work, struct reply *reply,
                            run_begin *begin)
{
	const struct turn *turn = &worker->turn;
	struct plan *plan = &work->plan;
	struct weir_decision *d = &reply->decision;
	enum engine_state state =
	    plan->stage == PLAN_PREPARED ? begin(turn, plan, d) : engine_resume(turn, plan, d);

	reply->waits = state == ENGINE_WAITS;
	reply->at_store = undo_at_store(worker, state);
	if (__builtin_expect(plan->status != WEIR_OK, 0) && state == ENGINE_DONE)
		run_check(work, plan->status);
	return state == ENGINE_DONE && plan->status == WEIR_OK;
}

#endif
