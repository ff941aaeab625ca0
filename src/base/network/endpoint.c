/*
 * endpoint.c: parses the text of an address that a server listens on, or a client connects to:
 * HOST:PORT, plain:HOST:PORT (without TLS) or unix:/PATH. The host is an IP address, in brackets if
 * it is one of IPv6, or localhost. "*" or no host stands for every address.
 */
#include "base/network/endpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/text/store_url.h"

#define HOST_EXPECTED " with an IP address or localhost as HOST,"

/*
 * Returns EINVAL with a message that redacts the text, because it may be a store's URL with a
 * password. `host` says what the host may be.
 */
static int refuse_endpoint(struct slice text, const char *host, struct weir_error *error)
{
	char copy[STORE_URL_SHOWN_MAX], found[STORE_URL_SHOWN_MAX];

	snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.data);
	store_url_redact_if_any(text.len < sizeof copy ? copy : "a long text", found);
	return error_set(error, WEIR_EINVAL, "expected HOST:PORT%s or unix:/PATH, found '%s'", host,
	                 found);
}

static int read_socket_path(struct slice path, struct endpoint *out, struct weir_error *error)
{
	if (path.len > ENDPOINT_PATH_MAX)
		return error_set(error, WEIR_EINVAL,
		                 "expected a path of at most %d bytes behind " ENDPOINT_UNIX ", found %zu",
		                 ENDPOINT_PATH_MAX, path.len);
	out->path = path;
	return WEIR_OK;
}

/* Reads the text behind `plain:`. */
static int read_plain_endpoint(struct slice text, struct endpoint *out, struct weir_error *error)
{
	int status = endpoint_parse(text, out, error);

	if (status == WEIR_OK && (out->without_tls || out->path.data))
		return error_set(error, WEIR_EINVAL,
		                 "expected HOST:PORT behind " ENDPOINT_PLAIN ", found '%.*s'",
		                 (int)text.len, text.data);
	out->without_tls = true;
	return status;
}

int endpoint_parse(struct slice text, struct endpoint *out, struct weir_error *error)
{
	const char *colon;
	struct slice host, port_text, path = text;
	uint64_t port;

	*out = (struct endpoint){0};
	if (slice_skip(&text, SLICE(ENDPOINT_PLAIN)))
		return read_plain_endpoint(text, out, error);
	if (slice_skip(&path, SLICE(ENDPOINT_UNIX)) && path.len > 0 && path.data[0] == '/')
		return read_socket_path(path, out, error);
	colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
	if (!colon)
		return refuse_endpoint(text, "", error);
	host = (struct slice){text.data, (size_t)(colon - text.data)};
	port_text = (struct slice){colon + 1, text.len - host.len - 1};
	if (!parse_u64(port_text, &port) || port > UINT16_MAX)
		return refuse_endpoint(text, "", error);
	out->port = (uint16_t)port;
	if (slice_equal_nocase(host, SLICE("localhost")))
		host = SLICE("127.0.0.1");
	/* An IPv6 address without brackets: its last group has been taken for the port. */
	if (memchr(host.data, ':', host.len) && host.data[0] != '[')
		return refuse_endpoint(text, HOST_EXPECTED, error);
	if (host.len > 0 && !slice_equal(host, SLICE("*")) && !ip_parse(host, &out->ip))
		return refuse_endpoint(text, HOST_EXPECTED, error);
	return WEIR_OK;
}
