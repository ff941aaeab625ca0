/*
 * gather.h: how long a lane gathers before it sends.
 *
 * A call costs Redis as much as several steps do, and requests of one key in a call are one step. So
 * while calls are on their way, what comes is gathered until they are answered; but few requests
 * are sent at once, for they would wait for little. When many have been answered, their clients
 * often ask again at once: then a lane gathers a little longer, as long as that pays. At rest
 * nothing waits.
 *
 * Nodes of a cluster do not wait for one another, so there nothing is gathered.
 */
#ifndef REDIS_GATHER_H
#define REDIS_GATHER_H

#include "redis/inside.h"

/** Replies have come. */
void gather_answered(struct redis_lane *lane);
/** Whether the batch has to wait: for replies, clients or an alarm. */
bool gather_waits(struct redis_lane *lane);
/** The alarm may be due. */
void gather_tick(struct redis_lane *lane);

#endif
