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

static void free_counters(struct named_counters *named_counters)
{
	if (!named_counters)
		return;
	free(named_counters->loops);
	free(named_counters->name);
	free(named_counters);
}

/* NULL if memory is short. */
static struct named_counters *make_counters(const struct named_counters_set *set, const char *name)
{
	struct named_counters *named_counters = calloc(1, sizeof *named_counters);

	if (!named_counters)
		return NULL;
	named_counters->name = strdup(name);
	named_counters->loops = aligned_alloc(64, set->loops * set->stride);
	if (!named_counters->name || !named_counters->loops) {
		free_counters(named_counters);
		return NULL;
	}
	memset(named_counters->loops, 0, set->loops * set->stride);
	return named_counters;
}

struct named_counters *named_counters_get(struct named_counters_set *set, const char *name)
{
	/* names are chosen by the operator, who does not attack the hash */
	static const struct hash_key key;
	struct named_counters_entry *entry =
	    map_add_text(&set->by_name, hash_bytes(&key, name, strlen(name)), slice_of(name));

	if (!entry || entry->named_counters)
		return entry ? entry->named_counters : NULL;
	entry->named_counters = make_counters(set, name);
	if (!entry->named_counters) {
		map_remove(&set->by_name, entry);
		return NULL;
	}
	entry->key.text = slice_of(entry->named_counters->name);
	entry->named_counters->next = set->first;
	/* Release: a scrape that finds the name finds its counters zeroed. */
	atomic_store_explicit(&set->first, entry->named_counters, memory_order_release);
	return entry->named_counters;
}

void named_counters_free_all(struct named_counters_set *set)
{
	struct named_counters *named_counters, *next;

	for (named_counters = set->first; named_counters; named_counters = next) {
		next = named_counters->next;
		free_counters(named_counters);
	}
	map_free(&set->by_name);
}
