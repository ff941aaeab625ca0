/* handle.h: what is done for each kind of request, whatever its protocol. */
#ifndef SERVER_HANDLE_H
#define SERVER_HANDLE_H

#include "server/requests/decider.h"

/**
 * First pass: finds what is needed to decide, or the error that answers it. Where the work
 * has the request as its whole then, that stays until the answer is rendered.
 */
void handle_prepare(struct decider *decider, struct work *work, const struct request *request);
/** A work that is prepared is not to be decided: it becomes one of REQUEST_INTERIM. */
void handle_drop(struct work *work);
/** Whether the request may have to wait. */
bool handle_may_wait(const struct work *work);
/** A work that waits for a key forgets the steps whose limits are no more. */
void handle_adapt(struct decider *decider, struct work *work);
/** A work that was to wait is denied instead. */
void handle_deny(struct decider *decider, struct work *work, enum weir_reason reason,
                 struct reply *reply);
/** Then, for all that wait: starts fetching the cells. */
void handle_fetch(const struct weir_table *table, const struct work *works, size_t n);
/** Then, for all that wait: looks for the cells that are on their way. */
void handle_locate(const struct decision_context *context, struct work *works, size_t n);
/**
 * Last pass, at decider->context.at: fills the reply, and counts an error. Again for a work that
 * waits for a key or was at a store (reply->waits, at_store): goes on.
 */
void handle_finish(struct decider *decider, struct work *work, struct reply *reply);
/** Renders the reply. */
void handle_reply(struct decider *decider, const struct work *work, struct reply *reply,
                  struct buffer *out);

#endif
