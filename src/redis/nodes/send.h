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
/** Sends a command that has no tasks. False: no memory. */
bool send_words(struct redis_node *node, uint64_t deadline_ns,
                void (*replied)(struct link_call *, const struct redis_reply *),
                const struct slice *words, size_t n);
/** For `replied`: the call, which is the oldest of its node. It is not on its way any more. */
struct call *send_take(struct link_call *link);
/** Then. */
void send_end(struct call *call);

/** Frees the calls that the lane keeps for later. */
void send_close(struct redis_lane *lane);

#endif
