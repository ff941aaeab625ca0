/* probe.h: whether the Redis of a node can be used: away by one failure, back by a probe. */
#ifndef REDIS_PROBE_H
#define REDIS_PROBE_H

#include "redis/client_inside.h"

static inline struct health *health_of(const struct redis_client *client, unsigned number)
{
	return cluster_health(client->store->cluster, number);
}

/** A node is away, for `why`. The client comes back to it by itself. */
void probe_go_away(struct redis_client *client, unsigned number, const char *why,
                   uint64_t probe_ns);
/**
 * Tells that the store is back when all nodes are up that serve slots; a dead one may have lost
 * them.
 */
void probe_look_whether_back(const struct redis_client *client);
/** To a node that is ready. */
void probe_send(struct redis_node *node);

#endif
