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

/** Lets a work wait as its decision says. False: it does not, and its reply holds. */
bool queue_join(struct worker *worker, struct work *work, struct reply *reply);

/**
 * Of a parked work whose `reply` tells how it stands: whether it waits, for the same key as
 * before, or for the one that denied it now. Else it has left the queue.
 */
bool queue_stays(struct worker *worker, struct parked *parked, struct reply *reply);
/** It leaves the queue that it stands in, if any. */
void queue_leave(struct worker *worker, struct parked *parked);

/** Makes the works that were woken since due now. Call it before hold_run. */
void queue_run(struct worker *worker);

#endif
