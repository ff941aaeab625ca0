/*
 * named_counters.h: keeps counters under names, so that they survive reloads.
 *
 * Each loop counts on its own cache lines. A name is never removed, so any thread may walk all of
 * them; one thread at a time adds names.
 */
#ifndef SERVER_NAMED_COUNTERS_H
#define SERVER_NAMED_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/map.h"
#include "server/denials/denial_sample.h"

struct named_counters {
	struct named_counters *next;
	char *name;
	void *loops; /* `stride` bytes for each loop, on its own cache lines, zero at first */
	_Atomic uint64_t empty_keys; /* requests to the rule, or to the limit by its name */
	/* of the rule, or of requests that name the limit: denials that are kept, and logged */
	struct denial_share denials, logged_denials;
};

struct named_counters_entry {
	struct map_text key;
	struct named_counters *counters;
};

struct named_counters_set {
	size_t loops, stride;                   /* stride is a multiple of 64 */
	_Atomic(struct named_counters *) first; /* only grows, at its beginning */
	struct map by_name;                     /* by hash of the name */
};

/** Makes an empty set. */
struct named_counters_set named_counters_open(size_t loops, size_t stride);
/** Finds or makes the counters of `name`; NULL if memory is short. One thread at a time. */
struct named_counters *named_counters_get(struct named_counters_set *set, const char *name);
void named_counters_free_all(struct named_counters_set *set);

/** The newest counters, where any thread may begin a walk. */
static inline struct named_counters *named_counters_first(const struct named_counters_set *set)
{
	return atomic_load_explicit(&set->first, memory_order_acquire);
}

#endif
