/*
 * dialer.h: connects to a Redis: looks up the name of its host, tries the addresses, and sends the
 * greeting, until Redis has accepted it.
 *
 * A name may have several addresses. One may refuse connections; another may drop all packets, or
 * accept a connection and never answer. Therefore a dialer does not wait until an address has
 * failed: it begins an attempt at the next address a little later, as RFC 8305 ("Happy Eyeballs")
 * does. Each attempt has a connection of its own, which sends the greeting. The dialer uses the
 * first connection whose greeting is accepted, and ends the other attempts.
 *
 * Each dialer resolves its name anew, so it follows a name that has moved.
 */
#ifndef REDIS_DIALER_H
#define REDIS_DIALER_H

#include "redis/network/addresses.h"
#include "redis/network/connection.h"
#include "redis/network/transport.h"

#define DIALER_ADDRESSES_MAX 16 /* the most addresses of a name that are tried */
/* A dialer may take so long until Redis has accepted the greeting. */
#define DIALER_TIME_NS UINT64_C(1000000000)
/* From one attempt to the next; less with many addresses: all begin within half of that time. */
#define DIALER_DELAY_NS UINT64_C(250000000)

/* The server that a dialer connects to. */
struct dialer_target {
	const struct redis_url *url; /* must outlive the dialer */
	enum connection_peer peer;
	struct redis_host host;
	struct addresses *addresses; /* may be NULL */
};

struct dialer_owner {
	/* Redis has accepted the greeting: dialer_connection takes commands. */
	void (*accepted)(void *context);
	/* Bytes have arrived since then. May close the dialer. */
	void (*in)(void *context, struct slice bytes);
	/* The dialer has failed, or its connection has ended. Close it. */
	void (*lost)(void *context, const char *why);
	/* Call dialer_tick then, or earlier. */
	void (*alarm)(void *context, uint64_t at_ns);
};

/** Calls no function of `owner` except `alarm`. NULL if there is no memory. */
struct redis_dialer *dialer_open(struct redis_transport *transport,
                                 const struct dialer_target *target,
                                 const struct dialer_owner *owner, void *context);
/** Commands without a reply get NULL. */
void dialer_close(struct redis_dialer *dialer);
void dialer_tick(struct redis_dialer *dialer, uint64_t now_ns);
/** NULL until the greeting is accepted. */
struct connection *dialer_connection(const struct redis_dialer *dialer);
/** Whether all attempts failed, the newest because its server is a replica (connection.h). */
bool dialer_is_of_replica(const struct redis_dialer *dialer);
/** Its connection has bytes for the wire. */
void dialer_send(struct redis_dialer *dialer);
/** The server at this address can't be used: other addresses of the host come first from now on. */
void dialer_demote_address(const struct redis_dialer *dialer);

#endif
