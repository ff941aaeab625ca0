/*
 * hash_slots.h: the slots of a Redis Cluster, as it reports them.
 *
 * Each key lies in one of SLOTS slots, and each slot is served by one master. CLUSTER SLOTS lists
 * them (every version has it; CLUSTER SHARDS only came with 7.0), and an error redirects a
 * command that was sent to the wrong node. Both come from outside: entries that make no sense
 * are skipped.
 */
#ifndef REDIS_HASH_SLOTS_H
#define REDIS_HASH_SLOTS_H

#include "redis/network/reply.h"
#include "redis/network/url.h"

#define SLOTS 16384

/* Servers have numbers below it. */
#define CLUSTER_NODES_MAX 1024
#define CLUSTER_NO_NODE   CLUSTER_NODES_MAX

/** The slot of a key's name: of the part in its first braces, unless that is empty. */
unsigned slots_of(struct slice name);

/* Slots in a row with one master. */
struct slots_range {
	unsigned first, last; /* both in */
	struct redis_host host;
};

/**
 * Reads the i-th entry of a reply to CLUSTER SLOTS. A node that doesn't know its own address
 * leaves it out: then it is that of `asked`, which sent the reply. False if that is nonsense.
 */
bool slots_range(const struct redis_reply *reply, size_t i, const struct redis_host *asked,
                 struct slots_range *out);

/**
 * A host that a server names. False if no host can have this name. An empty name
 * stands for `asked`, which may be NULL.
 */
bool slots_host(struct slice name, uint64_t port, const struct redis_host *asked,
                struct redis_host *out);

enum slots_redirect {
	SLOTS_STAY,  /* the text says something else */
	SLOTS_MOVED, /* the slot is served there from now on */
	SLOTS_ASK,   /* there for this command, behind ASKING: the slot is being moved */
};

/** Reads an error: a redirection of a slot's commands to a host. `asked` as above. */
enum slots_redirect slots_redirect(struct slice error, const struct redis_host *asked,
                                   unsigned *slot, struct redis_host *to);

#endif
