/*
 * sentinels.h: finds the master of a store by the answers of Sentinels.
 *
 * The nodes of such a store (cluster.h) are Sentinels, the servers that they named, and one node
 * that stands for a master that is not named yet. All slots belong to the master.
 *
 * A client asks all Sentinels of the URL at once, in a round. The server that most of them name
 * becomes the master. A server that says itself that it is a replica does not, as long as another
 * is named. If two servers are named equally often, the one that an earlier Sentinel of the URL
 * names becomes the master, so that all processes choose the same. Sentinels that are not in the
 * URL are asked only while none of the URL answers: otherwise one Sentinel that lies could name
 * many others, and outvote the rest.
 */
#ifndef REDIS_SENTINELS_H
#define REDIS_SENTINELS_H

#include "redis/nodes/cluster.h"

#define SENTINELS_LEARNT_MAX 16
#define SENTINELS_MAX        (REDIS_HOSTS_MAX + SENTINELS_LEARNT_MAX)
/* The time between two rounds while the master is not in doubt. */
#define SENTINELS_POLL_NS UINT64_C(1000000000)
#define SENTINELS_SOON_NS UINT64_C(100000000) /* the same while the master is in doubt */
/* The longest wait of a round for all answers. */
#define SENTINELS_ROUND_MAX_NS SENTINELS_SOON_NS

/** False for the node that stands for a master that nobody has named yet. */
bool sentinels_node_has_host(const struct cluster *cluster, unsigned node);
bool sentinels_node_is_sentinel(struct cluster *cluster, unsigned node);

/**
 * Whether the caller has to ask the Sentinels now: the master is in doubt, or the last round of any
 * client is old. Writes the nodes of the Sentinels, and how many they are.
 */
bool sentinels_begin_round(struct cluster *cluster, const void *asker, uint64_t now_ns,
                           unsigned nodes[SENTINELS_MAX], size_t *n);
/** Ends a round that has lasted SENTINELS_ROUND_MAX_NS. */
void sentinels_end_overdue_round(struct cluster *cluster, uint64_t now_ns);
/** When to call these two functions again. */
uint64_t sentinels_next_due_ns(struct cluster *cluster, const void *asker);
/** Whether a round of this asker is open. */
bool sentinels_are_awaited(struct cluster *cluster, const void *asker);

/** The answer of a node to `SENTINEL get-master-addr-by-name`. */
void sentinels_answer(struct cluster *cluster, unsigned node, const struct redis_reply *reply);
/** Records that a node does not answer, and why. */
void sentinels_fail(struct cluster *cluster, unsigned node, const char *why);
/** Adds the Sentinels of an answer to `SENTINEL sentinels`. */
void sentinels_add_learnt(struct cluster *cluster, const struct redis_reply *reply);

/** Records whether a node is a replica, by its own reply. */
void sentinels_set_replica(struct cluster *cluster, unsigned node, bool is_replica);

#define SENTINELS_WHY_MAX 300

/** Writes why no master is named: the newest failure of a Sentinel. */
void sentinels_why(struct cluster *cluster, char out[SENTINELS_WHY_MAX]);

#endif
