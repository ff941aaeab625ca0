/*
 * batch.h: batches that take several turns (struct batch, is_split).
 *
 * An item that is decided keeps its plan only if something of it could still go back: it waits for its
 * start, or has a permit that no client knows. All other items stay decided whatever becomes of the
 * client, as they do in a batch that is decided at once. So a batch takes memory for the requests and
 * replies of its items, and for the plans of one turn.
 */
#ifndef SERVER_BATCH_H
#define SERVER_BATCH_H

#include "server/loop/work.h"

/** Memory for them, in worker->arena; at first all are to be finished, as if at a store. NULL: there is none. */
struct reply *batch_replies(struct worker *worker, struct batch *batch);
/** Whether all items that are begun are decided, or wait for their start. */
bool batch_is_settled(const struct batch *batch);
/** The replies' times count from worker->turn.at from now on. */
void batch_pass_time(const struct worker *worker, struct batch *batch);
/**
 * Gives an item of worker->plans that was prepared memory of the batch's own, worker->arena, for as much
 * as outlives the turn.
 */
void batch_keep(struct worker *worker, struct work *item);
/** Behind the items' last pass in a turn: frees the plans that nothing needs. */
void batch_drop_plans(struct worker *worker, struct batch *batch);

#endif
