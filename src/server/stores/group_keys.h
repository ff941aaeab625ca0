/*
 * group_keys.h: stores what this server knows of the keys of a limit that several servers decide
 * together (quorum_group.h): the newest decision on each key, and the reports still to send.
 *
 * It has only keys whose breaker trips or that the group names, at most GROUP_KEYS_MAX. One thread
 * at a time uses it.
 */
#ifndef SERVER_GROUP_KEYS_H
#define SERVER_GROUP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "redis/commands/exchange.h"

#define GROUP_KEYS_MAX 10000

enum group_phase { GROUP_KEY_CLOSED, GROUP_KEY_OPEN, GROUP_KEY_PROBING };

/* Numbers of probes. Slow ones are good or bad as well. */
struct probe_results {
	uint32_t good, bad, slow, unused; /* `unused`: granted, and not taken by a request */
};

struct group_key {
	struct list_node queue_node; /* in `queue`, if something has to be sent or applied */
	uint64_t hash;               /* of limit and key, as in the table */
	enum group_phase phase;
	uint64_t version;         /* the version of the group's decision, or 0 */
	unsigned failed_in_a_row; /* probes, unless the key is closed */
	/* by this server's clock; in GROUP_KEY_PROBING when the last probe was granted */
	uint64_t phase_began_ns;
	/* in GROUP_KEY_PROBING: the beginning of the phase, which results of its probes name */
	uint64_t probing_since_ns;
	uint64_t used_ns; /* when it was used last */
	/* To send: */
	struct probe_results results; /* of this phase */
	uint32_t probes_wanted;
	bool has_vote;      /* this server's results are bad enough to open the key */
	bool was_reset;     /* at this server */
	bool needs_reapply; /* the table's record does not follow the group's decision */
	size_t name_len;
	char name[];
};

struct group_key_entry {
	uint64_t hash;
	struct group_key *key;
};

struct group_keys {
	struct map by_hash;
	struct list queue;
	size_t expire_from; /* where in the map the next partial pass begins */
};

#define GROUP_KEYS_NONE                                                                            \
	((struct group_keys){.by_hash = MAP_OF(struct group_key_entry, GROUP_KEYS_MAX)})

/** The key, or NULL. */
struct group_key *group_keys_find(const struct group_keys *keys, uint64_t hash);
/** Finds or adds the key. Returns NULL if memory is short or there are GROUP_KEYS_MAX. */
struct group_key *group_keys_add(struct group_keys *keys, uint64_t hash, struct slice name);
/** Appends the key to the queue, unless it is queued. */
void group_keys_queue(struct group_keys *keys, struct group_key *key);
/** Removes the first of the queue, or returns NULL. */
struct group_key *group_keys_pop(struct group_keys *keys);
/**
 * Visits all keys, or the next part of them, and frees those for which `is_kept` returns false,
 * unless they are queued.
 */
void group_keys_expire(struct group_keys *keys, bool visits_all,
                       bool (*is_kept)(void *context, struct group_key *key), void *context);
/**
 * Writes what this server has to report of the key, and clears it. A vote is written only if
 * `may_vote`, and otherwise stays.
 */
void group_keys_write_entries(struct exchange *exchange, struct group_key *key, bool may_vote);
/** Frees all keys. */
void group_keys_clear(struct group_keys *keys);

#endif
