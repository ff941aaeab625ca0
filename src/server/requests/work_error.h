/* work_error.h: for those that handle requests: to run the plan of a work, and to tell its error.
 */
#ifndef SERVER_WORK_ERROR_H
#define SERVER_WORK_ERROR_H

#include "server/requests/decider.h"

/** The answer is an error, whatever was asked. `message` outlives the answer. */
static inline void work_set_error(struct work *work, int status, const char *message)
{
	if (work->kind == REQUEST_LOCAL) /* it has an answer of its own */
		return;
	work->status = (signed char)status;
	work->message = status != WEIR_OK ? message : NULL;
}

/** Takes `status` as the engine's functions return it; it may be 0. */
static inline void work_set_status(struct work *work, int status)
{
	work_set_error(work, status, weir_strerror(status));
}

/** The message is copied. */
void work_fail(struct decider *decider, struct work *work, int status, struct slice message);
/** The same of a request that its sender may not make: nothing of it is done. */
void work_reject(struct decider *decider, struct work *work, int status, struct slice message);
/** The answer is that the user may not use the limit; nothing else is done. */
__attribute__((noinline)) void work_reject_limit(struct decider *decider, struct work *work,
                                                 const weir_limit *limit);
/**
 * Whether the sender may use the limit; if not, the answer says so. Ask this before anything that
 * depends on the limit, on its quota or on a key: else the answer tells of them.
 */
static inline bool work_may_use_limit(struct decider *decider, struct work *work,
                                      const weir_limit *limit)
{
	const struct user *user = decider->user;

	if (__builtin_expect(!user || !user->limits, 1) ||
	    user_may_use(user, engine_limit_index(decider->config->engine, limit)))
		return true;
	work_reject_limit(decider, work, limit);
	return false;
}

/** "expected …, found 'NAME'". */
void work_fail_name(struct decider *decider, struct work *work, int status, const char *expected,
                    struct slice name);

/** The limit of that name. NULL: there is none, and the answer says so. */
const weir_limit *work_find_limit(struct decider *decider, struct work *work, struct slice name);

/** The answer is that a limit could never grant what the plan would charge it: ECOST. */
__attribute__((noinline)) void work_fail_cost(struct decider *decider, struct work *work);

/** As work_set_status, of a request that was prepared by the rules. */
void work_set_rules_status(struct decider *decider, struct work *work, int status,
                           const struct request *r);

#endif
