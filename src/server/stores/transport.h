/*
 * transport.h: lets the event loop of a worker connect to Redis and carry the bytes; implements
 * redis/network/transport.h.
 */
#ifndef SERVER_TRANSPORT_H
#define SERVER_TRANSPORT_H

#include "base/list.h"
#include "net/net.h"
#include "redis/network/transport.h"

struct server_transport {
	struct redis_transport base; /* the first member, because redis knows only this */
	struct net_loop *loop;
	uint64_t alarm_ns;   /* when the client wants to be called, or 0 */
	struct list lookups; /* host names that are being looked up */
	bool has_ended;
};

void server_transport_open(struct server_transport *transport, struct net_loop *loop);
/** Stops all lookups. Called before net_loop_close; the owner closes the clients later. */
void server_transport_end(struct server_transport *transport);

#endif
