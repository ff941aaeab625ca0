/*
 * dialer.h: connects to a Redis, from the name of its host to an accepted greeting.
 *
 * A name may have several addresses. One may refuse connections; another may swallow what is sent
 * to it, or accept a connection and never answer. Therefore a dialer does not wait until an address
 * has failed: it makes an attempt at the next address a little later, as RFC 8305 ("Happy
 * Eyeballs") does. Each attempt has a connection of its own, which greets. The dialer takes the
 * first connection whose greeting is accepted, and ends the other attempts.
 *
 * Each dialer resolves its name anew, so it follows a name that has moved.
 */
#ifndef REDIS_DIALER_H
#define REDIS_DIALER_H

#include "redis/network/addresses.h"
#include "redis/network/connection.h"
#include "redis/network/transport.h"

#define DIALER_ADDRESSES_MAX 16 /* of a name; others are not tried */
/* From one attempt to the next, unless there are so many that all of them need half of... */
#define DIALER_DELAY_NS UINT64_C(250000000)
/* ... the time that a dialer may take until Redis has accepted the greeting. */
#define DIALER_TIME_NS UINT64_C(1000000000)

/* The server that a dialer connects to. */
struct dialer_target {
	const struct redis_url *url; /* outlives the dialer */
	enum connection_peer peer;
	struct redis_host host;
	struct addresses *addresses; /* may be NULL */
};

struct dialer_owner {
	/* Redis has accepted the greeting: dialer_connection takes commands. */
	void (*accepted)(void *context);
	/* Bytes have come since then. May close the dialer. */
	void (*in)(void *context, struct slice bytes);
	/* It has failed or ended. Close it. */
	void (*lost)(void *context, const char *why);
	/* Call dialer_tick then, or earlier. */
	void (*alarm)(void *context, uint64_t at_ns);
};

/** Calls no function of `owner` but `alarm`. NULL if there is no memory. */
struct redis_dialer *dialer_open(struct redis_transport *transport,
                                 const struct dialer_target *target,
                                 const struct dialer_owner *owner, void *context);
/** Calls that await their reply get NULL. */
void dialer_close(struct redis_dialer *dialer);
void dialer_tick(struct redis_dialer *dialer, uint64_t now_ns);
/** NULL as long as the greeting is not accepted. */
struct connection *dialer_connection(const struct redis_dialer *dialer);
/** Whether all attempts failed, and the newest because its server is a replica (connection.h). */
bool dialer_is_of_replica(const struct redis_dialer *dialer);
/** Its connection has bytes for the wire. */
void dialer_send(struct redis_dialer *dialer);
/** The server at its address is of no use: other addresses of the host come first from now on. */
void dialer_blame(const struct redis_dialer *dialer);

#endif
