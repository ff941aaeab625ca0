/*
 * blocking.h: moves the bytes of a store client over the network within calls that block their
 * thread, for the library.
 *
 * Between calls no thread serves the connections. blocking_poll, before a call, notices connections
 * that have ended meanwhile.
 */
#ifndef REDIS_BLOCKING_H
#define REDIS_BLOCKING_H

#include "redis/network/transport.h"
#include "store/store.h"

struct blocking;

/** NULL if there is no memory. */
struct blocking *blocking_open(void);
/** Call it after its client is closed. */
void blocking_close(struct blocking *blocking);

struct redis_transport *blocking_transport(struct blocking *blocking);
/** Sets the client that uses the transport. */
void blocking_serve(struct blocking *blocking, struct store_client *client);
/** Transfers the bytes that need no wait, then runs the alarm if it is due. */
void blocking_poll(struct blocking *blocking);
/**
 * The same, and waits for everything that the client still awaits, such as the reply to a recovery
 * check; at most until that time by the monotonic clock.
 */
void blocking_settle(struct blocking *blocking, uint64_t until_ns);
/**
 * Transfers bytes and runs the client's alarms, until the client's callbacks have made *pending 0.
 */
void blocking_run(struct blocking *blocking, const size_t *pending);

#endif
