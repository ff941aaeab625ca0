/* connection.h: a blocking connection of a command to a server, with or without TLS. */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include <stdint.h>

#include <weir/weir.h>

#include "base/buffer.h"
#include "client/dial.h"
#include "client/server_address.h"

/* Zeroed at first; one thread uses it. */
struct client_connection {
	int fd;
	struct tls *tls;      /* NULL without TLS */
	struct buffer plain;  /* with TLS: decrypted bytes that are not read yet */
	uint64_t deadline_ns; /* of os_monotonic_ns, for receiving; 0 for none */
};

/**
 * Connects to the first address that accepts, and does the TLS handshake. `timeout_s` bounds the
 * connecting, and each send. Errors: EIO, ENOMEM.
 */
int client_connect(struct client_connection *conn, const struct server_address *server,
                   const struct dial_tls *trust, unsigned timeout_s, struct weir_error *error);
/** Also after an error of client_connect. */
void client_disconnect(struct client_connection *conn);

/** Sends all bytes. Returns false if that fails; client_error_text tells why. */
bool client_send(struct client_connection *conn, struct slice bytes);

/**
 * Waits for bytes until the deadline. Returns their number, 0 at the end of the connection, or -1
 * and errno.
 */
ssize_t client_receive(struct client_connection *conn, char *to, size_t size);

/** Why sending or receiving failed: of TLS, or of errno. */
const char *client_error_text(const struct client_connection *conn);

#endif
