/*
 * redis_node.h: assigns a client's commands to its nodes, and manages their connections and
 * deadlines.
 *
 * A node is connected when there is something to send, and dropped when it fails. Redis may still
 * carry out commands of a connection that did not answer; it certainly does not carry out commands
 * that were never written.
 */
#ifndef REDIS_NODE_H
#define REDIS_NODE_H

#include "redis/client_inside.h"

/**
 * Assigns commands to the nodes that serve their keys; those of client->retries come first. The
 * nodes send them now, or when they are ready.
 */
void nodes_send(struct redis_client *client, struct redis_command *first);
/** Checks all deadlines, and sends the recovery checks that are due. */
void nodes_tick(struct redis_client *client);
/** Whether any node has something to answer, except Sentinels outside of a round. */
bool nodes_are_awaited(const struct redis_client *client);
/** Drops all nodes; their operations fail. */
void nodes_close(struct redis_client *client);

#endif
