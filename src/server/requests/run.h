/* run.h: for those that handle requests: to run the plan of a work, and to tell its error. */
#ifndef SERVER_RUN_H
#define SERVER_RUN_H

#include "server/requests/decider.h"

#define RUN_QUIET_NS (10 * NS_PER_S)

/** The engine's operation for an enum request_op. */
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

/** Goes on with the newest configuration. Not while works of the batch are undecided. */
void run_advance(struct decider *decider);

/** The answer is an error, whatever was asked. `message` outlives the answer. */
static inline void run_refuse(struct work *work, int status, const char *message)
{
	if (work->kind == REQUEST_LOCAL) /* it has an answer of its own */
		return;
	work->status = (signed char)status;
	work->message = status != WEIR_OK ? message : NULL;
}

/** Takes `status` as the engine's functions return it; it may be 0. */
static inline void run_check(struct work *work, int status)
{
	run_refuse(work, status, weir_strerror(status));
}

/** The message is copied. */
void run_fail(struct decider *decider, struct work *work, int status, struct slice message);
/** The same of a request that its sender may not make: nothing of it is done. */
void run_turn_away(struct decider *decider, struct work *work, int status, struct slice message);
/** The answer is that the user may not use the limit; nothing else is done. */
__attribute__((noinline)) void run_turn_away_limit(struct decider *decider, struct work *work,
                                                   const weir_limit *limit);
/**
 * Whether the sender may use the limit; if not, the answer says so. Ask this before anything that
 * depends on the limit, on its quota or on a key: else the answer tells of them.
 */
static inline bool run_may_use(struct decider *decider, struct work *work, const weir_limit *limit)
{
	const struct user *user = decider->user;

	if (__builtin_expect(!user || !user->limits, 1) ||
	    user_may_use(user, engine_limit_index(decider->config->engine, limit)))
		return true;
	run_turn_away_limit(decider, work, limit);
	return false;
}

/** The limits that the sender may use, as struct engine_attributes has them. */
static inline const uint64_t *run_permitted(const struct decider *decider)
{
	return decider->user ? decider->user->limits : NULL;
}

/**
 * Warns of what the client of a connection can cause as often as it likes: once in RUN_QUIET_NS, so
 * that nobody can fill the disk. *quiet_ns keeps until when not. `where`: the protocol of the
 * listener, or NULL.
 */
void run_log_client(struct log *log, uint64_t *quiet_ns, const char *event, const char *where,
                    const struct net_conn *conn, const char *message);
/** "expected …, found 'NAME'". */
void run_fail_name(struct decider *decider, struct work *work, int status, const char *expected,
                   struct slice name);

/** The limit of that name. NULL: there is none, and the answer says so. */
const weir_limit *run_find_limit(struct decider *decider, struct work *work, struct slice name);

/** The answer is that a limit could never grant what the plan would charge it: ECOST. */
__attribute__((noinline)) void run_fail_cost(struct decider *decider, struct work *work);

/** As run_check, of a request that was prepared by the rules. */
void run_check_rules(struct decider *decider, struct work *work, int status, const struct request *r);

typedef enum engine_state run_begin(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *decision);

/** Begins, or goes on. False: the plan waits, is at a store, or has failed. */
static inline bool run_plan(struct decider *decider, struct work *work, struct reply *reply,
                            run_begin *begin)
{
	const struct decision_context *context = &decider->context;
	struct plan *plan = &work->plan;
	struct weir_decision *d = &reply->decision;
	enum engine_state state =
	    plan->stage == PLAN_PREPARED ? begin(context, plan, d) : engine_resume(context, plan, d);

	reply->waits = state == ENGINE_WAITS;
	reply->at_store = decider_at_store(decider, state);
	if (__builtin_expect(plan->status != WEIR_OK, 0) && state == ENGINE_DONE) {
		if (plan->status == WEIR_ECOST)
			run_fail_cost(decider, work);
		else
			run_check(work, plan->status);
	}
	return state == ENGINE_DONE && plan->status == WEIR_OK;
}

#endif
