/*
 * deferred.h: runs requests that are not answered in the iteration that reads them: they wait for a
 * key, for stores, or, as batches with much work, for other clients.
 *
 * A work (work.h) is such a request while it is processed. If it has steps at a store, it is
 * suspended (suspend.h) before it runs, because the store knows the plan by its address. When the
 * store has answered all of the steps, the work is ready. Ready works resume together, after the
 * iteration has read its input: they go to a store again, wait for a key, or are answered. The
 * memory of a work lasts until the store has answered, even if its client leaves; the plan then
 * gives back its charges.
 */
#ifndef SERVER_DEFERRED_H
#define SERVER_DEFERRED_H

#include "server/waiting/suspend.h"

/** Suspends and runs a work of the intake. Answers it at once if nothing delays it. */
void deferred_suspend_and_run(struct waiting *waiting, struct work *work);
/**
 * Suspends a work whose decision says that it waits, for a key or a reload. Returns false if it
 * does not wait after all; `reply` then has the answer.
 */
bool deferred_wait_for_key(struct waiting *waiting, struct work *work, struct reply *reply);

/**
 * Records that the client has a batch with more items than one iteration runs. The connection is
 * suspended until the last item has begun, or the batch has ended.
 */
void deferred_begin_split_batch(struct waiting *waiting, struct net_conn *conn);
/** Drops a work of the intake that its client has cancelled before it was decided. */
void deferred_drop(struct waiting *waiting, struct work *work);
/**
 * Batches that continue in one iteration: with the work that is done of each, about a millisecond
 * in all.
 */
#define DEFERRED_BATCHES 2

/** Continues split batches, oldest first. */
void deferred_continue_batches(struct waiting *waiting);

/** The callback `ready` of a suspended work's decision context: a store has answered `plan`. */
void deferred_plan_done(void *context, struct plan *plan);
/** Resumes all works that are ready. */
void deferred_resume_ready(struct waiting *waiting);
/**
 * Frees all, after the end of all clients and store clients. Charges at a store stay until they
 * expire.
 */
void deferred_close(struct waiting *waiting);

#endif
