/*
 * tls.h: TLS without input and output: what stands between an owner's bytes and the wire's.
 *
 * Connections share a context, and keep it for as long as they need it.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "tls/context.h"

struct tls;

/*
 * Connections of a thread that were read lately. Each keeps OpenSSL's buffers, about 34 KiB; all
 * others give theirs back after each record. When no place is free, one in TLS_RECENT_MISSES reads
 * of other connections takes the oldest. If each did, more connections than places would take them
 * by turns, and none would find its buffers again. Zeroed at first; it must outlive its
 * connections.
 */
#define TLS_RECENT        64
#define TLS_RECENT_MISSES 16

struct tls_recent {
	struct tls *places[TLS_RECENT];
	unsigned next; /* the place that was taken the longest ago */
	unsigned misses;
};

/**
 * `host` is the name, or the address, that the certificate must be of. Appends the first words of
 * the client to `wire`. 0 or ENOMEM.
 */
int tls_open(struct tls **out, struct tls_context *context, const char *host, struct buffer *wire);
/** The server's side of a connection, for the thread of `recent` alone. 0 or ENOMEM. */
int tls_accept(struct tls **out, struct tls_context *context, struct tls_recent *recent);
/** NULL does nothing. */
void tls_close(struct tls *tls);

/**
 * `bytes` have come: appends what they say to `plain`, and what is to be sent to `wire`. 0, or EIO:
 * the connection is of no use, tls_error says why, and `wire` may tell the peer.
 */
int tls_decrypt(struct tls *tls, struct slice bytes, struct buffer *plain, struct buffer *wire);
/** Whether the certificate was accepted: only then is tls_encrypt called. */
bool tls_is_ready(const struct tls *tls);
/** Whether it has the beginning of a record, and waits for the rest. */
bool tls_has_partial(const struct tls *tls);
/** Whether the peer has said that it sends no more. */
bool tls_has_ended(const struct tls *tls);
/** Says that to the peer. */
void tls_send_end(struct tls *tls, struct buffer *wire);
/**
 * Calls `found` with each name in the peer's certificate, which was verified: the subject's common
 * name, and DNS names, e-mail addresses and URIs that it stands for as well. Until it returns true.
 */
void tls_each_name(const struct tls *tls, bool (*found)(void *context, const char *name),
                   void *context);
/** Encrypts `plain`. 0, or EIO as above. */
int tls_encrypt(struct tls *tls, struct slice plain, struct buffer *wire);
const char *tls_error(const struct tls *tls);

#endif
