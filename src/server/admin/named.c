#include "server/admin/named.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct named_set named_open(size_t loops, size_t stride)
{
	return (struct named_set){
	    .loops = loops, .stride = stride, .by_name = MAP_OF(struct named_entry, SIZE_MAX)};
}

static void free_one(struct named *named)
{
	if (!named)
		return;
	free(named->loops);
	free(named->name);
	free(named);
}

/* NULL: out of memory. */
static struct named *make(const struct named_set *set, const char *name)
{
	struct named *named = calloc(1, sizeof *named);

	if (!named)
		return NULL;
	named->name = strdup(name);
	named->loops = aligned_alloc(64, set->loops * set->stride);
	if (!named->name || !named->loops) {
		free_one(named);
		return NULL;
	}
	memset(named->loops, 0, set->loops * set->stride);
	return named;
}

struct named *named_get(struct named_set *set, const char *name)
{
	static const struct hash_key key; /* names are the operator's: nobody looks for equal hashes */
	struct named_entry *entry =
	    map_add_text(&set->by_name, hash_bytes(&key, name, strlen(name)), slice_of(name));

	if (!entry || entry->named)
		return entry ? entry->named : NULL;
	entry->named = make(set, name);
	if (!entry->named) {
		map_remove(&set->by_name, entry);
		return NULL;
	}
	entry->key.text = slice_of(entry->named->name);
	entry->named->next = set->first;
	/* Released: a scrape that sees the name sees its zeros. */
	atomic_store_explicit(&set->first, entry->named, memory_order_release);
	return entry->named;
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
