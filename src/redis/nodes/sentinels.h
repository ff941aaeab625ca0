/*
 * sentinels.h: the master of a store, as Sentinels name it.
 *
 * The nodes of such a store (cluster.h) are Sentinels, the servers that they named, and one node
 * that stands for a master that is not known yet. All slots belong to the master.
 *
 * A client asks all Sentinels of the URL at once: a round. The server that most of them name
 * becomes the master. A server that says itself that it is a replica does not, as long as another
 * is named. If two servers are named equally often, it is the one that an earlier Sentinel of the
 * URL names, so that all processes choose the same. Sentinels that are not in the URL are asked
 * only while none of the URL answers: else one Sentinel that lies could name many others, and
 * outvote the rest.
 */
#ifndef REDIS_SENTINELS_H
#define REDIS_SENTINELS_H

#include "redis/nodes/cluster.h"

#define SENTINELS_LEARNT_MAX 16
#define SENTINELS_MAX        (REDIS_HOSTS_MAX + SENTINELS_LEARNT_MAX)
/* From one round to the next, if nothing happens. */
#define SENTINELS_POLL_NS UINT64_C(1000000000)
/* The same while the master is in doubt; and so long a round waits for all answers. */
#define SENTINELS_SOON_NS UINT64_C(100000000)

/** Whether a node is known, or only stands for a master that nobody has named yet. */
bool sentinels_know(const struct cluster *cluster, unsigned node);
bool sentinels_has(struct cluster *cluster, unsigned node);

/**
 * Whether the caller is to ask the Sentinels now: when the master is in doubt, or the last
 * round of all clients is old. Writes how many Sentinels, and which nodes they are.
 */
bool sentinels_begin(struct cluster *cluster, const void *asker, uint64_t now_ns,
                     unsigned nodes[SENTINELS_MAX], size_t *n);
/** Ends a round that has lasted long enough. Returns when to call sentinels_begin again. */
uint64_t sentinels_due_ns(struct cluster *cluster, const void *asker, uint64_t now_ns);
/** Whether Sentinels have still to answer a round of this asker. */
bool sentinels_are_awaited(struct cluster *cluster, const void *asker);

/** The answer of a node to `SENTINEL get-master-addr-by-name`. */
void sentinels_answer(struct cluster *cluster, unsigned node, const struct redis_reply *reply);
/** A node does not answer, and why. */
void sentinels_fail(struct cluster *cluster, unsigned node, const char *why);
/** The answer to `SENTINEL sentinels`. */
void sentinels_add_learnt(struct cluster *cluster, const struct redis_reply *reply);

/** A node said of itself whether it is a master. */
void sentinels_record_role(struct cluster *cluster, unsigned node, bool is_master);

#define SENTINELS_WHY_MAX 300

/** Why no master is known: the newest failure of a Sentinel. */
void sentinels_why(struct cluster *cluster, char out[SENTINELS_WHY_MAX]);

#endif
