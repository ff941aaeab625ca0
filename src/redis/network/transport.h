/*
 * transport.h: declares the interface by which a store client uses the network. The event loop of a
 * server implements it, and so do the blocking calls of the library.
 */
#ifndef REDIS_TRANSPORT_H
#define REDIS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "redis/network/url.h"

struct redis_address;
struct redis_attempt;
struct redis_dialer;
struct redis_transport;

struct redis_transport_kind {
	/*
	 * Looks up a host without blocking: redis_dialer_found is called once, but not before this
	 * function returns. NULL if there is no memory.
	 */
	void *(*look_up)(struct redis_transport *transport, struct redis_dialer *dialer,
	                 const struct redis_host *host);
	/* redis_dialer_found is not called any more. */
	void (*stop_look_up)(struct redis_transport *transport, void *lookup);
	/*
	 * Begins to connect to an address. Moves bytes between it and redis_attempt_connection, and
	 * calls redis_attempt_lost once if it fails or ends. Neither happens before this function
	 * returns. False if there is no memory.
	 */
	bool (*dial)(struct redis_transport *transport, struct redis_attempt *attempt,
	             const struct redis_address *to, void **handle);
	/* connection_unsent_bytes has bytes to be written, soon and without being asked again. */
	void (*send)(struct redis_transport *transport, void *handle);
	/* Ends it; redis_attempt_lost is not called. May be called within redis_attempt_receive. */
	void (*hang_up)(struct redis_transport *transport, void *handle);
	/* Call redis_client_tick then, by the monotonic clock; at 0 no more. The last call counts.
	 */
	void (*alarm)(struct redis_transport *transport, uint64_t at_ns);
	/* Its answers go to clients, which may send the next request at once. */
	bool serves_requesters;
};

struct redis_transport {
	const struct redis_transport_kind *kind;
};

struct connection;

/* Called by transports: */

/** The addresses of a host, the best first. Without any, `why` gives the reason. */
void redis_dialer_found(struct redis_dialer *dialer, const struct redis_address *addresses,
                        size_t n, const char *why);
struct connection *redis_attempt_connection(struct redis_attempt *attempt);
void redis_attempt_receive(struct redis_attempt *attempt, struct slice bytes);
/** `why` is for logs. The attempt must not be used any more. */
void redis_attempt_lost(struct redis_attempt *attempt, const char *why);

#endif
