/*
 * port.h: a port to the network for connections to Redis, whose bytes the loop of a worker moves
 * (redis/network/port.h).
 */
#ifndef SERVER_PORT_H
#define SERVER_PORT_H

#include "net/net.h"
#include "redis/network/port.h"

struct search;

struct server_port {
	struct redis_port port; /* first */
	struct net_loop *loop;
	uint64_t alarm_ns; /* when a lane wants to be called, or 0 */
	struct search *searches; /* names that are looked up */
	bool has_ended;
};

void server_port_open(struct server_port *port, struct net_loop *loop);
/** Before net_loop_close: it looks no names up any more. Its owner closes later. */
void server_port_end(struct server_port *port);

#endif
