/* operate.h: what an operator asks for while the server runs (switches.h): rows of handle.c. */
#ifndef SERVER_OPERATE_H
#define SERVER_OPERATE_H

#include "server/requests/decider.h"

/** Keeps the request's user, who is named where its effect shows. */
void operate_prepare(struct decider *decider, struct work *work, const struct request *request);
void operate_shed(struct decider *decider, struct work *work, struct reply *reply);
void operate_force(struct decider *decider, struct work *work, struct reply *reply);

#endif
