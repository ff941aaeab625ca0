#include "server/stores/fleet_keys.h"

#include <stdlib.h>
#include <string.h>

struct fleet_key *fleet_keys_find(const struct fleet_keys *keys, uint64_t hash)
{
	struct fleet_key *key = keys->buckets[hash % FLEET_BUCKETS];

	while (key && key->hash != hash)
		key = key->next;
	return key;
}

struct fleet_key *fleet_keys_add(struct fleet_keys *keys, uint64_t hash, struct slice name)
{
	struct fleet_key **bucket = &keys->buckets[hash % FLEET_BUCKETS];
	struct fleet_key *key = fleet_keys_find(keys, hash);

	if (key || keys->count == FLEET_KEYS_MAX)
		return key;
	key = malloc(sizeof *key + name.len);
	if (!key)
		return NULL;
	*key = (struct fleet_key){.next = *bucket, .hash = hash, .len = name.len};
	if (name.len > 0)
		memcpy(key->name, name.data, name.len);
	*bucket = key;
	keys->count++;
	return key;
}

void fleet_keys_queue(struct fleet_keys *keys, struct fleet_key *key)
{
	if (key->queued)
		return;
	key->queued = true;
	key->behind = NULL;
	if (keys->first)
		keys->last->behind = key;
	else
		keys->first = key;
	keys->last = key;
}

struct fleet_key *fleet_keys_take(struct fleet_keys *keys)
{
	struct fleet_key *key = keys->first;

	if (key) {
		keys->first = key->behind;
		key->queued = false;
	}
	return key;
}

static void sweep_bucket(struct fleet_keys *keys, size_t bucket,
                         bool (*see)(void *context, struct fleet_key *key), void *context)
{
	struct fleet_key **at = &keys->buckets[bucket], *key;

	while ((key = *at)) {
		if (see(context, key) || key->queued) {
			at = &key->next;
			continue;
		}
		*at = key->next;
		free(key);
		keys->count--;
	}
}

void fleet_keys_sweep(struct fleet_keys *keys, size_t buckets,
                      bool (*see)(void *context, struct fleet_key *key), void *context)
{
	for (size_t i = 0; i < buckets; i++)
		sweep_bucket(keys, keys->swept++ % FLEET_BUCKETS, see, context);
}

void fleet_keys_clear(struct fleet_keys *keys)
{
	for (size_t i = 0; i < FLEET_BUCKETS; i++) {
		struct fleet_key *key;

		while ((key = keys->buckets[i])) {
			keys->buckets[i] = key->next;
			free(key);
		}
	}
	*keys = (struct fleet_keys){0};
}
