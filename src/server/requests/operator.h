/* operator.h: what an operator asks for while the server runs (overrides.h): rows of handle.c. */
#ifndef SERVER_OPERATOR_H
#define SERVER_OPERATOR_H

#include "server/requests/decider.h"

/** Keeps the request's user, who is named where its effect shows. */
void operator_prepare(struct decider *decider, struct work *work, const struct request *request);
void operator_shed(struct decider *decider, struct work *work, struct reply *reply);
void operator_force(struct decider *decider, struct work *work, struct reply *reply);

#endif
