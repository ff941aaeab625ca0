/* history_answer.h: answers /v1/stats with the history. */
#ifndef SERVER_HISTORY_ANSWER_H
#define SERVER_HISTORY_ANSWER_H

#include "server/requests/decider.h"

/** Handles REQUEST_STATS. */
void history_answer_finish(struct decider *decider, struct work *work, struct reply *reply);

#endif
