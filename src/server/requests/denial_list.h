/*
 * denial_list.h: answers what was denied: lists the denials that are kept, and says which digest
 * stands for a key in them.
 */
#ifndef SERVER_DENIAL_LIST_H
#define SERVER_DENIAL_LIST_H

#include "server/requests/decider.h"

/** Handles REQUEST_DENIALS. */
void denial_list_finish(struct decider *decider, struct work *work, struct reply *reply);
/** Handles REQUEST_DIGEST. */
void denial_list_finish_digest(struct decider *decider, struct work *work, struct reply *reply);

#endif
