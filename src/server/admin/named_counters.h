/*
 * named_counters.h: counters that belong to a name, so that they survive reloads.
 *
 * Each loop counts on its own cache lines. A name that was ever there stays, so any thread may go
 * through all of them; names are added by one thread at a time.
 */
#ifndef SERVER_NAMED_COUNTERS_H
#define SERVER_NAMED_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/map.h"

struct named_counters {
	struct named_counters *next;
	char *name;
	void *loops; /* `stride` bytes for each, on cache lines of their own, zero at first */
};

struct named_counters_entry {
	struct map_text key;
	struct named_counters *named_counters;
};

struct named_counters_set {
	size_t loops, stride;                   /* stride: a multiple of 64 */
	_Atomic(struct named_counters *) first; /* only ever grows at its head */
	struct map by_name; /* of struct named_counters_entry, by hash of the name */
};

/** An empty set. */
struct named_counters_set named_counters_open(size_t loops, size_t stride);
/** Finds or makes the counters of `name`; NULL: out of memory. One thread at a time. */
struct named_counters *named_counters_get(struct named_counters_set *set, const char *name);
void named_counters_free_all(struct named_counters_set *set);

/** The newest of all, by any thread. */
static inline struct named_counters *named_counters_first(struct named_counters_set *set)
{
	return atomic_load_explicit(&set->first, memory_order_acquire);
}

#endif
