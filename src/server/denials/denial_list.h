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

void denial_list_explain_denied(struct decider *decider, const struct plan *plan,
                                struct reply *reply);

/** If the configuration wants it, tells the client of a denied plan the id of the kept denial. */
static inline void denial_list_explain(struct decider *decider, const struct plan *plan,
                                       struct reply *reply)
{
	if (__builtin_expect(!reply->decision.allowed, 0))
		denial_list_explain_denied(decider, plan, reply);
}

#endif
