/*
 * tls.h: TLS for a link, without input and output: a filter between its bytes and the wire's.
 *
 * A trust says by which authorities a server's certificate is verified; links share it.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "base/buffer.h"
#include "base/slice.h"

#include <weir/weir.h>

struct tls;
struct tls_trust;

/* In PEM. */
struct tls_files {
	char *ca;   /* NULL: the system's authorities */
	char *cert; /* with what follows it in its chain; NULL: none */
	char *key;  /* NULL: in the file of `cert` */
};

/** 0, EIO or EINVAL (the files), ENOMEM. */
int tls_trust_open(struct tls_trust **out, const struct tls_files *files,
                   struct weir_error *error);
/** NULL does nothing. */
void tls_trust_close(struct tls_trust *trust);

/** `host` is the name, or the address, that the certificate must be of. 0 or ENOMEM. */
int tls_open(struct tls **out, struct tls_trust *trust, const char *host);
/** NULL does nothing. */
void tls_close(struct tls *tls);

/**
 * `wire` has come: appends what it says to `plain`. 0, or EIO: the connection is of no use,
 * tls_error says why.
 */
int tls_in(struct tls *tls, struct slice wire, struct buffer *plain);
/** Whether the certificate was accepted: only then is tls_write called. */
bool tls_is_ready(const struct tls *tls);
/** Encrypts `plain`. 0, or EIO as above. */
int tls_write(struct tls *tls, struct slice plain);
/** Appends the bytes that are to be sent. */
void tls_out(struct tls *tls, struct buffer *wire);
const char *tls_error(const struct tls *tls);

#endif
