/* dial.h: opens a blocking connection to a server, with TLS or without. */
#ifndef LOAD_DIAL_H
#define LOAD_DIAL_H

#include <weir/weir.h>

#include "net/address.h"
#include "tls/tls.h"

/* How a server proves itself. Zeroed: without TLS. */
struct dial_trust {
	struct tls_context *context; /* NULL without TLS */
	const char *name;            /* that the server's certificate must be of, or its address */
};

/**
 * Connects and shakes hands. Returns the socket, or -1 and why in error->message (EIO, ENOMEM).
 * `timeout_s` bounds the connecting, and each send and receive then and later. *tls is the
 * caller's to close; NULL without TLS. The server's bytes after the handshake are yet to come.
 */
int dial_open(const struct net_address *to, const struct dial_trust *trust, unsigned timeout_s,
              struct tls **tls, struct weir_error *error);

/** Appends a word of a command of RESP. */
void dial_add_word(struct buffer *out, const char *word);
/**
 * Sends `hello`, a command of RESP, and waits for its +OK. Why not is in error->message: EAUTH, the
 * server refuses it, with its words; EIO.
 */
int dial_greet(int fd, struct tls *tls, struct slice hello, struct weir_error *error);

/** Sends all of it through a blocking socket; false and errno. */
bool dial_send(int fd, struct slice bytes);

#endif
