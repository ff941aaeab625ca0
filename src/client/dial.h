/* dial.h: opens a blocking connection to a server, with or without TLS, and logs in. */
#ifndef CLIENT_DIAL_H
#define CLIENT_DIAL_H

#include <weir/weir.h>

#include "net/address.h"
#include "tls/tls.h"

/* How the server's certificate is verified. Zeroed: without TLS. */
struct dial_tls {
	struct tls_context *context; /* NULL without TLS */
	const char *name;            /* the name or address that the certificate must be for */
};

/**
 * Connects and does the TLS handshake. Returns the socket, or -1 and the reason in error->message
 * (EIO, ENOMEM). `timeout_s` bounds the connecting and the handshake, and each send and receive from
 * then on. The caller closes *tls, which is NULL without TLS.
 */
int dial_open(const struct net_address *to, const struct dial_tls *trust, unsigned timeout_s,
              struct tls **tls, struct weir_error *error);

/** Appends an argument of a RESP command. */
void dial_add_argument(struct buffer *out, const char *word);
/**
 * Sends `login`, a RESP command, and waits for +OK. Errors: EAUTH with the server's message, EIO.
 */
int dial_log_in(int fd, struct tls *tls, struct slice login, struct weir_error *error);

/** Why the last call of a blocking socket failed, from errno. */
const char *dial_error_text(void);

/** Sends all bytes through a blocking socket. Returns false and sets errno if that fails. */
bool dial_send(int fd, struct slice bytes);

#endif
