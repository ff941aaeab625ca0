/* cluster_inside.h: declares the struct of a cluster for cluster.c and sentinels.c. */
#ifndef REDIS_CLUSTER_INSIDE_H
#define REDIS_CLUSTER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "redis/nodes/hash_slots.h"
#include "redis/nodes/node_availability.h"

enum sentinel_state {
	SENTINEL_IDLE, /* not asked in this round */
	SENTINEL_ASKED,
	SENTINEL_NAMED,
	SENTINEL_FAILED,
};

struct cluster_node {
	struct redis_host host;
	unsigned slots; /* the number that the map assigns to it */
	unsigned held;  /* the number of clients that use it */
	struct availability availability;
	bool is_replica; /* by its own reply; only used with Sentinels */
	bool is_sentinel;
	enum sentinel_state state; /* for a Sentinel, ... */
	unsigned named;            /* ... and the node that it has named */
};

struct cluster {
	bool is_plain;  /* its map is never in doubt */
	bool has_sentinels;
	unsigned seeds; /* the first nodes: hosts of the URL, whose numbers never change */
	_Atomic uint16_t node_of[HASH_SLOTS];
	/*
	 * The map was proven wrong somewhere. A client that reads it requests the map, and nothing else
	 * depends on its order with other stores.
	 */
	atomic_bool in_doubt;
	_Atomic uint64_t ask_at_ns; /* not before */

	pthread_mutex_t mutex; /* of all below, and of changes of the map */
	unsigned count;        /* of nodes that ever were */
	unsigned last_asked;
	/* Only where Sentinels name the master: */
	const void *asker;   /* of the last round */
	uint64_t round_ns;   /* when it began */
	bool round_is_open;
	bool asks_learnt;    /* no Sentinel of the URL answered the last round */
	char *master;        /* the name of the master */
	char why[200];
	struct cluster_node nodes[CLUSTER_NODES_MAX];
};

/** With the mutex held: the node at a host, known or new. CLUSTER_NO_NODE if no place is free. */
unsigned cluster_find_or_add(struct cluster *cluster, const struct redis_host *host,
                             bool is_sentinel);
/** Likewise: a node serves a slot from now on. */
void cluster_assign_slot(struct cluster *cluster, unsigned slot, unsigned node);

#endif
