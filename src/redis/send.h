/*
 * send.h: the calls of one node: written, sent, replied to.
 *
 * If Redis refuses a whole call, it is made again: at another node that Redis names, or after a
 * script that Redis misses. Its tasks wait in the lane until the caller hands them out anew.
 */
#ifndef REDIS_SEND_H
#define REDIS_SEND_H

#include "redis/inside.h"

/** Writes the calls of the tasks that wait, if the node is ready. */
void node_send(struct redis_node *node);
/** Asks it for the map of the cluster, if it is ready and is to be asked. */
void node_ask_map(struct redis_node *node);

/** Frees the calls that the lane keeps for later. */
void send_close(struct redis_lane *lane);

#endif
