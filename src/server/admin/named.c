#include "server/admin/named.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static struct named **slot_of(const struct named_set *set, const char *name)
{
	static const struct hash_key key; /* names are the operator's: nobody looks for equal hashes */
	size_t i = hash_bytes(&key, name, strlen(name)) & (set->slot_count - 1);

	while (set->slots[i] && strcmp(set->slots[i]->name, name) != 0)
		i = (i + 1) & (set->slot_count - 1);
	return &set->slots[i];
}

/* Room for one more. */
static bool grow(struct named_set *set)
{
	size_t count = set->slot_count ? 2 * set->slot_count : 64;
	struct named **slots;

	if (2 * (set->count + 1) <= set->slot_count)
		return true;
	slots = calloc(count, sizeof *slots);
	if (!slots)
		return false;
	free(set->slots);
	set->slots = slots;
	set->slot_count = count;
	for (struct named *named = set->first; named; named = named->next)
		*slot_of(set, named->name) = named;
	return true;
}

static void free_one(struct named *named)
{
	free(named->loops);
	free(named->name);
	free(named);
}

struct named *named_get(struct named_set *set, const char *name)
{
	struct named *named, **slot;

	if (!grow(set))
		return NULL;
	slot = slot_of(set, name);
	if (*slot)
		return *slot;
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
	*slot = named;
	set->count++;
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
	free(set->slots);
}
