/*
 * batching.h: decides how long a store client gathers requests before it sends them.
 *
 * A call costs Redis as much as several commands, and requests of one key in a call are one
 * command. Therefore, while calls are under way, the client gathers new requests until these are
 * answered. It sends a few requests at once, because waiting would gain little. Clients that were
 * answered often send the next request at once: the store client then waits a little longer for
 * them, as long as that pays. Without load nothing waits.
 *
 * Nodes of a cluster do not wait for one another, so requests for a cluster are not gathered.
 */
#ifndef REDIS_BATCHING_H
#define REDIS_BATCHING_H

#include "redis/client_inside.h"

/**
 * Call it after replies were read: begins a wait for the clients that were answered, if that pays.
 */
void batching_replied(struct redis_client *client);
/** Whether the batch has to wait: for replies, for clients, or for an alarm. */
bool batching_must_wait(struct redis_client *client);
/** Ends a wait whose time is over. */
void batching_tick(struct redis_client *client);

#endif
