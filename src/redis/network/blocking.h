/*
 * blocking.h: the transport of a store client that blocks its thread, for calls of the library.
 *
 * Between calls no thread serves the connections. blocking_poll, before a call, finds connections
 * that have ended meanwhile.
 */
#ifndef REDIS_BLOCKING_H
#define REDIS_BLOCKING_H

#include "redis/network/transport.h"
#include "store/store.h"

struct blocking;

/** NULL if there is no memory. */
struct blocking *blocking_open(void);
/** When its client is closed. */
void blocking_close(struct blocking *blocking);

struct redis_transport *blocking_transport(struct blocking *blocking);
/** The client that it is the transport of. */
void blocking_serve(struct blocking *blocking, struct store_client *client);
/** Moves what can be moved without waiting; then rings. */
void blocking_poll(struct blocking *blocking);
/**
 * The same, and waits for what the client still awaits, such as the answer to a probe; until then
 * at most, by the monotonic clock.
 */
void blocking_settle(struct blocking *blocking, uint64_t until_ns);
/** Moves bytes, and rings the client's alarms, until the client's callbacks have made *pending 0.
 */
void blocking_run(struct blocking *blocking, const size_t *pending);

#endif
