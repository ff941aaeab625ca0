#include "api/names.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 4096 /* a power of two */

/* The names of one permit. */
struct entry {
	struct entry *next;           /* in its bucket */
	struct entry *older, *newer;
	uint64_t permit, until_ns;
	size_t bytes; /* all of it */
	size_t count;
	struct slice of[]; /* then the names themselves */
};

struct names {
	pthread_mutex_t lock; /* of all below */
	struct entry *buckets[BUCKETS];
	struct entry *oldest, *newest;
	size_t bytes;
};

struct names *names_open(void)
{
	struct names *names = calloc(1, sizeof *names);

	if (names)
		pthread_mutex_init(&names->lock, NULL);
	return names;
}

/* The place of the permit's entry, or the end of its bucket. */
static struct entry **place_of(struct names *names, uint64_t permit)
{
	struct entry **at = &names->buckets[permit % BUCKETS];

	while (*at && (*at)->permit != permit)
		at = &(*at)->next;
	return at;
}

static void drop(struct names *names, struct entry *entry)
{
	*place_of(names, entry->permit) = entry->next;
	*(entry->older ? &entry->older->newer : &names->oldest) = entry->newer;
	*(entry->newer ? &entry->newer->older : &names->newest) = entry->older;
	names->bytes -= entry->bytes;
	free(entry);
}

void names_close(struct names *names)
{
	if (!names)
		return;
	while (names->oldest)
		drop(names, names->oldest);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

/* NULL: there is nothing to keep, or no memory. */
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

		entry->until_ns = u64_max(entry->until_ns,
		                          sat_add(permits->charges[i].until_ns, PERMITS_CLOCKS_NS));
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

	if (!entry)
		return;
	pthread_mutex_lock(&names->lock);
	names->bytes += entry->bytes;
	while (names->oldest && (names->bytes > NAMES_MAX || names->oldest->until_ns < now_ns))
		drop(names, names->oldest);
	entry->next = names->buckets[entry->permit % BUCKETS];
	names->buckets[entry->permit % BUCKETS] = entry;
	entry->older = names->newest;
	*(entry->older ? &entry->older->newer : &names->oldest) = entry;
	names->newest = entry;
	pthread_mutex_unlock(&names->lock);
}

int names_find(struct names *names, uint64_t permit, struct arena *arena, struct engine_names *out)
{
	const struct entry *entry;
	int status = WEIR_OK;

	*out = (struct engine_names){0};
	pthread_mutex_lock(&names->lock);
	entry = *place_of(names, permit);
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
	struct entry *entry;

	pthread_mutex_lock(&names->lock);
	entry = *place_of(names, permit);
	if (entry)
		drop(names, entry);
	pthread_mutex_unlock(&names->lock);
}
