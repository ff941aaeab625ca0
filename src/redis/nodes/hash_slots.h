/*
 * hash_slots.h: computes the slot of a key in a Redis Cluster, and reads which server has a slot.
 *
 * Each key lies in one of HASH_SLOTS slots, and each slot is served by one master. CLUSTER
 * SLOTS lists them (every version has it; CLUSTER SHARDS only came with 7.0), and an error
 * redirects a command that was sent to the wrong node. Both come from outside: entries that make no
 * sense are skipped.
 */
#ifndef REDIS_HASH_SLOTS_H
#define REDIS_HASH_SLOTS_H

#include "redis/network/reply.h"
#include "redis/network/url.h"

#define HASH_SLOTS 16384

/* Servers have numbers below it. */
#define CLUSTER_NODES_MAX 1024
#define CLUSTER_NO_NODE   CLUSTER_NODES_MAX

/** The slot of a key's name: of the part in its first braces, unless that is empty. */
unsigned hash_slot_of(struct slice name);

/* Slots in a row with one master. */
struct hash_slots_range {
	unsigned first, last; /* both in */
	struct redis_host host;
};

/**
 * Reads the i-th entry of a reply to CLUSTER SLOTS. A node that doesn't know its own address
 * leaves it out: then it is that of `asked`, which sent the reply. False if that is nonsense.
 */
bool hash_slots_read_range(const struct redis_reply *reply, size_t i,
                           const struct redis_host *asked, struct hash_slots_range *out);

/**
 * A host that a server names. False if no host can have this name. An empty name
 * stands for `asked`, which may be NULL.
 */
bool hash_slots_read_host(struct slice name, uint64_t port, const struct redis_host *asked,
                          struct redis_host *out);

enum hash_slots_redirect {
	HASH_SLOTS_STAY,  /* the text says something else */
	HASH_SLOTS_MOVED, /* the slot is served there from now on */
	HASH_SLOTS_ASK,   /* there for this command, behind ASKING: the slot is being moved */
};

/** Reads an error: a redirection of a slot's commands to a host. `asked` as above. */
enum hash_slots_redirect hash_slots_read_redirect(struct slice error,
                                                  const struct redis_host *asked, unsigned *slot,
                                                  struct redis_host *to);

#endif
