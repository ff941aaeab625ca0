/*
 * names.c: stores the names of the keys that each permit has charged, until the permit ends: the
 * remote store needs the names to refund the charges.
 */
#include "api/names.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

/* The names of one permit's keys. */
struct entry {
	struct list_node node;
	uint64_t permit;   /* the permit's id */
	uint64_t until_ns; /* when its last charge has ended by the clocks of all servers and stores */
	size_t bytes;      /* of memory, for the entry and the names behind it */
	size_t count;
	struct slice key_names[]; /* their bytes follow this array; NULL, 0 for a key without a name */
};

struct by_permit {
	uint64_t permit;
	struct entry *entry;
};

struct names {
	pthread_mutex_t lock; /* of all below */
	struct map by_permit;
	struct list entries; /* oldest first */
	size_t bytes;        /* of all entries */
};

struct names *names_open(void)
{
	struct names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	pthread_mutex_init(&names->lock, NULL);
	names->by_permit = MAP_OF(struct by_permit, SIZE_MAX);
	return names;
}

static void remove_entry(struct names *names, struct by_permit *slot)
{
	struct entry *entry = slot->entry;

	map_remove(&names->by_permit, slot);
	list_remove(&names->entries, &entry->node);
	names->bytes -= entry->bytes;
	free(entry);
}

/* Returns NULL if there is none. */
static struct entry *oldest_entry(const struct names *names)
{
	return list_of(names->entries.first, struct entry, node);
}

static void remove_oldest(struct names *names)
{
	remove_entry(names, map_find(&names->by_permit, oldest_entry(names)->permit));
}

void names_close(struct names *names)
{
	if (!names)
		return;
	while (oldest_entry(names))
		remove_oldest(names);
	map_free(&names->by_permit);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

/*
 * Copies the names into a new entry. Charges in memory need none: their keys have NULL for a name.
 * Returns NULL if no key has a name, or there is no memory.
 */
static struct entry *create_entry(const struct weir_permits *permits,
                                  const struct engine_names *key_names)
{
	size_t bytes = sizeof(struct entry) + permits->count * sizeof(struct slice);
	struct entry *entry = NULL;
	bool has_name = false;
	char *copy_to;

	for (size_t i = 0; i < permits->count; i++) {
		bytes += key_names->key_names[i].len;
		has_name |= key_names->key_names[i].data != NULL;
	}
	if (has_name)
		entry = malloc(bytes);
	if (!entry)
		return NULL;
	*entry = (struct entry){.permit = permits->id, .bytes = bytes, .count = permits->count};
	copy_to = (char *)&entry->key_names[entry->count];
	for (size_t i = 0; i < entry->count; i++) {
		struct slice name = key_names->key_names[i];

		entry->until_ns =
		    u64_max(entry->until_ns, sat_add(permits->charges[i].until_ns, PERMITS_CLOCKS_NS));
		entry->key_names[i] = (struct slice){name.data ? copy_to : NULL, name.len};
		if (name.len > 0)
			memcpy(copy_to, name.data, name.len);
		copy_to += name.len;
	}
	return entry;
}

void names_store(struct names *names, const struct weir_permits *permits,
                 const struct engine_names *key_names, uint64_t now_ns)
{
	struct entry *entry = create_entry(permits, key_names);
	struct by_permit *slot;

	if (!entry)
		return;
	pthread_mutex_lock(&names->lock);
	while (oldest_entry(names) &&
	       (names->bytes + entry->bytes > NAMES_MAX || oldest_entry(names)->until_ns < now_ns))
		remove_oldest(names);
	slot = map_add(&names->by_permit, entry->permit); /* NULL without memory */
	if (slot) {
		slot->entry = entry;
		list_append(&names->entries, &entry->node);
		names->bytes += entry->bytes;
		entry = NULL;
	}
	pthread_mutex_unlock(&names->lock);
	free(entry);
}

int names_copy(struct names *names, uint64_t permit, struct arena *arena, struct engine_names *out)
{
	const struct by_permit *slot;
	const struct entry *entry;
	int status = WEIR_OK;

	*out = (struct engine_names){0};
	pthread_mutex_lock(&names->lock);
	slot = map_find(&names->by_permit, permit);
	entry = slot ? slot->entry : NULL;
	for (size_t i = 0; entry && i < entry->count; i++) {
		if (!entry->key_names[i].data)
			continue;
		out->key_names[i] =
		    (struct slice){arena_copy(arena, entry->key_names[i]), entry->key_names[i].len};
		if (!out->key_names[i].data)
			status = WEIR_ENOMEM;
	}
	pthread_mutex_unlock(&names->lock);
	return status;
}

void names_remove(struct names *names, uint64_t permit)
{
	struct by_permit *slot;

	pthread_mutex_lock(&names->lock);
	slot = map_find(&names->by_permit, permit);
	if (slot)
		remove_entry(names, slot);
	pthread_mutex_unlock(&names->lock);
}
