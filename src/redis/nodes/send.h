/*
 * send.h: the calls of one node: written, sent, replied to.
 *
 * A call that Redis refuses as a whole is made again: at another node that Redis names, or after a
 * script that Redis misses. Its commands wait in the client until the caller hands them out anew.
 */
#ifndef REDIS_SEND_H
#define REDIS_SEND_H

#include "redis/client_inside.h"

/** Writes the calls of the commands that wait, if the node is ready. */
void node_send(struct redis_node *node);
/**
 * Sends words of Redis without commands of its own; `on_reply` gets the reply, or NULL if the connection
 * ended before. False if there is no memory.
 */
bool send_words(struct redis_node *node, uint64_t deadline_ns, send_on_reply *on_reply,
                const struct slice *words, size_t n);
/** For words whose reply says nothing that the replies to the calls behind do not. */
void send_ignore(struct redis_node *node, const struct redis_reply *reply);

/** Frees the client's unused calls. */
void send_close(struct redis_client *client);

#endif
