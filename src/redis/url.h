/*
 * url.h: where a Redis is.
 *
 *     redis://[user:password@]host[:port][/database]
 *     redis-cluster://[user:password@]host[:port],host[:port],…
 *
 * rediss:// and rediss-cluster:// go through TLS, and verify certificate and name by the system's
 * store. Behind a `?` they take `ca=FILE` (the authorities to trust instead), `cert=FILE` and
 * `key=FILE` (our own certificate), in PEM, joined by `&`. Without a user, `:password@` is that
 * of the default user. %XX stands for a byte in user, password and files.
 */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#define REDIS_PORT      6379
#define REDIS_HOST_MAX  255
#define REDIS_HOSTS_MAX 64

struct tls_context;

struct redis_host {
	char name[REDIS_HOST_MAX + 1]; /* an address or a name; of IPv6 without brackets */
	uint16_t port;
};

struct redis_url {
	bool tls;
	bool cluster;
	unsigned database;        /* 0 in a cluster */
	char *user, *password;    /* NULL: none; never one without a password */
	struct tls_context *trust;  /* with `tls`: by which certificates are verified; else NULL */
	struct redis_host *hosts; /* one, or some nodes of the cluster */
	size_t host_count;
	char *shown; /* the URL without user and password: for logs, listings and errors */
};

/** Whether a text is the URL of such a store. */
bool redis_url_is(const char *text);
/**
 * EINVAL, ERANGE, ENOMEM, EIO (a file that can't be read); no message holds a password. Free
 * with redis_url_free.
 */
int redis_url_read(const char *text, struct redis_url *out, struct weir_error *error);
void redis_url_free(struct redis_url *url);

#endif
