/*
 * queue.h: requests that wait for their key, on whatever loop they came.
 *
 * Its work is parked, since what its plan points to lives for a turn only, and waits in the
 * waitlist of the table. The plan resumes when the first of its key's queue is due or woken,
 * which happens on its own loop. A limit that a reload took away is forgotten then.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include "server/work.h"

/**
 * Of a parked work whose `reply` tells how it stands: if it waits, for the same key as before or
 * for the one that denied it now, returns when it is to be tried again. Else it has left the queue;
 * and where the queue that it was to join has no room, `reply` says so.
 */
uint64_t queue_stays(struct worker *worker, struct parked *parked, struct reply *reply);
/** It leaves the queue that it stands in, if any. */
void queue_leave(struct worker *worker, struct parked *parked);
/** Before it is tried again. A limit that a reload took away is forgotten. */
void queue_prepare(struct worker *worker, struct parked *parked, uint64_t now_ns);

/** Makes the works due now that were woken since, or are to look at a store. Before hold_run. */
void queue_run(struct worker *worker);

#endif
