/*
 * port.h: a lane's way to the network. The event loop of a server has one, and so has a call of the
 * library, which blocks.
 */
#ifndef REDIS_PORT_H
#define REDIS_PORT_H

#include <stdint.h>

#include "base/slice.h"
#include "redis/url.h"

struct redis_node;
struct redis_port;

struct redis_port_kind {
	/*
	 * Begins to connect a node, whose bytes are link_out's. Calls redis_node_in with what
	 * comes, and redis_node_lost once when it has failed or ended; neither before it returns.
	 * False: no memory.
	 */
	bool (*dial)(struct redis_port *port, struct redis_node *node, const struct redis_host *host,
	             void **line);
	/* link_out has bytes to be written, soon and without being asked again. */
	void (*send)(struct redis_port *port, void *line);
	/* Ends it; redis_node_lost is not called. May be called within redis_node_in. */
	void (*hang_up)(struct redis_port *port, void *line);
	/* Call redis_lane_tick then (of the monotonic clock; 0: not any more). The last call counts. */
	void (*alarm)(struct redis_port *port, uint64_t at_ns);
	/* Its answers go to clients, which may ask again at once. */
	bool has_clients;
};

struct redis_port {
	const struct redis_port_kind *kind;
};

struct link;

/* For ports: */

struct link *redis_node_link(struct redis_node *node);
void redis_node_in(struct redis_node *node, struct slice bytes);
/** `why` is for logs. The node is not to be used any more. */
void redis_node_lost(struct redis_node *node, const char *why);

#endif
