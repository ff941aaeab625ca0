/*
 * permissions.h: whether the sender of a request may make it.
 *
 * Pages in browsers are refused first (access.h). Where there are users, the user's rights decide;
 * elsewhere the peer's address (`protected`). Whether a user may use a limit is checked when the
 * limit is found (work_may_use_limit).
 */
#ifndef SERVER_PERMISSIONS_H
#define SERVER_PERMISSIONS_H

#include "server/access/access.h"
#include "server/requests/decider.h"

/** Whether no more is to be looked at: so it is for what is asked on most connections. */
static inline bool permissions_are_plain(const struct decider *decider, enum request_class class,
                                         const struct request_origin *origin)
{
	if (access_matters(class, origin))
		return false;
	return __builtin_expect(!decider->config->users, 1) || class == REQUEST_FREE ||
	       (decider->user && decider->user->rule->may & RULES_MAY_ASK);
}

/** Otherwise: whether it may be made. If not, the answer says why. `r` is the request or an item of
 * it. */
__attribute__((noinline)) bool permissions_check(struct decider *decider, struct work *work,
                                                 const struct request *r,
                                                 const struct request_origin *origin);

/** For a request at /auth, where the configuration says that no proxy asks. */
__attribute__((noinline)) void permissions_refuse_proxy(struct decider *decider, struct work *work);

/** Whether the sender may use the limits of all steps of the plan; if not, the answer says so. */
bool permissions_check_steps(struct decider *decider, struct work *work);

/**
 * Logs foreign bytes on a listener for RESP; a refused HTTP request does not count. Bounded by
 * client_log_warn.
 */
void permissions_log_foreign(struct decider *decider, const struct work *work);
/**
 * A connection in the reserve is for health, metrics and what an operator does. Its
 * first request is its last, but for greetings.
 */
void permissions_use_reserve(struct decider *decider, struct work *work, struct request *r);

#endif
