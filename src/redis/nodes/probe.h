/* probe.h: whether the Redis of a node can be used: unavailable by one failure, back by a probe. */
#ifndef REDIS_PROBE_H
#define REDIS_PROBE_H

#include "redis/client_inside.h"

static inline struct health *health_of(const struct redis_client *client, unsigned number)
{
	return cluster_health(client->store->cluster, number);
}

/** A node is unavailable, for `why`. The client comes back to it by itself. */
void probe_set_unavailable(struct redis_client *client, unsigned number, const char *why,
                           uint64_t probe_ns);
/**
 * Tells that the store has recovered when all nodes are up that serve slots; a dead one may have
 * lost them.
 */
void probe_check_recovered(const struct redis_client *client);
/** To a node that is ready. */
void probe_send(struct redis_node *node);

#endif
