/* address.h: "HOST:PORT" and back; sockets that listen on an address or connect to one. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <weir/weir.h>

#include "base/ip.h"
#include "base/slice.h"

struct net_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
};

/* After so much silence TCP asks the peer whether it is there, three times in as long again. */
#define NET_KEEPALIVE_S 300

#define NET_ADDRESS_TEXT_MAX (IP_TEXT_MAX + 8)

/**
 * "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" and "*:8080" (every
 * address of the machine, IPv4 and IPv6). Names are not looked up: nothing here
 * blocks. Errors: EINVAL with "expected …, found …".
 */
int net_address_parse(struct slice text, struct net_address *out, struct weir_error *error);

/** Writes the NUL-terminated text of `address` into `out`, NET_ADDRESS_TEXT_MAX bytes. */
void net_address_format(const struct net_address *address, char *out);

socklen_t net_address_size(const struct net_address *address);

/** The address without its port. */
struct ip net_address_ip(const struct net_address *address);

/**
 * The socket sends without delay, and finds out within twice NET_KEEPALIVE_S that a silent
 * peer is not there any more. 0, or -1 and errno.
 */
int net_address_tune(int fd);

/**
 * Binds `count` listening sockets to one address; the kernel spreads connections
 * over them. Port 0 takes a free one and writes it to *address. Another program
 * on the port is an error, though it may share ports itself. Errors: EIO.
 * The sockets are non-blocking, and tuned as are those that they accept.
 */
int net_address_listen(struct net_address *address, int *sockets, size_t count,
                       struct weir_error *error);

/**
 * A blocking connection that sends without delay, or -1 and errno. `timeout_s`
 * bounds the connecting, and later each send and receive.
 */
int net_address_dial(const struct net_address *address, unsigned timeout_s);

#endif
