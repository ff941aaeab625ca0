/*
 * named_counters.c: keeps counters under names, such as those of limits, so that they survive
 * reloads. Each name has counters for each loop (event loop of a thread), which counts without a
 * lock.
 */
#include "server/admin/named_counters.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct named_counters_set named_counters_open(size_t loops, size_t stride)
{
	return (struct named_counters_set){
	    .loops = loops, .stride = stride, .by_name = MAP_OF(struct named_counters_entry, SIZE_MAX)};
}

static void free_counters(struct named_counters *counters)
{
	if (!counters)
		return;
	free(counters->loops);
	free(counters->name);
	free(counters);
}

/* NULL if memory is short. */
static struct named_counters *new_counters(const struct named_counters_set *set, const char *name)
{
	struct named_counters *counters = calloc(1, sizeof *counters);

	if (!counters)
		return NULL;
	counters->name = strdup(name);
	counters->loops = aligned_alloc(64, set->loops * set->stride); /* 64: a cache line */
	if (!counters->name || !counters->loops) {
		free_counters(counters);
		return NULL;
	}
	memset(counters->loops, 0, set->loops * set->stride);
	return counters;
}

/* Finds the counters of `name`, or adds new ones. NULL if memory is short. */
struct named_counters *named_counters_get(struct named_counters_set *set, const char *name)
{
	/* names are chosen by the operator, who does not attack the hash */
	static const struct hash_key key;
	struct named_counters_entry *entry =
	    map_add_text(&set->by_name, hash_bytes(&key, name, strlen(name)), slice_of(name));

	if (!entry || entry->counters)
		return entry ? entry->counters : NULL;
	entry->counters = new_counters(set, name);
	if (!entry->counters) {
		map_remove(&set->by_name, entry);
		return NULL;
	}
	entry->key.text = slice_of(entry->counters->name);
	entry->counters->next = set->first;
	/* Release: a scrape that finds the name finds its counters zeroed. */
	atomic_store_explicit(&set->first, entry->counters, memory_order_release);
	return entry->counters;
}

void named_counters_free_all(struct named_counters_set *set)
{
	struct named_counters *counters, *next;

	for (counters = set->first; counters; counters = next) {
		next = counters->next;
		free_counters(counters);
	}
	map_free(&set->by_name);
}
