/*
 * endpoint.h: parses the text of an address that a server listens on, or a client connects to.
 */
#ifndef BASE_NETWORK_ENDPOINT_H
#define BASE_NETWORK_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/network/ip.h"
#include "base/slice.h"

/* The kernel's limit for the path of a Unix socket, without the NUL at its end. */
#define ENDPOINT_PATH_MAX 107
#define ENDPOINT_UNIX     "unix:"
#define ENDPOINT_PLAIN    "plain:"

/** An address and a port, or a Unix socket. */
struct endpoint {
	struct ip ip; /* IPv4 is mapped (base/network/ip.h); all zero means every address */
	uint16_t port;
	bool without_tls;  /* the text began with `plain:` */
	struct slice path; /* of a Unix socket, a part of the text; its data is NULL for an address */
};

/**
 * Parses HOST:PORT, plain:HOST:PORT or unix:/PATH. HOST is numeric (IPv6 in brackets), localhost
 * (127.0.0.1), or * or empty for every address. PATH is absolute. Errors: EINVAL, whose message
 * redacts what may be a password.
 */
int endpoint_parse(struct slice text, struct endpoint *out, struct weir_error *error);

#endif
