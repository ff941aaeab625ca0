#include "net/address.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/login.h"
#include "base/number.h"

#define BACKLOG 1024

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:a.b.c.d */

static void address_make(struct net_address *out, const struct ip *ip, uint16_t port)
{
	memset(out, 0, sizeof *out);
	if (memcmp(ip->bytes, mapped, sizeof mapped) == 0) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(port);
		memcpy(&out->v4.sin_addr, ip->bytes + 12, 4);
	} else {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons(port);
		memcpy(&out->v6.sin6_addr, ip->bytes, 16);
	}
}

/* It may be the URL of a store. */
static int refuse(struct slice text, struct weir_error *error)
{
	char copy[LOGIN_SHOWN_MAX], found[LOGIN_SHOWN_MAX];

	snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.data);
	login_hide_in_other(text.len < sizeof copy ? copy : "a long text", found);
	return error_set(error, WEIR_EINVAL, "expected HOST:PORT with a numeric host, found '%s'", found);
}

int net_address_parse(struct slice text, struct net_address *out, struct weir_error *error)
{
	static const struct ip everywhere;
	const char *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
	struct slice host, port_text;
	struct ip ip = everywhere;
	uint64_t port;

	if (!colon)
		goto wrong;
	host = (struct slice){text.data, (size_t)(colon - text.data)};
	port_text = (struct slice){colon + 1, text.len - host.len - 1};
	if (!parse_u64(port_text, &port) || port > UINT16_MAX)
		goto wrong;
	if (slice_equal_nocase(host, SLICE("localhost")))
		host = SLICE("127.0.0.1");
	/* An IPv6 address without brackets would take its last group for the port. */
	if (memchr(host.data, ':', host.len) && host.data[0] != '[')
		goto wrong;
	if (host.len > 0 && !slice_equal(host, SLICE("*")) && !ip_parse(host, &ip))
		goto wrong;
	address_make(out, &ip, (uint16_t)port);
	return WEIR_OK;
wrong:
	return refuse(text, error);
}

socklen_t net_address_size(const struct net_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

struct ip net_address_ip(const struct net_address *address)
{
	struct ip ip;

	if (address->any.sa_family == AF_INET) {
		memcpy(ip.bytes, mapped, sizeof mapped);
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

	snprintf(out, NET_ADDRESS_TEXT_MAX, v4 ? "%.*s:%u" : "[%.*s]:%u", (int)len, host,
	         ntohs(v4 ? address->v4.sin_port : address->v6.sin6_port));
}

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value);
}

int net_address_tune(int fd)
{
	return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) ||
	               set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, NET_KEEPALIVE_S) ||
	               set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, NET_KEEPALIVE_S / 3) ||
	               set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3) ||
	               set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1)
	           ? -1
	           : 0;
}

/*
 * The first socket is bound without SO_REUSEPORT and gets it afterwards, so that
 * our own loops share the port while a second server finds it taken instead of
 * silently halving every count.
 */
static int bind_socket(struct net_address *address, bool first)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = net_address_size(address);

	if (fd < 0)
		return -1;
	/* Linux hands the options on to what the socket accepts: no call for each connection. */
	if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) || net_address_tune(fd) ||
	    (!first && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) ||
	    (address->any.sa_family == AF_INET6 && set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) ||
	    bind(fd, &address->any, size) || (first && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) ||
	    getsockname(fd, &address->any, &size)) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

int net_address_dial(const struct net_address *address, unsigned timeout_s)
{
	struct timeval timeout = {.tv_sec = timeout_s};
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), saved;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
	net_address_tune(fd);
	if (connect(fd, &address->any, net_address_size(address)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static bool is_everywhere_v6(const struct net_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

int net_address_listen(struct net_address *address, int *sockets, size_t count,
                       struct weir_error *error)
{
	char text[NET_ADDRESS_TEXT_MAX];
	size_t bound;

	for (bound = 0; bound < count; bound++) {
		sockets[bound] = bind_socket(address, bound == 0);
		if (sockets[bound] < 0 && bound == 0 && errno == EAFNOSUPPORT &&
		    is_everywhere_v6(address)) {
			/* A machine without IPv6: everywhere is 0.0.0.0 there. */
			address_make(address, &(struct ip){{[10] = 0xff, [11] = 0xff}},
			             ntohs(address->v6.sin6_port));
			sockets[bound] = bind_socket(address, true);
		}
		if (sockets[bound] < 0)
			goto failed;
	}
	for (size_t i = 0; i < count; i++)
		if (listen(sockets[i], BACKLOG))
			goto failed;
	return WEIR_OK;
failed:
	net_address_format(address, text);
	error_set(error, WEIR_EIO, "can't listen on %s: %s", text, strerror(errno));
	while (bound > 0)
		close(sockets[--bound]);
	return WEIR_EIO;
}
