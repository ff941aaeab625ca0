/*
 * lanes.h: one worker's ways to the stores that complete steps later, over connections of its
 * loop.
 *
 * The server's thread opens lanes, before the worker sees a configuration with their stores. The
 * worker does all else.
 */
#ifndef SERVER_LANES_H
#define SERVER_LANES_H

#include <stdatomic.h>

#include "redis/redis.h"
#include "server/stores/stores.h"
#include "server/stores/transport.h"

/* The transport of a lane, and when it is to be called. */
struct lane {
	struct server_transport transport;
	uint64_t
	    armed_ns; /* not after transport.alarm_ns; never put off, which would cost a call a turn */
};

struct lanes {
	_Atomic size_t count;
	struct lane items[STORES_MAX];
	struct store_client *ways[STORES_MAX]; /* by the index of their store */
};

static inline size_t lanes_count(const struct lanes *lanes)
{
	return atomic_load_explicit(&lanes->count, memory_order_acquire);
}

/** Opens those that are missing. ENOMEM. */
int lanes_open(struct lanes *lanes, struct net_loop *loop, const struct stores *stores);
/** When the loop has ended, before it is closed. */
void lanes_end(struct lanes *lanes);
/** Behind the end of the loop: all jobs are told. */
void lanes_close(struct lanes *lanes);

/** At the beginning of a turn: does what is due. */
void lanes_tick(struct lanes *lanes);
/** How many steps stores have by now. */
size_t lanes_steps(const struct lanes *lanes);
/** Sends what was submitted. */
void lanes_flush(struct lanes *lanes);
/** The server stops: what was taken in advance goes back. Go on until lanes_steps is 0. */
void lanes_stop(struct lanes *lanes);
/** When lanes_tick is to be called; 0: any time. */
uint64_t lanes_due(struct lanes *lanes);

#endif
