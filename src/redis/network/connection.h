/*
 * connection.h: a connection to a Redis, from the name of its host to an accepted greeting.
 *
 * A name may have several addresses. One may refuse connections; another may swallow what is sent
 * to it, or accept a connection and never answer. Therefore a connection does not wait until an
 * address has failed: it makes an attempt at the next address a little later, as RFC 8305 ("Happy
 * Eyeballs") does. Each attempt has a link of its own, which greets. The first link whose greeting
 * is accepted becomes that of the connection, and the other attempts end.
 *
 * Names are looked up anew for each connection, so a connection follows a name that has moved.
 */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include "redis/network/addresses.h"
#include "redis/network/link.h"
#include "redis/network/port.h"

#define CONNECTION_ADDRESSES_MAX 16 /* of a name; others are not tried */
/* From one attempt to the next, unless there are so many that all of them need half of... */
#define CONNECTION_DELAY_NS UINT64_C(250000000)
/* ... the time that a connection may take until Redis has accepted the greeting. */
#define CONNECTION_TIME_NS UINT64_C(1000000000)

/* The server at the other end of a connection. */
struct connection_target {
	const struct redis_url *url; /* outlives the connection */
	enum link_peer peer;
	struct redis_host host;
	struct addresses *known; /* may be NULL */
};

struct connection_owner {
	/* Redis has accepted the greeting: connection_link takes commands. */
	void (*accepted)(void *context);
	/* Bytes have come since then. May close the connection. */
	void (*in)(void *context, struct slice bytes);
	/* It has failed or ended. Close it. */
	void (*lost)(void *context, const char *why);
	/* Call connection_tick then, or earlier. */
	void (*alarm)(void *context, uint64_t at_ns);
};

/** Calls no function of `owner` but `alarm`. NULL if there is no memory. */
struct redis_connection *connection_open(struct redis_port *port,
                                         const struct connection_target *target,
                                         const struct connection_owner *owner, void *context);
/** Calls that await their reply get NULL. */
void connection_close(struct redis_connection *connection);
void connection_tick(struct redis_connection *connection, uint64_t now_ns);
/** NULL as long as the greeting is not accepted. */
struct link *connection_link(const struct redis_connection *connection);
/** Whether all attempts failed, and the newest because its server is a replica (link.h). */
bool connection_is_of_replica(const struct redis_connection *connection);
/** Its link has bytes for the wire. */
void connection_send(struct redis_connection *connection);
/** The server at its address is of no use: other addresses of the host come first from now on. */
void connection_blame(const struct redis_connection *connection);

#endif
