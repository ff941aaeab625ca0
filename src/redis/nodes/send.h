/*
 * send.h: writes the waiting commands of a node as calls, and handles the replies to them.
 *
 * A call that Redis refuses as a whole is repeated: at another node that Redis names, or after
 * loading a script that Redis misses. Its commands wait in client->retries until the caller assigns
 * them anew.
 */
#ifndef REDIS_SEND_H
#define REDIS_SEND_H

#include "redis/client_inside.h"

/** Writes calls of the waiting commands, if the node is ready. */
void node_send(struct redis_node *node);
/**
 * Sends a command of Redis that is no script. `on_reply` gets the reply, or NULL if the connection
 * ended before. False if there is no memory.
 */
bool send_words(struct redis_node *node, uint64_t deadline_ns, send_on_reply *on_reply,
                const struct slice *words, size_t n);
/** The `on_reply` of a command whose failure shows in the replies to the calls after it. */
void ignore_reply(struct redis_node *node, const struct redis_reply *reply);

/** Frees the client's unused calls. */
void calls_free_unused(struct redis_client *client);

#endif
