/*
 * work_error.h: sets the error that answers a request, and makes its message. A work (work.h) is
 * the request while it is processed.
 */
#ifndef SERVER_WORK_ERROR_H
#define SERVER_WORK_ERROR_H

#include "server/requests/decider.h"

/** Answers the work with an error. `message` must outlive the answer. */
static inline void work_set_error(struct work *work, int status, const char *message)
{
	if (work->kind == REQUEST_LOCAL) /* such a request has an answer of its own */
		return;
	work->status = (signed char)status;
	work->message = status != WEIR_OK ? message : NULL;
}

/** Sets a status of the engine, which may be 0, with its standard message. */
static inline void work_set_status(struct work *work, int status)
{
	work_set_error(work, status, weir_strerror(status));
}

/** Sets an error with a copy of the message. */
void work_fail(struct decider *decider, struct work *work, int status, struct slice message);
/** The same for a request that its sender may not make: none of its handlers runs. */
void work_reject(struct decider *decider, struct work *work, int status, struct slice message);
/** Rejects the work because the user may not use the limit. */
__attribute__((noinline)) void work_reject_limit(struct decider *decider, struct work *work,
                                                 const weir_limit *limit);
/**
 * Whether the sender may use the limit; otherwise rejects the work. Call it before anything that
 * depends on the limit, its quota or a key: an error would disclose them.
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

/** Sets the message "expected …, found 'NAME'". */
void work_fail_name(struct decider *decider, struct work *work, int status, const char *expected,
                    struct slice name);

/** The limit of that name; NULL after setting the error that there is none. */
const weir_limit *work_find_limit(struct decider *decider, struct work *work, struct slice name);

/** Sets ECOST: a limit could never grant the cost that the plan would charge. */
__attribute__((noinline)) void work_fail_cost(struct decider *decider, struct work *work);

/** Like work_set_status, for a request that the rules have prepared. */
void work_set_rules_status(struct decider *decider, struct work *work, int status,
                           const struct request *r);

#endif
