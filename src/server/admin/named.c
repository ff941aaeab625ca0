#include "server/admin/named.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct named_set named_open(size_t loops, size_t stride)
{
	return (struct named_set){.loops = loops,
	                          .stride = stride,
	                          .by_name = MAP_OF(struct named_entry, SIZE_MAX)};
}

/* Of two names with one hash the later one has the next number. NULL if there is no memory. */
static struct named_entry *entry_of(struct named_set *set, const char *name)
{
	static const struct hash_key key; /* names are the operator's: nobody looks for equal hashes */
	uint64_t hash = hash_bytes(&key, name, strlen(name));
	struct named_entry *entry;

	do
		entry = map_add(&set->by_name, hash++);
	while (entry && entry->named && strcmp(entry->named->name, name) != 0);
	return entry;
}

static void free_one(struct named *named)
{
	free(named->loops);
	free(named->name);
	free(named);
}

struct named *named_get(struct named_set *set, const char *name)
{
	struct named_entry *entry = entry_of(set, name);
	struct named *named;

	if (!entry || entry->named)
		return entry ? entry->named : NULL;
	named = calloc(1, sizeof *named);
	if (!named)
		return NULL;
	named->name = strdup(name);
	named->loops = aligned_alloc(64, set->loops * set->stride);
	if (!named->name || !named->loops) {
		free_one(named);
		return NULL;
	}
	memset(named->loops, 0, set->loops * set->stride);
	named->next = set->first;
	entry->named = named;
	/* Released: a scrape that sees the name sees its zeros. */
	atomic_store_explicit(&set->first, named, memory_order_release);
	return named;
}

void named_free_all(struct named_set *set)
{
	struct named *named, *next;

	for (named = set->first; named; named = next) {
		next = named->next;
		free_one(named);
	}
	map_free(&set->by_name);
}
