/*
 * address.h: "HOST:PORT" or "unix:/PATH" and back; sockets that listen on an address or connect
 * to one.
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <weir/weir.h>

#include "base/network/ip.h"
#include "base/slice.h"

struct net_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local; /* its path ends with a NUL */
	};
	/* The file of a Unix socket that listens. */
	bool plain;   /* to be listened on without TLS */
	mode_t mode;  /* 0 means 0600 */
	bool has_owner, has_group; /* false if they are this process's; 0 is root's number */
	uid_t owner;
	gid_t group;
	dev_t device;
	ino_t inode; /* 0 means none was made */
};

/* After so much silence TCP asks the peer whether it is there, three times in as long again. */
#define NET_KEEPALIVE_S 300

#define NET_ADDRESS_TEXT_MAX (sizeof(struct sockaddr_un) + 8)

/**
 * "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" and "*:8080" (every
 * address of the machine, IPv4 and IPv6), "unix:/run/weir/http.sock". Names are not
 * looked up: nothing here blocks. Errors: EINVAL with "expected …, found …".
 */
int net_address_parse(struct slice text, struct net_address *out, struct weir_error *error);

/** Writes the NUL-terminated text of `address` into `out`, NET_ADDRESS_TEXT_MAX bytes. */
void net_address_format(const struct net_address *address, char *out);

socklen_t net_address_size(const struct net_address *address);

static inline bool net_address_is_unix(const struct net_address *address)
{
	return address->any.sa_family == AF_UNIX;
}

/** The address without its port. Unix sockets are this machine's: 127.0.0.1. */
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
 *
 * A Unix socket gets a file, see net_address_remove, with the mode, owner and group of
 * `address`. A file that a dead server has left is replaced; that of a living
 * one, or a file of another kind, is an error.
 */
int net_address_listen(struct net_address *address, int *sockets, size_t count,
                       struct weir_error *error);

/**
 * Removes the file that net_address_listen has made, unless another has taken its place. Before
 * the sockets are closed: until then no other file can get its inode.
 */
void net_address_remove(const struct net_address *address);

/**
 * A blocking connection that sends without delay, or -1 and errno. `timeout_s`
 * bounds the connecting, and later each send and receive.
 */
int net_address_dial(const struct net_address *address, unsigned timeout_s);

#endif
