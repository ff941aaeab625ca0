/*
 * server_address.c: reads the address of a server: a URL, HOST:PORT or the path of a Unix socket.
 * The resolver of the system looks up names.
 */
#include "client/server_address.h"

#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"

/* The host, port and path of a URL. */
struct url_parts {
	struct slice host, port; /* the host has its brackets; the port may be empty */
};

/* The message shows no part of the URL, because it may have a password. */
static int refuse_url(struct weir_error *error, const char *found)
{
	return error_set(error, WEIR_EINVAL, "expected http://HOST:PORT, found a URL with %s", found);
}

/* Splits the text behind "http://". */
static int split_url(struct slice text, struct url_parts *parts, struct weir_error *error)
{
	const char *colon, *bracket;

	if (memchr(text.data, '@', text.len))
		return refuse_url(error, "a login; logins come from --user, --login or WEIR_TOKEN");
	if (text.len > 0 && text.data[text.len - 1] == '/')
		text.len--;
	if (memchr(text.data, '/', text.len) || memchr(text.data, '?', text.len) ||
	    memchr(text.data, '#', text.len))
		return refuse_url(error, "a path");
	colon = memrchr(text.data, ':', text.len);
	bracket = memchr(text.data, ']', text.len);
	if (colon && bracket && colon < bracket)
		colon = NULL; /* a part of an IPv6 address */
	parts->host = (struct slice){text.data, colon ? (size_t)(colon - text.data) : text.len};
	parts->port = colon ? (struct slice){colon + 1, text.len - parts->host.len - 1} : SLICE("");
	return parts->host.len > 0 ? WEIR_OK : refuse_url(error, "no host");
}

/* Whether the text could be a name in the DNS, and is not an IPv4 address. */
static bool is_name(struct slice host)
{
	bool has_letter = false;

	for (size_t i = 0; i < host.len; i++) {
		unsigned char c = (unsigned char)host.data[i];

		if (!isalnum(c) && c != '.' && c != '-' && c != '_')
			return false;
		has_letter |= isalpha(c) != 0;
	}
	return has_letter && host.len <= SERVER_NAME_MAX;
}

/* Looks up out->host. */
static int look_up(struct server_address *out, uint16_t port, struct weir_error *error)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char port_text[8];
	int failure;

	snprintf(port_text, sizeof port_text, "%u", (unsigned)port);
	failure = getaddrinfo(out->host, port_text, &hints, &found);
	if (failure != 0)
		return error_set(error, WEIR_EIO, "can't find the host %s: %s", out->host,
		                 gai_strerror(failure));
	for (const struct addrinfo *one = found; one; one = one->ai_next) {
		struct net_address *to = &out->addresses[out->address_count];

		if (one->ai_addrlen > sizeof *to || out->address_count == SERVER_ADDRESSES_MAX)
			continue;
		memset(to, 0, sizeof *to);
		memcpy(&to->any, one->ai_addr, one->ai_addrlen);
		out->address_count++;
	}
	freeaddrinfo(found);
	return out->address_count > 0
	           ? WEIR_OK
	           : error_set(error, WEIR_EIO, "can't find the host %s: no address", out->host);
}

/* Sets the name that the certificate must be for, unless the user gives another. */
static void set_host(struct server_address *out, struct slice host)
{
	static const char local[] = "localhost";
	struct ip ip = net_address_ip(&out->addresses[0]);

	if (slice_equal_nocase(host, SLICE("localhost")))
		memcpy(out->host, local, sizeof local);
	else
		out->host[ip_format(&ip, out->host)] = '\0';
}

/* Reads HOST:PORT or unix:/PATH. */
static int parse_endpoint(struct slice text, struct server_address *out, struct weir_error *error)
{
	const char *colon = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;
	struct slice host = {text.data, colon ? (size_t)(colon - text.data) : 0}, port_text;
	uint64_t port;
	int status;

	status = net_address_parse(text, &out->addresses[0], error);
	if (status == WEIR_OK) {
		bool is_unix = net_address_is_unix(&out->addresses[0]);

		out->address_count = 1;
		set_host(out, is_unix ? SLICE("") : host);
		/* A Unix socket has no name. */
		snprintf(out->field, sizeof out->field, "%.*s", is_unix ? 9 : (int)text.len,
		         is_unix ? "localhost" : text.data);
		return WEIR_OK;
	}
	port_text = (struct slice){text.data + host.len + 1, text.len - host.len - 1};
	if (!colon || !is_name(host) || !parse_u64(port_text, &port) || port > UINT16_MAX)
		return status; /* with the message for the endpoint, which redacts passwords */
	snprintf(out->host, sizeof out->host, "%.*s", (int)host.len, host.data);
	snprintf(out->field, sizeof out->field, "%.*s", (int)text.len, text.data);
	return look_up(out, (uint16_t)port, error);
}

int server_address_parse(struct slice text, struct server_address *out, struct weir_error *error)
{
	char endpoint[SERVER_NAME_MAX + 16];
	struct url_parts parts = {0};
	int len;

	*out = (struct server_address){0};
	out->is_https = slice_skip(&text, SLICE("https://"));
	out->is_http = out->is_https || slice_skip(&text, SLICE("http://"));
	if (!out->is_http)
		return parse_endpoint(text, out, error);
	if (split_url(text, &parts, error) != WEIR_OK)
		return WEIR_EINVAL;
	if (parts.port.len == 0)
		parts.port = out->is_https ? SLICE("443") : SLICE("80");
	len = snprintf(endpoint, sizeof endpoint, "%.*s:%.*s", (int)parts.host.len, parts.host.data,
	               (int)parts.port.len, parts.port.data);
	if (len < 0 || (size_t)len >= sizeof endpoint)
		return refuse_url(error, "a long host");
	return parse_endpoint((struct slice){endpoint, (size_t)len}, out, error);
}
