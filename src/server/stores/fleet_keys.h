/*
 * fleet_keys.h: the keys of a limit that servers decide together, as one server knows them: the
 * last word of the fleet on a key, and the reports still to send. One thread at a time uses it.
 *
 * It has only keys that trip or that the fleet names, FLEET_KEYS_MAX of them at most.
 */
#ifndef SERVER_FLEET_KEYS_H
#define SERVER_FLEET_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"

#define FLEET_KEYS_MAX 10000

enum fleet_phase { FLEET_CLOSED, FLEET_OPEN, FLEET_PROBING };

struct fleet_key {
	struct list_node queued;  /* among those of which something is to be said or done */
	uint64_t hash;            /* in the table */
	enum fleet_phase phase;
	uint64_t number;     /* of the turn that it is known from; 0: none is known */
	unsigned doublings;  /* unless it is closed: failed probes in a row */
	uint64_t began_ns;   /* by our clock; of FLEET_PROBING when the last probe came */
	uint64_t since_ns;   /* of FLEET_PROBING: what its probes are told by */
	uint64_t touched_ns; /* when it was of use last */
	/* To be said: */
	uint32_t good, bad, slow, freed, asks;
	bool trips, resets;
	bool waits;  /* the row could not do what the fleet says, or does it no more */
	size_t len;
	char name[];
};

struct fleet_entry {
	uint64_t hash;
	struct fleet_key *key;
};

struct fleet_keys {
	struct map by_hash; /* of struct fleet_entry */
	struct list queue;
	size_t swept; /* the place of the map from which the next part is swept */
};

#define FLEET_KEYS_NONE ((struct fleet_keys){.by_hash = MAP_OF(struct fleet_entry, FLEET_KEYS_MAX)})

/** NULL: not there. */
struct fleet_key *fleet_keys_find(const struct fleet_keys *keys, uint64_t hash);
/** Makes it, unless it is there. NULL: no memory, or too many. */
struct fleet_key *fleet_keys_add(struct fleet_keys *keys, uint64_t hash, struct slice name);
/** Behind the others, unless it is queued. */
void fleet_keys_queue(struct fleet_keys *keys, struct fleet_key *key);
/** Takes the first, or NULL. */
struct fleet_key *fleet_keys_take(struct fleet_keys *keys);
/** Shows all, or those in the next part of the map; drops those for which `see` returns false. */
void fleet_keys_sweep(struct fleet_keys *keys, bool all,
                      bool (*see)(void *context, struct fleet_key *key), void *context);
/** Forgets all. */
void fleet_keys_clear(struct fleet_keys *keys);

#endif
