/*
 * address.h: reads and writes "HOST:PORT" and "unix:/PATH", and makes sockets that listen on an
 * address or connect to one.
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
		struct sockaddr_un local; /* the path ends with a NUL */
	};
	bool without_tls; /* for listeners */
	/* The file of a Unix socket that listens. */
	mode_t mode;               /* 0 means 0600 */
	bool has_owner, has_group; /* false if they are this process's; 0 is root's number */
	uid_t owner;
	gid_t group;
	dev_t device;
	ino_t inode; /* 0 if no file was made */
};

/* After this silence TCP sends three keepalive probes, within the same time again. */
#define NET_KEEPALIVE_S 300

#define NET_ADDRESS_TEXT_MAX (sizeof(struct sockaddr_un) + 8)

/**
 * Reads "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" and "*:8080" (every address of
 * the machine, IPv4 and IPv6), or "unix:/run/weir/http.sock". Does not look up names, which could
 * block. Errors: EINVAL with "expected …, found …".
 */
int net_address_parse(struct slice text, struct net_address *out, struct weir_error *error);

/** Writes the NUL-terminated text of `address` into `out`, NET_ADDRESS_TEXT_MAX bytes. */
void net_address_format(const struct net_address *address, char *out);

socklen_t net_address_size(const struct net_address *address);

static inline bool net_address_is_unix(const struct net_address *address)
{
	return address->any.sa_family == AF_UNIX;
}

/** The address without its port; 127.0.0.1 for a Unix socket, which belongs to this machine. */
struct ip net_address_ip(const struct net_address *address);

/**
 * Makes a socket send without delay, and find out within twice NET_KEEPALIVE_S that a silent peer
 * has vanished. 0, or -1 and errno.
 */
int net_address_set_tcp_options(int fd);

/**
 * Binds `count` listening sockets to one address; the kernel distributes connections over them.
 * Port 0 chooses a free port and writes it to *address. Another program on the port is an error,
 * even if that program shares its port. Errors: EIO. The sockets and those that they accept are
 * non-blocking and tuned by net_address_set_tcp_options.
 *
 * A Unix socket gets a file, see net_address_remove, with the mode, owner and group of `address`.
 * The file of a dead server is replaced. The file of a running server, or a file that is no
 * socket, is an error.
 */
int net_address_listen(struct net_address *address, int *sockets, size_t count,
                       struct weir_error *error);

/**
 * Removes the file that net_address_listen has made, unless another file has replaced it. Call it
 * before the sockets are closed: until then no other file can get the inode.
 */
void net_address_remove(const struct net_address *address);

/**
 * Opens a blocking connection that sends without delay; -1 and errno if it fails. `timeout_s`
 * bounds the connecting, and later each send and receive.
 */
int net_address_dial(const struct net_address *address, unsigned timeout_s);

#endif
