/*
 * address.c: reads and writes the addresses of sockets ("HOST:PORT", "unix:/PATH"), and makes
 * sockets that listen on an address or connect to one.
 */
#include "net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/network/endpoint.h"

#define LISTEN_BACKLOG       1024 /* connections that the kernel queues for accept() */
#define SOCKET_FILE_MODE     0600
#define KEEPALIVE_PROBES_MAX 3

_Static_assert(sizeof((struct sockaddr_un *)NULL)->sun_path == ENDPOINT_PATH_MAX + 1,
               "a path and its NUL fill sun_path");

/* The prefix of IPv4 addresses that are written as IPv6: ::ffff:a.b.c.d. */
static const uint8_t mapped_v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static void address_make(struct net_address *out, const struct ip *ip, uint16_t port)
{
	memset(out, 0, sizeof *out);
	if (memcmp(ip->bytes, mapped_v4_prefix, sizeof mapped_v4_prefix) == 0) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(port);
		memcpy(&out->v4.sin_addr, ip->bytes + 12, 4);
	} else {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons(port);
		memcpy(&out->v6.sin6_addr, ip->bytes, 16);
	}
}

static void address_make_unix(struct net_address *out, struct slice path)
{
	memset(out, 0, sizeof *out);
	out->local.sun_family = AF_UNIX;
	memcpy(out->local.sun_path, path.data, path.len);
}

int net_address_parse(struct slice text, struct net_address *out, struct weir_error *error)
{
	struct endpoint endpoint;
	int status = endpoint_parse(text, &endpoint, error);

	if (status != WEIR_OK)
		return status;
	if (endpoint.path.data)
		address_make_unix(out, endpoint.path);
	else
		address_make(out, &endpoint.ip, endpoint.port);
	out->without_tls = endpoint.without_tls;
	return WEIR_OK;
}

socklen_t net_address_size(const struct net_address *address)
{
	switch (address->any.sa_family) {
	case AF_UNIX:
		return sizeof address->local;
	case AF_INET:
		return sizeof address->v4;
	default:
		return sizeof address->v6;
	}
}

/* A Unix socket, which has no IP address, counts as 127.0.0.1. */
struct ip net_address_ip(const struct net_address *address)
{
	struct ip ip = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

	if (net_address_is_unix(address))
		return ip;
	if (address->any.sa_family == AF_INET) {
		memcpy(ip.bytes, mapped_v4_prefix, sizeof mapped_v4_prefix);
		memcpy(ip.bytes + 12, &address->v4.sin_addr, 4);
	} else {
		memcpy(ip.bytes, &address->v6.sin6_addr, 16);
	}
	return ip;
}

void net_address_format(const struct net_address *address, char *out)
{
	struct ip ip = net_address_ip(address);
	bool v4 = address->any.sa_family == AF_INET;
	char host[IP_TEXT_MAX];
	size_t len = ip_format(&ip, host);

	if (net_address_is_unix(address)) {
		snprintf(out, NET_ADDRESS_TEXT_MAX, ENDPOINT_UNIX "%s", address->local.sun_path);
		return;
	}
	snprintf(out, NET_ADDRESS_TEXT_MAX, v4 ? "%.*s:%u" : "[%.*s]:%u", (int)len, host,
	         ntohs(v4 ? address->v4.sin_port : address->v6.sin6_port));
}

static void close_keeping_errno(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
}

/* Returns 0, or -1 and errno. */
static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value);
}

/* Makes a TCP socket send without delay, and probe a silent peer. Returns 0, or -1 and errno. */
int net_address_set_tcp_options(int fd)
{
	bool failed =
	    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) ||
	    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, NET_KEEPALIVE_S) ||
	    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, NET_KEEPALIVE_S / KEEPALIVE_PROBES_MAX) ||
	    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES_MAX) ||
	    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	return failed ? -1 : 0;
}

/*
 * Makes one of the sockets by which the loops of this server share a port. The first of them is
 * bound without SO_REUSEPORT, which is set afterwards: so a second server on the port gets an
 * error. Otherwise both would get half of the connections, and each would count half of the
 * requests. If the port is 0, *address gets the port that the kernel chose. Returns the socket, or
 * -1 and errno.
 */
static int bind_socket(struct net_address *address, bool is_first)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = net_address_size(address);

	if (fd < 0)
		return -1;
	/* On Linux accepted sockets inherit these options, which saves calls for each connection. */
	if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) || net_address_set_tcp_options(fd) ||
	    (!is_first && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) ||
	    (address->any.sa_family == AF_INET6 && set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) ||
	    bind(fd, &address->any, size) ||
	    (is_first && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) ||
	    getsockname(fd, &address->any, &size)) {
		close_keeping_errno(fd);
		return -1;
	}
	return fd;
}

/* Connects and returns a blocking socket, or -1 and errno. */
int net_address_dial(const struct net_address *address, unsigned timeout_s)
{
	struct timeval timeout = {.tv_sec = timeout_s};
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
	if (!net_address_is_unix(address))
		net_address_set_tcp_options(fd);
	if (connect(fd, &address->any, net_address_size(address)) == 0)
		return fd;
	close_keeping_errno(fd);
	return -1;
}

/* Whether it is "::", every address of the machine. */
static bool is_any_v6(const struct net_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

static void close_all_keeping_errno(const int *sockets, size_t count)
{
	while (count > 0)
		close_keeping_errno(sockets[--count]);
}

/* Makes `count` listening sockets, one for each event loop. Returns NULL, or why it failed. */
static const char *listen_tcp(struct net_address *address, int *sockets, size_t count)
{
	size_t bound;

	for (bound = 0; bound < count; bound++) {
		bool is_first = bound == 0;

		sockets[bound] = bind_socket(address, is_first);
		if (sockets[bound] < 0 && is_first && errno == EAFNOSUPPORT && is_any_v6(address)) {
			/* On a machine without IPv6 "every address" is 0.0.0.0. */
			address_make(address, &(struct ip){{[10] = 0xff, [11] = 0xff}},
			             ntohs(address->v6.sin6_port));
			sockets[bound] = bind_socket(address, is_first);
		}
		if (sockets[bound] < 0)
			goto failed;
	}
	for (size_t i = 0; i < count; i++)
		if (listen(sockets[i], LISTEN_BACKLOG))
			goto failed;
	return NULL;
failed:
	close_all_keeping_errno(sockets, bound);
	return strerror(errno);
}

/*
 * Removes the file of a Unix socket that a dead server has left: the kernel refuses a connection to
 * it. Returns why the file can not be removed, or NULL.
 */
static const char *remove_stale_file(const struct net_address *address)
{
	const char *path = address->local.sun_path;
	struct stat found;
	int fd, connect_errno;

	if (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode))
		return "the file exists and is not a socket";
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return strerror(errno);
	connect_errno = connect(fd, &address->any, net_address_size(address)) ? errno : 0;
	close(fd);
	switch (connect_errno) {
	case 0:
	case EAGAIN:     /* its queue is full */
	case EPROTOTYPE: /* its sockets are not streams */
		return "another program listens on it";
	case ENOENT: /* removed meanwhile */
		return NULL;
	case ECONNREFUSED:
		return unlink(path) == 0 ? NULL : strerror(errno);
	default:
		return strerror(connect_errno);
	}
}

/*
 * Sets owner, group and mode of the socket's file, before the socket listens, so that nobody can
 * connect earlier. Returns why it failed, or NULL.
 */
static const char *set_permissions(const struct net_address *address)
{
	const char *path = address->local.sun_path;
	uid_t owner = address->has_owner ? address->owner : (uid_t)-1;
	gid_t group = address->has_group ? address->group : (gid_t)-1;

	if ((address->has_owner || address->has_group) && lchown(path, owner, group))
		return errno == EPERM ? "this process may not change the owner or group of the file"
		                      : strerror(errno);
	return chmod(path, address->mode ? address->mode : SOCKET_FILE_MODE) ? strerror(errno) : NULL;
}

/*
 * Binds a Unix socket to its file, also in place of a dead server's, and records the file's device
 * and inode in *address, by which net_address_remove recognizes it. Returns NULL, or why it failed.
 */
static const char *bind_to_file(struct net_address *address, int fd)
{
	const char *path = address->local.sun_path, *why;
	struct stat made;

	if (bind(fd, &address->any, net_address_size(address))) {
		if (errno != EADDRINUSE)
			return strerror(errno);
		why = remove_stale_file(address);
		if (why)
			return why;
		if (bind(fd, &address->any, net_address_size(address)))
			return strerror(errno);
	}
	if (lstat(path, &made))
		return strerror(errno);
	address->device = made.st_dev;
	address->inode = made.st_ino;
	return set_permissions(address);
}

/*
 * Makes one socket, since a file has no more, and a descriptor of it for each loop. Returns NULL,
 * or why it failed.
 */
static const char *listen_unix(struct net_address *address, int *sockets, size_t count)
{
	const char *why;
	size_t made = 0;

	address->inode = 0;
	sockets[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sockets[0] < 0)
		return strerror(errno);
	why = bind_to_file(address, sockets[0]);
	for (made = 1; !why && made < count; made++) {
		sockets[made] = fcntl(sockets[0], F_DUPFD_CLOEXEC, 0);
		if (sockets[made] < 0) {
			why = strerror(errno);
			break;
		}
	}
	if (!why && listen(sockets[0], LISTEN_BACKLOG))
		why = strerror(errno);
	if (!why)
		return NULL;
	net_address_remove(address);
	close_all_keeping_errno(sockets, made);
	return why;
}

int net_address_listen(struct net_address *address, int *sockets, size_t count,
                       struct weir_error *error)
{
	const char *why =
	    (net_address_is_unix(address) ? listen_unix : listen_tcp)(address, sockets, count);
	char text[NET_ADDRESS_TEXT_MAX];

	if (!why)
		return WEIR_OK;
	net_address_format(address, text);
	return error_set(error, WEIR_EIO, "can't listen on %s: %s", text, why);
}

void net_address_remove(const struct net_address *address)
{
	struct stat found;

	if (address->inode != 0 && lstat(address->local.sun_path, &found) == 0 &&
	    found.st_dev == address->device && found.st_ino == address->inode)
		unlink(address->local.sun_path);
}
