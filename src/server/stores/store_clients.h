/*
 * store_clients.h: a worker's clients of the stores that complete steps later. Their transport is
 * the worker's loop.
 *
 * The server's thread opens the clients, before the worker sees a configuration with their stores.
 * The worker does all else.
 */
#ifndef SERVER_STORE_CLIENTS_H
#define SERVER_STORE_CLIENTS_H

#include <stdatomic.h>

#include "redis/redis.h"
#include "server/stores/stores.h"
#include "server/stores/transport.h"

/* The transport of a client, and when the client is to be called. */
struct client_transport {
	struct server_transport base;
	uint64_t armed_ns; /* not after base.alarm_ns; never put off, which would cost a call a turn */
};

struct store_clients {
	_Atomic size_t count;
	/* By the index of their store: */
	struct client_transport transports[STORES_MAX];
	struct store_client *by_store[STORES_MAX];
};

static inline size_t store_clients_count(const struct store_clients *clients)
{
	return atomic_load_explicit(&clients->count, memory_order_acquire);
}

/** Opens those that are missing. ENOMEM. */
int store_clients_open(struct store_clients *clients, struct net_loop *loop,
                       const struct stores *stores);
/** When the loop has ended, before it is closed. */
void store_clients_end(struct store_clients *clients);
/** Behind the end of the loop: all operations end. */
void store_clients_close(struct store_clients *clients);

/** At the beginning of a turn: does what is due. */
void store_clients_tick(struct store_clients *clients);
/** How many steps stores have by now. */
size_t store_clients_steps(const struct store_clients *clients);
/** Sends what was submitted. */
void store_clients_flush(struct store_clients *clients);
/** The server stops: what was taken in advance goes back. Go on until store_clients_steps is 0. */
void store_clients_stop(struct store_clients *clients);
/** When store_clients_tick is to be called; 0: any time. */
uint64_t store_clients_due(struct store_clients *clients);

#endif
