/* rollback.h: refunds what requests have charged whose answer no client will get. */
#ifndef SERVER_ROLLBACK_H
#define SERVER_ROLLBACK_H

#include "server/requests/decider.h"

/**
 * Whether an item of a decided batch counts as started, so that it keeps its charges if the batch
 * is cancelled before its answer. A batch is answered when the last of its items may start, so
 * items without a wait start before that; but none does whose permit the client has yet to receive.
 * A batch without a wait is undecided or only behind other answers: nothing of it has started.
 */
static inline bool rollback_item_has_started(const struct reply *item, uint64_t batch_wait_ns)
{
	return batch_wait_ns > 0 && item->wait_ns == 0 && item->permit.len == 0;
}

/** Rolls back a decided work for whose answer there is no memory, and sets that error. */
void rollback_out_of_memory(struct decider *decider, struct work *work);
/**
 * Rolls back a work that was run and waited `wait_ns`, except for items that have started. A plan
 * that is at a store is rolled back when the store answers; call rollback_continue then.
 */
void rollback_unanswered(struct decider *decider, struct work *work, uint64_t wait_ns);
void rollback_continue(struct decider *decider, struct work *work);
/**
 * For the end of the server, when no store can be called any more: frees the memory of plans at
 * stores.
 */
void rollback_abandon(struct work *work);

#endif
