/* names.c: stores the names of the keys of permits, in lists by permit, until they end. */
#include "api/names.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

/* The names of one permit. */
struct entry {
	struct list_node node;
	uint64_t permit, until_ns;
	size_t bytes; /* all of it */
	size_t count;
	struct slice of[]; /* then the names themselves */
};

struct by_permit {
	uint64_t permit;
	struct entry *entry;
};

struct names {
	pthread_mutex_t lock; /* of all below */
	struct map by_permit;
	struct list entries; /* oldest first */
	size_t bytes;
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

static void drop(struct names *names, struct by_permit *at)
{
	struct entry *entry = at->entry;

	map_remove(&names->by_permit, at);
	list_remove(&names->entries, &entry->node);
	names->bytes -= entry->bytes;
	free(entry);
}

/* Returns NULL if there is none. */
static struct entry *oldest(const struct names *names)
{
	return list_of(names->entries.first, struct entry, node);
}

static void drop_oldest(struct names *names)
{
	drop(names, map_find(&names->by_permit, oldest(names)->permit));
}

void names_close(struct names *names)
{
	if (!names)
		return;
	while (oldest(names))
		drop_oldest(names);
	map_free(&names->by_permit);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

/* Returns NULL if there is nothing to keep, or no memory. */
static struct entry *make_entry(const struct weir_permits *permits, const struct engine_names *of)
{
	size_t bytes = sizeof(struct entry) + permits->count * sizeof(struct slice);
	struct entry *entry = NULL;
	bool any = false;
	char *to;

	for (size_t i = 0; i < permits->count; i++) {
		bytes += of->of[i].len;
		any |= of->of[i].data != NULL;
	}
	if (any)
		entry = malloc(bytes);
	if (!entry)
		return NULL;
	*entry = (struct entry){.permit = permits->id, .bytes = bytes, .count = permits->count};
	to = (char *)&entry->of[entry->count];
	for (size_t i = 0; i < entry->count; i++) {
		struct slice name = of->of[i];

		entry->until_ns =
		    u64_max(entry->until_ns, sat_add(permits->charges[i].until_ns, PERMITS_CLOCKS_NS));
		entry->of[i] = (struct slice){name.data ? to : NULL, name.len};
		if (name.len > 0)
			memcpy(to, name.data, name.len);
		to += name.len;
	}
	return entry;
}

void names_keep(struct names *names, const struct weir_permits *permits,
                const struct engine_names *of, uint64_t now_ns)
{
	struct entry *entry = make_entry(permits, of);
	struct by_permit *at;

	if (!entry)
		return;
	pthread_mutex_lock(&names->lock);
	while (oldest(names) &&
	       (names->bytes + entry->bytes > NAMES_MAX || oldest(names)->until_ns < now_ns))
		drop_oldest(names);
	at = map_add(&names->by_permit, entry->permit);
	if (at) {
		at->entry = entry;
		list_append(&names->entries, &entry->node);
		names->bytes += entry->bytes;
		entry = NULL;
	}
	pthread_mutex_unlock(&names->lock);
	free(entry);
}

int names_find(struct names *names, uint64_t permit, struct arena *arena, struct engine_names *out)
{
	const struct by_permit *at;
	const struct entry *entry;
	int status = WEIR_OK;

	*out = (struct engine_names){0};
	pthread_mutex_lock(&names->lock);
	at = map_find(&names->by_permit, permit);
	entry = at ? at->entry : NULL;
	for (size_t i = 0; entry && i < entry->count; i++) {
		if (!entry->of[i].data)
			continue;
		out->of[i] = (struct slice){arena_copy(arena, entry->of[i]), entry->of[i].len};
		if (!out->of[i].data)
			status = WEIR_ENOMEM;
	}
	pthread_mutex_unlock(&names->lock);
	return status;
}

void names_drop(struct names *names, uint64_t permit)
{
	struct by_permit *at;

	pthread_mutex_lock(&names->lock);
	at = map_find(&names->by_permit, permit);
	if (at)
		drop(names, at);
	pthread_mutex_unlock(&names->lock);
}
