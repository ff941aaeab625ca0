/*
 * digest_keys.h: writes digests, which stand for the names of keys where these must not be shown,
 * and has the hash keys by which they are made.
 *
 * Servers that share a Redis have the same digest for a name: its hash key is derived from their
 * secret there (permit_secret.h). A server that starts while the Redis is unavailable has no secret
 * of it yet. Therefore the derived hash key is also in a file beside the files of denials,
 * PATH.redis-secret, and is used until the Redis answers. It signs no permits.
 *
 * Without a Redis, the hash key is derived from a secret of this server: that of its table, or of
 * PATH.secret if the table is in memory (denial_secret.h).
 *
 * Any thread may write digests.
 */
#ifndef SERVER_DIGEST_KEYS_H
#define SERVER_DIGEST_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/access/permit_secret.h"
#include "server/admin/event_log.h"

#define KEY_DIGEST_TEXT 17 /* 16 hexadecimal digits, and a NUL */
#define DIGEST_KEYS_MAX (PERMIT_SECRETS_MAX + 2)

struct digest_keys {
	const struct permit_secrets *secrets; /* of the Redis */
	struct hash_key own;
	struct hash_key remembered; /* that of the Redis in an earlier process */
	bool has_remembered;
	bool prefers_remembered; /* this server has a Redis */
	/* of the server's thread: */
	char *path; /* PATH.redis-secret, or NULL without files of denials */
	size_t saved_count; /* so many secrets of the Redis were known when the file was written */
	struct log *log;
};

/** Sets the hash key that is derived from a secret of this server. */
void digest_keys_set_own(struct digest_keys *keys, const struct hash_key *secret);
/**
 * Reads the remembered hash key beside the files of denials. If there is another file in its place,
 * logs a warning. Returns 0 or ENOMEM.
 */
int digest_keys_open(struct digest_keys *keys, const char *denials_path, bool has_redis,
                     struct log *log);
void digest_keys_close(struct digest_keys *keys);
/** Writes the file if the Redis has another secret. Called by the server's thread. */
void digest_keys_remember(struct digest_keys *keys);

/** Writes the digest of a key by the present hash key. */
void digest_keys_write(const struct digest_keys *keys, struct slice key, char out[KEY_DIGEST_TEXT]);
/** How many hash keys may have made a digest, at most DIGEST_KEYS_MAX. */
size_t digest_keys_count(const struct digest_keys *keys);
/** Writes the digest by the i-th of them, beginning with the present one. */
void digest_keys_write_by(const struct digest_keys *keys, size_t i, struct slice key,
                          char out[KEY_DIGEST_TEXT]);

#endif
