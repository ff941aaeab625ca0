/* adhoc_key.h: REQUEST_KEY, about a key of CL.THROTTLE and THROTTLE without the limit's parameters. */
#ifndef SERVER_ADHOC_KEY_H
#define SERVER_ADHOC_KEY_H

#include "server/loop/work.h"

void adhoc_key_prepare(struct worker *worker, struct work *work, const struct request *r);
void adhoc_key_finish(struct worker *worker, struct work *work, struct reply *reply);

#endif
