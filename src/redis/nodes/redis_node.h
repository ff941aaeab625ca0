/*
 * redis_node.h: a client's Redis servers: connections, calls on their way, deadlines, probes.
 *
 * A node is dialled when it has something to send, and dropped when it fails. Redis may still carry
 * out commands of a connection that did not answer; it certainly does not carry out what was never
 * written.
 */
#ifndef REDIS_NODE_H
#define REDIS_NODE_H

#include "redis/client_inside.h"

/**
 * Hands commands, and in front of them those of client->again, to the nodes that serve their keys,
 * which send them now or when they are ready.
 */
void nodes_send(struct redis_client *client, struct redis_command *first);
/** Looks at all deadlines, and probes what is unavailable. */
void nodes_tick(struct redis_client *client);
/** Whether any of them has to answer. */
bool nodes_are_awaited(const struct redis_client *client);
/** Drops all; their operations are done. */
void nodes_close(struct redis_client *client);

#endif
