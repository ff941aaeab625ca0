/*
 * waitlist.h: queues requests that wait for a key, first come, first served.
 *
 * The requests that wait for one key form a queue, and only its first tries to acquire. It does so
 * at the time that its denial named, and when another request has given something back. Many
 * waiters therefore cost one attempt per grant, and the queue of one key never delays another key.
 * The owner of a waiter decides how it sleeps.
 *
 * A full queue drops the newest of its lowest priority for a waiter of a higher one.
 * Otherwise a priority makes no difference: it is first come, first served among all.
 *
 * A waitlist allocates nothing: its owner provides the memory of a waiter, and the first
 * waiters of all queues are chained. While nobody waits, a caller pays for one load.
 *
 * A key is its hash under its limit's identity, by which the table finds its cell.
 */
#ifndef WAIT_WAITLIST_H
#define WAIT_WAITLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/os/fence.h"

struct waiter {
	uint64_t hash;
	/*
	 * Wakes the waiter: it is the first now, or should try again as the first; or it was dropped,
	 * and will not be woken again. Any thread may call it, under a lock: it must not call
	 * the waitlist, nor wait for a thread that does.
	 */
	void (*wake)(struct waiter *waiter);
	uint8_t priority; /* from 0, the highest */
	/* This field and all below are set by the waitlist alone. */
	bool is_dropped;         /* `wake` may read it */
	uint64_t arrival_number; /* in the order of arrival */
	/* Links in its class, the waiters of its key and priority. The first's previous is the last. */
	struct waiter *next, *previous;
	struct waiter *next_class; /* set in the first of a class, like `class_count` */
	size_t class_count;
};

struct waitlist;

enum waitlist_joined {
	WAITLIST_FIRST,
	WAITLIST_BEHIND, /* woken when it is the first */
	WAITLIST_FULL,   /* it has not joined: there is no waiter of a lower priority to drop */
};

/** The waitlist at `pointer`, or NULL if nobody has waited yet. */
static inline struct waitlist *waitlist_at(struct waitlist *const *pointer)
{
	return __atomic_load_n(pointer, __ATOMIC_ACQUIRE);
}

/**
 * The same, but makes a missing one. The child of a fork finds it empty. Returns NULL if there is
 * no memory.
 */
struct waitlist *waitlist_get_or_make(struct waitlist **pointer);
/** Call it when nobody waits any more. NULL does nothing. */
void waitlist_close(struct waitlist *list);

/**
 * Adds the waiter to the end of its key's queue, if that has less than `max`, or drops another
 * for it. A waiter that becomes the first must try again at once: it is not woken for what was
 * given back before.
 */
enum waitlist_joined waitlist_join(struct waitlist *list, struct waiter *waiter, size_t max);

/** Removes a waiter that has joined, or was dropped. It is not woken any more when this returns. */
void waitlist_leave(struct waitlist *list, struct waiter *waiter);

/** How many requests wait, for all keys together. */
size_t waitlist_count(const struct waitlist *list);

bool waitlist_has_slow(struct waitlist *list, uint64_t hash);
void waitlist_wake_slow(struct waitlist *list, uint64_t hash);

/** Whether any request waits for the key. `list` may be NULL. */
static inline bool waitlist_has(struct waitlist *list, uint64_t hash)
{
	return __builtin_expect(list && waitlist_count(list) > 0, 0) && waitlist_has_slow(list, hash);
}

/** Call it after a swap that released some of the key. `pointer` as in waitlist_get_or_make. */
static inline void waitlist_wake(struct waitlist *const *pointer, uint64_t hash)
{
	struct waitlist *list;

	fence_behind_swap();
	list = waitlist_at(pointer);
	if (__builtin_expect(list && waitlist_count(list) > 0, 0))
		waitlist_wake_slow(list, hash);
}

/** Call it after a change that may let any key pass. */
void waitlist_wake_all(struct waitlist *const *pointer);

#endif
