/*
 * url.h: reads the URL of a Redis, a cluster or a set of Sentinels.
 *
 *     redis://[user:password@]host[:port][/database]
 *     redis+unix://[user:password@]/path[?db=database]
 *     redis-cluster://[user:password@]host[:port],host[:port],…
 *     redis+sentinel://[user:password@]host[:port],host[:port],…/name[/database]
 *
 * The hosts of redis+sentinel:// are Sentinels, which know the master by that name. User and
 * password are the master's; those of the Sentinels are the parameters `sentinel_user=` and
 * `sentinel_password=` after a `?`. `valkey` may stand for `redis` in all of these.
 *
 * rediss://, rediss-cluster:// and rediss+sentinel:// use TLS, and verify certificate and name by
 * the system's store. After a `?` they accept `ca=FILE` (the authorities to trust instead),
 * `cert=FILE` and `key=FILE` (the client's certificate), in PEM. `&` separates parameters. Without
 * a user, `:password@` is the password of the default user. %XX stands for a byte in user,
 * password, paths and the master's name.
 */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#define REDIS_PORT      6379
#define REDIS_SENTINEL_PORT 26379
#define REDIS_HOST_MAX  255
#define REDIS_HOSTS_MAX 64

struct tls_context;

struct redis_host {
	/* An address or a name; of IPv6 without brackets. A name that begins with a slash is a Unix
	 * socket. */
	char name[REDIS_HOST_MAX + 1];
	uint16_t port; /* of a Unix socket 0 */
};

struct redis_url {
	bool tls;
	bool cluster;
	unsigned database;        /* 0 in a cluster */
	char *user, *password;    /* or NULL; never a user without a password */
	char *master_name; /* by this name Sentinels know the master; NULL if no hosts are Sentinels */
	char *sentinel_user, *sentinel_password; /* as user and password */
	struct tls_context *trust;  /* with `tls`: by which certificates are verified; else NULL */
	struct redis_host *hosts; /* one, some nodes of the cluster, or Sentinels */
	size_t host_count;
	char *shown; /* the URL without users and passwords: for logs, listings and errors */
};

#define REDIS_HOST_TEXT_MAX (REDIS_HOST_MAX + 8)

/** Writes host:port, or the path of a socket. `out` has room for REDIS_HOST_TEXT_MAX bytes. */
void redis_host_write(const struct redis_host *host, char *out);

/**
 * EINVAL, ERANGE, ENOMEM, EIO (a file that can't be read); no message holds a password. Free
 * with redis_url_free.
 */
int redis_url_read(const char *text, struct redis_url *out, struct weir_error *error);
void redis_url_free(struct redis_url *url);

#endif
