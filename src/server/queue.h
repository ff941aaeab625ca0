/*
 * queue.h: requests that wait for their key, on whatever loop they came.
 *
 * Such a request is copied, since its bytes live for a turn only, and stands in the
 * table's room. As the first of its key's queue it is decided again, as if it came
 * then: by the configuration of that time, but not behind the others. Who becomes the
 * first is woken on its own loop.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include "server/worker.h"

/** Lets a work wait as its decision says. False: it does not, and its reply holds. */
bool queue_join(struct worker *worker, struct work *work);

/** What was woken since is due now. Before hold_run. */
void queue_run(struct worker *worker);

#endif
