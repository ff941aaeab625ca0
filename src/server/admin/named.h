/*
 * named.h: counters that belong to a name, so that they survive reloads.
 *
 * Each loop counts on its own cache lines. A name that was ever there stays, so any thread may go
 * through all of them; names are added by one thread at a time.
 */
#ifndef SERVER_NAMED_H
#define SERVER_NAMED_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/map.h"

struct named {
	struct named *next;
	char *name;
	void *loops; /* `stride` bytes for each, on cache lines of their own, zero at first */
};

struct named_entry {
	struct map_text key;
	struct named *named;
};

struct named_set {
	size_t loops, stride;         /* stride: a multiple of 64 */
	_Atomic(struct named *) first; /* only ever grows at its head */
	struct map by_name;           /* of struct named_entry, by hash of the name */
};

/** An empty set. */
struct named_set named_open(size_t loops, size_t stride);
/** Finds or makes the counters of `name`; NULL: out of memory. One thread at a time. */
struct named *named_get(struct named_set *set, const char *name);
void named_free_all(struct named_set *set);

/** The newest of all, by any thread. */
static inline struct named *named_first(struct named_set *set)
{
	return atomic_load_explicit(&set->first, memory_order_acquire);
}

#endif
