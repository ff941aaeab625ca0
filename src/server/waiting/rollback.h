/* rollback.h: refunds what requests have charged whose answer no client will get. */
#ifndef SERVER_ROLLBACK_H
#define SERVER_ROLLBACK_H

#include "server/requests/decider.h"

/** Rolls back a decided work for whose answer there is no memory, and sets that error. */
void rollback_out_of_memory(struct decider *decider, struct work *work);
/**
 * Rolls back a work that was run. In a batch that waited `wait_ns`, items without a wait keep their
 * charges: they have started. A plan that is at a store is rolled back when the store answers; call
 * rollback_continue then.
 */
void rollback_unanswered(struct decider *decider, struct work *work, uint64_t wait_ns);
void rollback_continue(struct decider *decider, struct work *work);
/**
 * For the end of the server, when no store can be called any more: frees the memory of plans at
 * stores.
 */
void rollback_abandon(struct work *work);

#endif
