/*
 * group_keys.h: the keys of a limit that servers decide together, as one server knows them: the
 * last word of the fleet on a key, and the reports still to send. One thread at a time uses it.
 *
 * It has only keys that trip or that the fleet names, GROUP_KEYS_MAX of them at most.
 */
#ifndef SERVER_GROUP_KEYS_H
#define SERVER_GROUP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"

#define GROUP_KEYS_MAX 10000

enum group_phase { GROUP_KEY_CLOSED, GROUP_KEY_OPEN, GROUP_KEY_PROBING };

struct group_key {
	struct list_node queued; /* among those of which something is to be said or done */
	uint64_t hash;           /* in the table */
	enum group_phase phase;
	uint64_t number;     /* of the turn that it is known from; 0: none is known */
	unsigned doublings;  /* unless it is closed: failed probes in a row */
	uint64_t began_ns;   /* by our clock; of GROUP_PROBING when the last probe came */
	uint64_t since_ns;   /* of GROUP_PROBING: what its probes are told by */
	uint64_t touched_ns; /* when it was of use last */
	/* To be said: */
	uint32_t good, bad, slow, freed, asks;
	bool trips, resets;
	bool needs_reapply; /* the row could not do what the fleet says, or does it no more */
	size_t len;
	char name[];
};

struct group_key_entry {
	uint64_t hash;
	struct group_key *key;
};

struct group_keys {
	struct map by_hash; /* of struct group_key_entry */
	struct list queue;
	size_t expired_to; /* the place of the map from which the next part is swept */
};

#define GROUP_KEYS_NONE                                                                            \
	((struct group_keys){.by_hash = MAP_OF(struct group_key_entry, GROUP_KEYS_MAX)})

/** NULL: not there. */
struct group_key *group_keys_find(const struct group_keys *keys, uint64_t hash);
/** Makes it, unless it is there. NULL: no memory, or too many. */
struct group_key *group_keys_add(struct group_keys *keys, uint64_t hash, struct slice name);
/** Behind the others, unless it is queued. */
void group_keys_queue(struct group_keys *keys, struct group_key *key);
/** Takes the first, or NULL. */
struct group_key *group_keys_pop(struct group_keys *keys);
/** Shows all, or those in the next part of the map; drops those for which `see` returns false. */
void group_keys_expire(struct group_keys *keys, bool all,
                       bool (*is_kept)(void *context, struct group_key *key), void *context);
/** Forgets all. */
void group_keys_clear(struct group_keys *keys);

#endif
