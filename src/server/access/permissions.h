/*
 * permissions.h: checks whether the sender may make a request.
 *
 * Pages in browsers are refused first (access.h). Then the permissions of the user decide, or the
 * peer's address (`protected`) if there are no users. Whether a user may use a limit is checked
 * when the limit is found (work_may_use_limit).
 */
#ifndef SERVER_PERMISSIONS_H
#define SERVER_PERMISSIONS_H

#include "server/access/access.h"
#include "server/requests/decider.h"

/** Whether the request is permitted without further checks, as is usual. */
static inline bool permissions_need_no_check(const struct decider *decider,
                                             enum request_class class,
                                             const struct request_origin *origin)
{
	if (access_matters(class, origin))
		return false;
	return __builtin_expect(!decider->config->users, 1) || class == REQUEST_FREE ||
	       (decider->user && decider->user->rule->may & RULES_MAY_ASK);
}

/**
 * Checks all others; rejects the work if the request is not permitted. `r` is the request or an
 * item of it.
 */
__attribute__((noinline)) bool permissions_check(struct decider *decider, struct work *work,
                                                 const struct request *r,
                                                 const struct request_origin *origin);

/** Rejects a request at /auth, because the configuration has `auth: no`. */
__attribute__((noinline)) void permissions_refuse_proxy(struct decider *decider, struct work *work);

/** Whether the sender may use the limits of all steps; otherwise rejects the work. */
bool permissions_check_steps(struct decider *decider, struct work *work);

/**
 * Logs that a listener for RESP has received HTTP, by client_log_warn. Refused HTTP requests are
 * not logged.
 */
void permissions_log_foreign(struct decider *decider, const struct net_conn *conn);
/**
 * Restricts a connection in the reserve to requests for health, metrics and operators. Its first
 * request is its last, apart from greetings.
 */
void permissions_use_reserve(struct decider *decider, struct work *work, struct request *r);

#endif
