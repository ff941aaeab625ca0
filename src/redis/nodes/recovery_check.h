/* probe.h: whether the Redis of a node can be used: unavailable by one failure, back by a probe. */
#ifndef REDIS_RECOVERY_CHECK_H
#define REDIS_RECOVERY_CHECK_H

#include "redis/client_inside.h"

static inline struct availability *availability_of(const struct redis_client *client,
                                                   unsigned number)
{
	return cluster_availability(client->store->cluster, number);
}

/** A node is unavailable, for `why`. The client comes back to it by itself. */
void recovery_set_unavailable(struct redis_client *client, unsigned number, const char *why,
                              uint64_t check_ns);
/**
 * Tells that the store has recovered when all nodes are up that serve slots; a dead one may have
 * lost them.
 */
void recovery_report(const struct redis_client *client);
/** To a node that is ready. */
void recovery_check_send(struct redis_node *node);

#endif
