#include "server/stores/fleet_keys.h"

#include <stdlib.h>
#include <string.h>

#define PARTS 32 /* in so many sweeps all keys are seen */

struct fleet_key *fleet_keys_find(const struct fleet_keys *keys, uint64_t hash)
{
	const struct fleet_entry *entry = map_find(&keys->by_hash, hash);

	return entry ? entry->key : NULL;
}

struct fleet_key *fleet_keys_add(struct fleet_keys *keys, uint64_t hash, struct slice name)
{
	struct fleet_key *key = fleet_keys_find(keys, hash);
	struct fleet_entry *entry;

	if (key)
		return key;
	key = malloc(sizeof *key + name.len);
	entry = key ? map_add(&keys->by_hash, hash) : NULL;
	if (!entry) {
		free(key);
		return NULL;
	}
	*key = (struct fleet_key){.hash = hash, .len = name.len};
	if (name.len > 0)
		memcpy(key->name, name.data, name.len);
	entry->key = key;
	return key;
}

void fleet_keys_queue(struct fleet_keys *keys, struct fleet_key *key)
{
	if (!list_has(&key->queued))
		list_append(&keys->queue, &key->queued);
}

struct fleet_key *fleet_keys_take(struct fleet_keys *keys)
{
	return list_of(list_take(&keys->queue), struct fleet_key, queued);
}

void fleet_keys_sweep(struct fleet_keys *keys, bool all,
                      bool (*see)(void *context, struct fleet_key *key), void *context)
{
	struct map *map = &keys->by_hash;
	size_t at = all ? 0 : keys->swept, end = all ? map->mask + 1 : at + map->mask / PARTS + 1;
	struct fleet_entry *entry;

	while ((entry = map_next(map, &at)) && at <= end) {
		struct fleet_key *key = entry->key;

		if (see(context, key) || list_has(&key->queued))
			continue;
		map_remove(map, entry);
		at--;
		free(key);
	}
	keys->swept = end <= map->mask ? end : 0;
}

void fleet_keys_clear(struct fleet_keys *keys)
{
	const struct fleet_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&keys->by_hash, &at)))
		free(entry->key);
	map_free(&keys->by_hash);
	*keys = FLEET_KEYS_NONE;
}
