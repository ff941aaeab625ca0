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

/* As long as the path of a Unix socket may be; the kernel keeps a NUL behind it. */
#define ENDPOINT_PATH_MAX 107
#define ENDPOINT_UNIX     "unix:"
#define ENDPOINT_PLAIN    "plain:"

/** An address and a port, or a Unix socket. */
struct endpoint {
	struct ip ip; /* IPv4 is mapped; all zero: every address of the machine */
	uint16_t port;
	bool plain;        /* plain: stood before it: without TLS */
	struct slice path; /* of a Unix socket, in the text that was read; without data: none */
};

/**
 * Reads HOST:PORT, plain:HOST:PORT or unix:/PATH. HOST is numeric, localhost (127.0.0.1), or nothing or * for every
 * address; IPv6 stands in brackets. PATH is absolute. Errors: EINVAL, which hides what may be a
 * login.
 */
int endpoint_parse(struct slice text, struct endpoint *out, struct weir_error *error);

#endif
