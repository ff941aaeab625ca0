/*
 * transport.h: a transport for connections to Redis, whose bytes the loop of a worker moves
 * (redis/network/transport.h).
 */
#ifndef SERVER_TRANSPORT_H
#define SERVER_TRANSPORT_H

#include "base/list.h"
#include "net/net.h"
#include "redis/network/transport.h"

struct server_transport {
	struct redis_transport base; /* first */
	struct net_loop *loop;
	uint64_t alarm_ns;       /* when its client wants to be called, or 0 */
	struct list lookups;     /* names that are looked up */
	bool has_ended;
};

void server_transport_open(struct server_transport *transport, struct net_loop *loop);
/** Before net_loop_close: it looks no names up any more. Its owner closes later. */
void server_transport_end(struct server_transport *transport);

#endif
