/*
 * gather.h: decides how long a store client gathers requests before it sends them.
 *
 * A call costs Redis as much as several commands, and requests of one key in a call are one
 * command. Therefore, while calls are under way, the store client gathers new requests until these
 * are answered. It sends a few requests at once, because waiting would gain little. The clients
 * that it has answered often ask again at once: it then gathers a little longer, as long as that
 * pays. At rest nothing waits.
 *
 * Nodes of a cluster do not wait for one another, so there nothing is gathered.
 */
#ifndef REDIS_GATHER_H
#define REDIS_GATHER_H

#include "redis/client_inside.h"

/** Replies were read. */
void gather_answered(struct redis_client *client);
/** Whether the batch has to wait: for replies, clients or an alarm. */
bool gather_waits(struct redis_client *client);
/** The alarm may be due. */
void gather_tick(struct redis_client *client);

#endif
