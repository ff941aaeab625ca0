/*
 * cluster_inside.h: declares the struct of a cluster (the nodes of a store and the map of its
 * slots) for cluster.c and for sentinels.c, which finds the master of a cluster with Sentinels.
 */
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
	unsigned slot_count; /* the number of slots that the map assigns to it */
	unsigned user_count; /* the number of clients that use it */
	struct availability availability;
	bool is_replica; /* by its own reply; only used with Sentinels */
	bool is_sentinel;
	enum sentinel_state sentinel_state; /* of a Sentinel in the present round, ... */
	unsigned named_node;                /* ... and the node that it has named as the master */
};

struct cluster {
	bool map_is_fixed; /* one Redis alone serves all slots */
	bool has_sentinels;
	unsigned seed_count; /* of the first nodes: hosts of the URL, whose numbers never change */
	_Atomic uint16_t node_of[HASH_SLOTS];
	/*
	 * The map was proven wrong somewhere. A client that reads it requests the map, and nothing else
	 * depends on its order with other stores.
	 */
	atomic_bool map_is_in_doubt;
	_Atomic uint64_t next_request_ns; /* the map is not requested earlier */

	pthread_mutex_t mutex; /* of all below, and of changes of the map */
	unsigned node_count;   /* above all numbers that nodes have had */
	unsigned last_asked;   /* the node from which the map was requested last */
	/* Only where Sentinels name the master: */
	const void *round_asker; /* the client that began the last round */
	uint64_t round_began_ns; /* 0 before the first round */
	bool round_is_open;
	bool asks_learnt_sentinels; /* no Sentinel of the URL answered the last round */
	char *master;        /* the name of the master */
	char newest_failure[200]; /* of a Sentinel, or "" */
	struct cluster_node nodes[CLUSTER_NODES_MAX];
};

/** With the mutex held: the node at a host, known or new. CLUSTER_NO_NODE if no place is free. */
unsigned cluster_find_or_add(struct cluster *cluster, const struct redis_host *host,
                             bool is_sentinel);
/** Likewise: a node serves a slot from now on. */
void cluster_assign_slot(struct cluster *cluster, unsigned slot, unsigned node);

#endif
