/*
 * key_queue.h: requests that wait for their key, from any loop.
 *
 * A waiting work is suspended, because its plan points to memory that lives for one turn. It waits
 * in the waitlist of the table. When it is the first of its key's queue and due or woken, its plan
 * resumes on its own loop. It then forgets limits that a reload took away.
 */
#ifndef SERVER_KEY_QUEUE_H
#define SERVER_KEY_QUEUE_H

#include "server/waiting/suspend.h"

/**
 * Keeps a suspended work in the queue, if its `reply` says that it waits: for the same key as
 * before, or for the one that denied it now. Returns when to try it again. Otherwise it has left
 * the queue. If the queue that it should join has no room, or its own queue dropped it for a waiter
 * of a higher priority, `reply` says so.
 */
uint64_t key_queue_update(struct waiting *waiting, struct suspended *suspended,
                          struct reply *reply);
/** It leaves the queue that it stands in, if any. */
void key_queue_remove(struct waiting *waiting, struct suspended *suspended);
/** Before it is tried again. A limit that a reload took away is forgotten. */
void key_queue_prepare_retry(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns);

/** Makes the works due now that were woken since, or are to look at a store. Before pending_run. */
void key_queue_wake_due(struct waiting *waiting);

#endif
