/*
 * server_address.h: reads the address of a server that a command of `weir` connects to, and looks
 * up its name.
 */
#ifndef CLIENT_SERVER_ADDRESS_H
#define CLIENT_SERVER_ADDRESS_H

#include <stdbool.h>

#include <weir/weir.h>

#include "base/slice.h"
#include "net/address.h"

#define SERVER_NAME_MAX      253 /* bytes of a name in the DNS */
#define SERVER_ADDRESSES_MAX 8   /* of one name; connecting tries them in order */

struct server_address {
	bool is_http;                    /* a URL: the server speaks HTTP there */
	bool is_https;                   /* a URL with TLS */
	char host[SERVER_NAME_MAX + 1];  /* for the certificate: a name, or an IP without brackets */
	char field[SERVER_NAME_MAX + 9]; /* for the header field Host */
	struct net_address addresses[SERVER_ADDRESSES_MAX];
	size_t address_count; /* at least 1 */
};

/**
 * Reads HOST:PORT, unix:/PATH, http://HOST[:PORT] or https://HOST[:PORT]. HOST is what
 * net_address_parse reads, or a name, which is looked up: that may take seconds. Errors: EINVAL,
 * EIO if the name is not found.
 */
int server_address_parse(struct slice text, struct server_address *out, struct weir_error *error);

#endif
