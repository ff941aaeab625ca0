/*
 * port.h: a lane's way to the network. The event loop of a server has one, and so has a call of the
 * library, which blocks.
 */
#ifndef REDIS_PORT_H
#define REDIS_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "redis/network/url.h"

struct redis_address;
struct redis_attempt;
struct redis_connection;
struct redis_port;

struct redis_port_kind {
	/*
	 * Looks up a host without blocking: redis_connection_found is called once, but not before this
	 * function returns. NULL if there is no memory.
	 */
	void *(*look_up)(struct redis_port *port, struct redis_connection *connection,
	                 const struct redis_host *host);
	/* redis_connection_found is not called any more. */
	void (*stop_look_up)(struct redis_port *port, void *lookup);
	/*
	 * Begins to connect to an address. Moves bytes between it and redis_attempt_link, and calls
	 * redis_attempt_lost once if it fails or ends. Neither happens before this function returns.
	 * False if there is no memory.
	 */
	bool (*dial)(struct redis_port *port, struct redis_attempt *attempt,
	             const struct redis_address *to, void **line);
	/* link_out has bytes to be written, soon and without being asked again. */
	void (*send)(struct redis_port *port, void *line);
	/* Ends it; redis_attempt_lost is not called. May be called within redis_attempt_in. */
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

/** The addresses of a host, the best first. Without any, `why` gives the reason. */
void redis_connection_found(struct redis_connection *connection,
                            const struct redis_address *addresses, size_t n, const char *why);
struct link *redis_attempt_link(struct redis_attempt *attempt);
void redis_attempt_in(struct redis_attempt *attempt, struct slice bytes);
/** `why` is for logs. The attempt is not to be used any more. */
void redis_attempt_lost(struct redis_attempt *attempt, const char *why);

#endif
