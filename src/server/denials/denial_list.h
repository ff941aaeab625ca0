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

/* The engine counts denials by limits. Those by a rule's own answer are counted here. */
void denial_list_explain_denied(struct decider *decider, const struct plan *plan,
                                struct reply *reply);

/**
 * Ends the denial of a plan: counts it if a rule denied without limits, and, if the configuration
 * wants it, tells the client the id of the kept denial.
 */
static inline void denial_list_explain(struct decider *decider, const struct plan *plan,
                                       struct reply *reply)
{
	if (__builtin_expect(!reply->decision.allowed, 0))
		denial_list_explain_denied(decider, plan, reply);
}

#endif
