/*
 * split_batch.h: keeps the replies and plans of a batch that takes several iterations of the loop,
 * because its items are too much work for one (struct batch, is_split).
 *
 * A decided item keeps its plan only if its charges may be given back: it waits for its start, or
 * has a permit that no client knows. All other items stay decided whatever becomes of the client,
 * as in a batch that is decided at once. So a batch takes memory for the requests and replies of
 * its items, and for the plans of one iteration.
 */
#ifndef SERVER_SPLIT_BATCH_H
#define SERVER_SPLIT_BATCH_H

#include "server/requests/decider.h"

/* units of work of a batch in one iteration, see engine_work */
#define BATCH_SLICE      1024
#define BATCH_UNIT_BYTES ((size_t)64) /* bytes of the loop's budget that one unit counts as */

/**
 * Returns the replies, made in decider->arena; at first all are marked `is_unfinished`, so that
 * they get run. NULL if memory is short.
 */
struct reply *split_batch_replies(struct decider *decider, struct batch *batch);
/** Whether all items that have begun are decided, or wait for their start. */
bool split_batch_has_decided_all_begun(const struct batch *batch);
/** Makes the durations in the replies count from decider->context.at. */
void split_batch_advance_time(const struct decider *decider, struct batch *batch);
/**
 * Copies the parts of a prepared item that outlive the iteration from decider->plan_arena to
 * decider->arena, the batch's own memory.
 */
void split_batch_copy_item(struct decider *decider, struct work *item);
/** After the items have run in an iteration: frees plans that can't be given back. */
void split_batch_drop_plans(struct decider *decider, struct batch *batch);

#endif
