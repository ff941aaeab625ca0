/*
 * adhoc_key.h: prepares the commands CL.THROTTLE and THROTTLE (REQUEST_ADHOC), and peeks at or
 * resets a key of theirs, for a request that lacks the parameters of the key's limit (REQUEST_KEY).
 */
#ifndef SERVER_ADHOC_KEY_H
#define SERVER_ADHOC_KEY_H

#include "server/requests/decider.h"

void adhoc_key_prepare_command(struct decider *decider, struct work *work, const struct request *r);
void adhoc_key_prepare(struct decider *decider, struct work *work, const struct request *r);
void adhoc_key_prepare_reserved_name(struct decider *decider, struct work *work,
                                     const struct request *r);
void adhoc_key_finish(struct decider *decider, struct work *work, struct reply *reply);

#endif
