/* operator_requests.h: what an operator asks for while the server runs (overrides.h): rows of
 * handle.c. */
#ifndef SERVER_OPERATOR_REQUESTS_H
#define SERVER_OPERATOR_REQUESTS_H

#include "server/requests/decider.h"

/** Keeps the request's user, who is named where its effect shows. */
void operator_prepare(struct decider *decider, struct work *work, const struct request *request);
void operator_shed(struct decider *decider, struct work *work, struct reply *reply);
void operator_force(struct decider *decider, struct work *work, struct reply *reply);

void operator_prepare_events(struct decider *decider, struct work *work,
                             const struct request *request);
/** Lets the client follow the events: the batch's end begins its stream (event_streams.h). */
void operator_follow_events(struct decider *decider, struct work *work, struct reply *reply);

#endif
