/*
 * group_keys.c: stores the keys of a limit that several servers decide together, as this server
 * knows them, queues those about which something has to be sent, and writes that into a message.
 */
#include "server/stores/group_keys.h"

#include <stdlib.h>
#include <string.h>

#define EXPIRE_PASSES 32 /* this many partial passes visit all keys */

struct group_key *group_keys_find(const struct group_keys *keys, uint64_t hash)
{
	const struct group_key_entry *entry = map_find(&keys->by_hash, hash);

	return entry ? entry->key : NULL;
}

struct group_key *group_keys_add(struct group_keys *keys, uint64_t hash, struct slice name)
{
	struct group_key *key = group_keys_find(keys, hash);
	struct group_key_entry *entry;

	if (key)
		return key;
	key = malloc(sizeof *key + name.len);
	entry = key ? map_add(&keys->by_hash, hash) : NULL;
	if (!entry) {
		free(key);
		return NULL;
	}
	*key = (struct group_key){.hash = hash, .name_len = name.len};
	if (name.len > 0)
		memcpy(key->name, name.data, name.len);
	entry->key = key;
	return key;
}

void group_keys_queue(struct group_keys *keys, struct group_key *key)
{
	if (!list_has(&key->queue_node))
		list_append(&keys->queue, &key->queue_node);
}

struct group_key *group_keys_pop(struct group_keys *keys)
{
	return list_of(list_pop(&keys->queue), struct group_key, queue_node);
}

/*
 * Frees the keys that need not be kept, unless they are queued. A partial pass visits a part of the
 * map's slots, from where the last one ended. map_next sets `at` behind the slot of the entry.
 */
void group_keys_expire(struct group_keys *keys, bool visits_all,
                       bool (*is_kept)(void *context, struct group_key *key), void *context)
{
	struct map *map = &keys->by_hash;
	size_t slot_count = map->mask + 1;
	size_t at = visits_all ? 0 : keys->expire_from;
	size_t end = visits_all ? slot_count : at + map->mask / EXPIRE_PASSES + 1;
	struct group_key_entry *entry;

	while ((entry = map_next(map, &at)) && at <= end) {
		struct group_key *key = entry->key;

		if (is_kept(context, key) || list_has(&key->queue_node))
			continue;
		map_remove(map, entry);
		at--; /* visit the slot again: removing may have moved another entry to it */
		free(key);
	}
	keys->expire_from = end < slot_count ? end : 0;
}

void group_keys_clear(struct group_keys *keys)
{
	const struct group_key_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&keys->by_hash, &at)))
		free(entry->key);
	map_free(&keys->by_hash);
	*keys = GROUP_KEYS_NONE;
}

static void add_entry(struct exchange *exchange, const struct group_key *key,
                      enum exchange_entry_kind kind, struct probe_results counts)
{
	exchange_add_entry(exchange, &(struct exchange_entry){.kind = kind,
	                                                      .follows_version = key->version,
	                                                      .counts = {counts.good, counts.bad,
	                                                                 counts.slow, counts.unused},
	                                                      .key = {key->name, key->name_len}});
}

void group_keys_write_entries(struct exchange *exchange, struct group_key *key, bool may_vote)
{
	const struct probe_results none = {0};

	if ((key->results.good | key->results.bad | key->results.unused) != 0)
		add_entry(exchange, key, EXCHANGE_PROBE_RESULTS, key->results);
	if (key->was_reset)
		add_entry(exchange, key, EXCHANGE_RESET, none);
	if (key->has_vote && may_vote) {
		add_entry(exchange, key, EXCHANGE_VOTE_TO_OPEN, none);
		key->has_vote = false;
	}
	if (key->probes_wanted > 0) /* the message has it in place of the first count */
		add_entry(exchange, key, EXCHANGE_WANTED_PROBES,
		          (struct probe_results){key->probes_wanted});
	key->results = none;
	key->probes_wanted = 0;
	key->was_reset = false;
}
