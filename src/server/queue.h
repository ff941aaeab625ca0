/*
 * queue.h: requests that wait for their key, on whatever loop they came.
 *
 * Its plan is copied once, since what it points to lives for a turn only, and waits in the
 * waitlist of the table. The plan resumes when the first of its key's queue is due or woken,
 * which happens on its own loop. A limit that a reload took away is forgotten then.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include "server/work.h"

/** Lets a work wait as its decision says. False: it does not, and its reply holds. */
bool queue_join(struct worker *worker, struct work *work, struct reply *reply);

/** Makes the works that were woken since due now. Call it before hold_run. */
void queue_run(struct worker *worker);

#endif
