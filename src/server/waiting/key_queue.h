/*
 * key_queue.h: queues requests that wait until the limit of their key has capacity, and lets the
 * first of each queue try again.
 *
 * A waiting work is suspended, because its plan points to memory that lives for one iteration. It
 * stands in the table's waitlist, which requests of all loops share. The first of a queue resumes
 * its plan on its own loop when it is due or woken. Limits that a reload has removed are dropped
 * from the plan.
 */
#ifndef SERVER_KEY_QUEUE_H
#define SERVER_KEY_QUEUE_H

#include "server/waiting/suspend.h"

/**
 * Called with the `reply` of an attempt. If the work waits, it stays in the queue of its key, or
 * moves to that of the key that denied it; returns when to try again. Otherwise the work leaves the
 * queue. It is denied in `reply` if the new queue is full, or if a waiter of higher priority has
 * replaced it.
 */
uint64_t key_queue_update(struct waiting *waiting, struct suspended *suspended,
                          struct reply *reply);
/** Removes the work from its queue, if it stands in one. */
void key_queue_remove(struct waiting *waiting, struct suspended *suspended);
/** Sets up the plan for another attempt. */
void key_queue_prepare_retry(struct suspended *suspended, uint64_t now_ns);

/** Makes works due that were woken or have to poll a store. Call it before pending_run. */
void key_queue_wake_due(struct waiting *waiting);

#endif
