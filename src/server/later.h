/*
 * later.h: works that outlive their turn (park.h): they wait for a key, or stores that complete
 * steps later have steps of them.
 *
 * A work with steps at a store is parked before it runs, for the store knows its plan by its
 * address. When the store has told of all that it had, the work is ready. It goes on at the end of
 * the turn's reading, with all others that are ready: maybe to the store again, maybe to wait for
 * a key, else to its answer. Its memory lasts until the store has told, whatever becomes of its
 * client; what it took goes back by its plan.
 */
#ifndef SERVER_LATER_H
#define SERVER_LATER_H

#include "server/work.h"

/** Runs such a work of the batch, and answers it, or holds it until the store has told. */
void later_run(struct worker *worker, struct work *work);
/** Lets a work of the batch wait as its decision says. False: it does not, and its reply holds. */
bool later_wait(struct worker *worker, struct work *work, struct reply *reply);

/** Goes on with all that are ready. */
void later_resume_ready(struct worker *worker);
/**
 * Behind the end of all clients and lanes: frees all. What they hold at a store stays there until
 * it ends.
 */
void later_close(struct worker *worker);

#endif
