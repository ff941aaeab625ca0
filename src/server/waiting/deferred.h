/*
 * deferred.h: works that outlive their turn (suspend.h): they wait for a key, for steps at stores
 * that complete them later, or, as batches with much work, for the turns of others in between.
 *
 * A work with steps at a store is suspended before it runs, because the store knows its plan by its
 * address. When the store has answered all of them, the work is ready. It goes on after the turn's
 * reading, with all others that are ready: to the store again, to wait for a key, or to its answer.
 * Its memory lasts until the store has answered, even if its client leaves; its plan gives back
 * what it took.
 */
#ifndef SERVER_DEFERRED_H
#define SERVER_DEFERRED_H

#include "server/waiting/suspend.h"

/** Runs such a work of the batch, and answers it, or holds it until the store has told. */
void deferred_run(struct waiting *waiting, struct work *work);
/** Lets a work of the batch wait as its decision says. False: it does not, and its reply holds. */
bool deferred_wait_for_key(struct waiting *waiting, struct work *work, struct reply *reply);

/**
 * A work of the batch is a batch with more items than a turn takes: no request of its client is
 * taken until the last of them has begun, or the batch has ended.
 */
void deferred_add_split(struct waiting *waiting, struct net_conn *conn);
/** A work of the batch was cancelled before it was decided. */
void deferred_drop(struct waiting *waiting, struct work *work);
/** In a turn so many batches go on: with the work that a turn takes of each, a millisecond in all.
 */
#define DEFERRED_BATCHES 2

/** Goes on with such batches, oldest first. */
void deferred_continue_batches(struct waiting *waiting);

/** A turn's `ready`; its context is that of a suspended work. */
void deferred_plan_done(void *context, struct plan *plan);
/** Goes on with all that are ready. */
void deferred_resume_ready(struct waiting *waiting);
/**
 * Behind the end of all clients and store clients: frees all. What they hold at a store stays there
 * until it ends.
 */
void deferred_close(struct waiting *waiting);

#endif
