/*
 * store_clients.h: opens and runs one worker's clients of remote stores, such as Redis, which
 * complete steps later. The worker's loop moves their bytes.
 *
 * The server's thread opens the clients, before the worker sees a configuration with their stores.
 * Everything else happens on the worker's thread.
 */
#ifndef SERVER_STORE_CLIENTS_H
#define SERVER_STORE_CLIENTS_H

#include <stdatomic.h>

#include "redis/redis.h"
#include "server/stores/stores.h"
#include "server/stores/transport.h"

/* The transport of a client, and the alarm that is set for it. */
struct client_transport {
	struct server_transport base;
	/* when the loop's alarm goes off for the client: at or before base.alarm_ns, its own; or 0 */
	uint64_t loop_alarm_ns;
};

struct store_clients {
	_Atomic size_t count;
	/* Indexed like stores->items: */
	struct client_transport transports[STORES_MAX];
	struct store_client *by_store[STORES_MAX];
};

static inline size_t store_clients_count(const struct store_clients *clients)
{
	return atomic_load_explicit(&clients->count, memory_order_acquire);
}

/** Opens the clients that are missing. Returns 0 or ENOMEM. */
int store_clients_open(struct store_clients *clients, struct net_loop *loop,
                       const struct stores *stores);
/** Called when the loop has ended, before it is closed. */
void store_clients_end(struct store_clients *clients);
/** Called after the loop is closed: all operations end. */
void store_clients_close(struct store_clients *clients);

/** Called at the beginning of an iteration: does what is due. */
void store_clients_tick(struct store_clients *clients);
/** How many steps are at the stores. */
size_t store_clients_steps(const struct store_clients *clients);
/** Sends what was submitted. */
void store_clients_flush(struct store_clients *clients);
/** When the server stops: returns unused chunks. Continue until store_clients_steps is 0. */
void store_clients_stop(struct store_clients *clients);
/** When store_clients_tick is due, or 0. */
uint64_t store_clients_due(struct store_clients *clients);

#endif
