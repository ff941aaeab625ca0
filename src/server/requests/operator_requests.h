/*
 * operator_requests.h: handles requests of operators: to deny a share of a limit's requests, to
 * force the phase of a breaker's key (overrides.h), and to follow the server's events.
 */
#ifndef SERVER_OPERATOR_REQUESTS_H
#define SERVER_OPERATOR_REQUESTS_H

#include "server/requests/decider.h"

/** Stores the user in the work: logs and lists name the operator. */
void operator_prepare(struct decider *decider, struct work *work, const struct request *request);
void operator_shed(struct decider *decider, struct work *work, struct reply *reply);
void operator_force(struct decider *decider, struct work *work, struct reply *reply);

void operator_prepare_events(struct decider *decider, struct work *work,
                             const struct request *request);
/** Lets the client follow events. */
void operator_follow_events(struct decider *decider, struct work *work, struct reply *reply);

#endif
