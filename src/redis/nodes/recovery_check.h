/*
 * recovery_check.h: makes a node unavailable after a failure, and checks by a script and a write
 * whether its Redis can be used again.
 */
#ifndef REDIS_RECOVERY_CHECK_H
#define REDIS_RECOVERY_CHECK_H

#include "redis/client_inside.h"

static inline struct availability *availability_of(const struct redis_client *client,
                                                   unsigned number)
{
	return cluster_availability(client->store->cluster, number);
}

/** Makes a node unavailable because of `why`. The client's alarm leads to the recovery check. */
void recovery_set_unavailable(struct redis_client *client, unsigned number, const char *why,
                              uint64_t check_ns);
/**
 * Reports that the store has recovered, if all nodes that serve slots are available. A dead node
 * may have lost its slots.
 */
void recovery_report(const struct redis_client *client);
/** Sends a check to a node that is ready, unless one is under way. */
void recovery_check_send(struct redis_node *node);

#endif
