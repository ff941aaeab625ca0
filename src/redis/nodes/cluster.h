/*
 * cluster.h: knows the nodes of a store, and which of them serves each hash slot. Its clients share
 * it.
 *
 * With Sentinels, one server has all slots (sentinels.h). Otherwise the map begins as a guess: the
 * first host of the URL serves all slots. Redirections correct it slot by slot, the reply to
 * CLUSTER SLOTS all at once. A plain Redis is a cluster whose guess is right, and whose map is
 * never requested.
 *
 * Nodes are numbers below CLUSTER_NODES_MAX. A number may be given to another node once no slot and
 * no client uses it; a client that still has the old meaning is redirected.
 */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "redis/network/reply.h"
#include "redis/network/url.h"
#include "redis/nodes/hash_slots.h"
#include "redis/nodes/node_availability.h"

#define CLUSTER_ASK_NS UINT64_C(1000000000) /* between two requests for the map */

struct cluster;

/** Hosts are copied. ENOMEM. */
int cluster_open(struct cluster **out, const struct redis_url *url);
void cluster_close(struct cluster *cluster);

/** The node that serves a slot by the map: one load, without a lock. */
unsigned cluster_node_of(const struct cluster *cluster, unsigned slot);

/** Counts a client as a user of the node, and copies the node's host. */
void cluster_add_user(struct cluster *cluster, unsigned node, struct redis_host *host);
/** Ends that use. */
void cluster_remove_user(struct cluster *cluster, unsigned node);
/**
 * Whether the map or the URL names a node. If neither does, a client closes its idle connection.
 */
bool cluster_names_node(struct cluster *cluster, unsigned node);
/** Whether the map names the node. */
bool cluster_node_has_slots(struct cluster *cluster, unsigned node);

/** The availability of one node: a dead node fails its own slots only. */
struct availability *cluster_availability(struct cluster *cluster, unsigned node);
/** Whether all nodes of the map are available. */
bool cluster_is_up(struct cluster *cluster);

/**
 * A node has replied MOVED: changes the map, and puts the rest of it in doubt. Returns the new node
 * of the slot, or CLUSTER_NO_NODE if there are too many nodes.
 */
unsigned cluster_apply_moved(struct cluster *cluster, unsigned slot, const struct redis_host *to);
/** A node has replied ASK: returns the node that it names, or CLUSTER_NO_NODE. */
unsigned cluster_node_of_ask(struct cluster *cluster, const struct redis_host *to);

/** Puts the map in doubt: a node was lost, or does not serve a slot as it should. */
void cluster_doubt(struct cluster *cluster);
/** Whether the map is in doubt. */
bool cluster_is_in_doubt(const struct cluster *cluster);
/**
 * Whether the caller has to request CLUSTER SLOTS from *node now: the map is in doubt, and
 * CLUSTER_ASK_NS have passed since any client's last request. Each time it is another node, if
 * possible an available one.
 */
bool cluster_claim_map_request(struct cluster *cluster, uint64_t monotonic_ns, unsigned *node);
/**
 * Applies the reply of `asked` to CLUSTER SLOTS. Slots that it omits stay as they were. After an
 * invalid reply the map stays in doubt.
 */
void cluster_apply_map(struct cluster *cluster, const struct redis_reply *reply,
                       const struct redis_host *asked);

#endif
