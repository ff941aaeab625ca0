/*
 * cluster.h: the nodes of a store, and which of them serves each slot. Shared by its clients.
 *
 * With Sentinels, one server has all slots (sentinels.h). Without, the map begins as a guess: the
 * first host of the URL serves all slots. Redirections correct it slot by slot, CLUSTER HASH_SLOTS
 * all at once. A plain Redis is a cluster whose guess is right, and which is never asked.
 *
 * Nodes are numbers below CLUSTER_NODES_MAX. A number may be given to another node once no slot
 * and no client has it; a client that mixes them up is redirected.
 */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "redis/network/reply.h"
#include "redis/network/url.h"
#include "redis/nodes/hash_slots.h"
#include "redis/nodes/node_availability.h"

#define CLUSTER_ASK_NS    UINT64_C(1000000000) /* between two questions for the map */

struct cluster;

/** Hosts are copied. ENOMEM. */
int cluster_open(struct cluster **out, const struct redis_url *url);
void cluster_close(struct cluster *cluster);

/** The node that seems to serve a slot: one load, no lock. */
unsigned cluster_node_of(const struct cluster *cluster, unsigned slot);

/** A client begins to use a node, and learns where it is. */
void cluster_hold(struct cluster *cluster, unsigned node, struct redis_host *host);
/** And ends it. */
void cluster_drop(struct cluster *cluster, unsigned node);
/** Whether the map or the URL names a node. If not, a client that expects nothing of it drops it.
 */
bool cluster_has(struct cluster *cluster, unsigned node);
/** Whether the map names it. */
bool cluster_serves(struct cluster *cluster, unsigned node);

/** A node's own: what is dead denies its own slots alone. */
struct availability *cluster_availability(struct cluster *cluster, unsigned node);
/** Whether all nodes of the map are up. */
bool cluster_is_up(struct cluster *cluster);

/**
 * A node has said MOVED: notes where the slot is now. Returns that node, or CLUSTER_NO_NODE: there
 * are too many. The rest of the map is in doubt.
 */
unsigned cluster_moved(struct cluster *cluster, unsigned slot, const struct redis_host *to);
/** A node has said ASK: returns the node that it names, or CLUSTER_NO_NODE. */
unsigned cluster_ask_node(struct cluster *cluster, const struct redis_host *to);

/** The map may be wrong: a node was lost, or doesn't serve what it should. */
void cluster_doubt(struct cluster *cluster);
/** Whether it is in doubt. */
bool cluster_is_in_doubt(const struct cluster *cluster);
/**
 * Whether the caller is to ask *node for CLUSTER HASH_SLOTS now: when the map is in doubt, once in
 * CLUSTER_ASK_NS for all clients, each time another node, which is up if there is one.
 */
bool cluster_should_ask(struct cluster *cluster, uint64_t monotonic_ns, unsigned *node);
/**
 * The answer of `asked`. Slots that it leaves out stay as they were. Nonsense leaves the map in
 * doubt.
 */
void cluster_apply_map(struct cluster *cluster, const struct redis_reply *reply,
                       const struct redis_host *asked);

#endif
