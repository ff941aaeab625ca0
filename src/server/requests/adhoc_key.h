/*
 * adhoc_key.h: peeks at or resets a key of the commands CL.THROTTLE and THROTTLE, for a request
 * that lacks the parameters of the key's limit (REQUEST_KEY).
 */
#ifndef SERVER_ADHOC_KEY_H
#define SERVER_ADHOC_KEY_H

#include "server/requests/decider.h"

void adhoc_key_prepare(struct decider *decider, struct work *work, const struct request *r);
void adhoc_key_prepare_reserved_name(struct decider *decider, struct work *work,
                                     const struct request *r);
void adhoc_key_finish(struct decider *decider, struct work *work, struct reply *reply);

#endif
