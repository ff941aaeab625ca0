/*
 * tls.h: encrypts and decrypts the bytes of a TLS connection; the caller sends and receives them.
 *
 * "Plain" bytes are the caller's, "wire" bytes are those of the socket. Connections share a context
 * and hold a reference to it.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "tls/context.h"

struct tls;

/*
 * The connections of a thread that were read recently. Each retains OpenSSL's buffers, about 34
 * KiB; all others free theirs after each record. When no entry is free, only every
 * TLS_RECENT_MISSES-th read of another connection replaces the oldest entry. If each did,
 * connections in excess of the entries would replace each other in turn, and none would find its
 * buffers again. Zeroed at first; must outlive its connections.
 */
#define TLS_RECENT        64
#define TLS_RECENT_MISSES 16

struct tls_recent {
	struct tls *connections[TLS_RECENT]; /* NULL in free entries */
	unsigned oldest;                     /* the index of the entry to replace next */
	unsigned rejected_attempts;          /* to add a connection while no entry was free */
};

/**
 * Opens the client's side of a connection. The server's certificate must be for `host`, a name or
 * an address. Appends the first message of the handshake to `wire`. 0 or ENOMEM.
 */
int tls_open(struct tls **out, struct tls_context *context, const char *host, struct buffer *wire);
/** Opens the server's side of a connection. Only the thread of `recent` may use it. 0 or ENOMEM. */
int tls_accept(struct tls **out, struct tls_context *context, struct tls_recent *recent);
/** NULL does nothing. */
void tls_close(struct tls *tls);

/**
 * Decrypts received `bytes`: appends to `plain`, and appends bytes to send, such as those of the
 * handshake, to `wire`. Returns 0, or EIO if the connection has failed: tls_error says why, and
 * `wire` may have an alert for the peer.
 */
int tls_decrypt(struct tls *tls, struct slice bytes, struct buffer *plain, struct buffer *wire);
/** Whether the handshake is done and the certificate accepted; tls_encrypt needs that. */
bool tls_is_ready(const struct tls *tls);
/** Whether a record has arrived in part. */
bool tls_has_partial(const struct tls *tls);
/** Whether the peer has ended its output (close_notify). */
bool tls_has_ended(const struct tls *tls);
/** Ends the output to the peer (close_notify). */
void tls_send_end(struct tls *tls, struct buffer *wire);
/**
 * Calls `found` with each name in the peer's certificate, until `found` returns true: the subject's
 * common name, and the DNS names, e-mail addresses and URIs among its alternative names. Calls it
 * for verified certificates only.
 */
void tls_each_name(const struct tls *tls, bool (*found)(void *context, const char *name),
                   void *context);
/** Encrypts `plain` and appends to `wire`. 0, or EIO as above. */
int tls_encrypt(struct tls *tls, struct slice plain, struct buffer *wire);
const char *tls_error(const struct tls *tls);

#endif
