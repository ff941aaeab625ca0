/*
 * split_batch.h: batches that take several turns (struct batch, is_split).
 *
 * An item that is decided keeps its plan only if something of it could still go back: it waits for
 * its start, or has a permit that no client knows. All other items stay decided whatever becomes of
 * the client, as they do in a batch that is decided at once. So a batch takes memory for the
 * requests and replies of its items, and for the plans of one turn.
 */
#ifndef SERVER_SPLIT_BATCH_H
#define SERVER_SPLIT_BATCH_H

#include "server/requests/decider.h"

#define BATCH_SLICE      1024         /* units of work of a batch in a turn, see engine_work */
#define BATCH_UNIT_BYTES ((size_t)64) /* so many bytes of a round count as a unit */

/** Memory for them, in decider->arena; at first all are to be finished, as if at a store. NULL:
 * there is none. */
struct reply *split_batch_replies(struct decider *decider, struct batch *batch);
/** Whether all items that are begun are decided, or wait for their start. */
bool split_batch_is_settled(const struct batch *batch);
/** The replies' times count from decider->context.at from now on. */
void split_batch_advance_time(const struct decider *decider, struct batch *batch);
/**
 * Gives an item of decider->plans that was prepared memory of the batch's own, decider->arena, for
 * as much as outlives the turn.
 */
void split_batch_copy_item(struct decider *decider, struct work *item);
/** Behind the items' last pass in a turn: frees the plans that nothing needs. */
void split_batch_drop_plans(struct decider *decider, struct batch *batch);

#endif
