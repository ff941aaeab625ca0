/*
 * batching.h: decides how long a store client gathers requests before it sends them.
 *
 * A call costs Redis as much as several commands, and requests of one key in a call are one
 * command. Therefore, while calls are under way, the store client gathers new requests until these
 * are answered. It sends a few requests at once, because waiting would gain little. The clients
 * that it has answered often ask again at once: it then gathers a little longer, as long as that
 * pays. At rest nothing waits.
 *
 * Nodes of a cluster do not wait for one another, so there nothing is gathered.
 */
#ifndef REDIS_BATCHING_H
#define REDIS_BATCHING_H

#include "redis/client_inside.h"

/** Replies were read. */
void batching_replied(struct redis_client *client);
/** Whether the batch has to wait: for replies, clients or an alarm. */
bool batching_must_wait(struct redis_client *client);
/** The alarm may be due. */
void batching_tick(struct redis_client *client);

#endif
