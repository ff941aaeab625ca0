/* digest_keys.c: writes digests of keys, and remembers by which hash key (digest_keys.h). */
#include "server/denials/digest_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/new_file.h"
#include "server/denials/denial_path.h"
#include "server/denials/denial_secret.h"

static struct hash_key derive_hash_key(const struct hash_key *secret)
{
	static const char salt[] = "key digest"; /* no other text is hashed with the secret under it */

	return hash_mac(secret, salt, sizeof salt);
}

void digest_keys_set_own(struct digest_keys *keys, const struct hash_key *secret)
{
	keys->own = derive_hash_key(secret);
}

static void warn(const struct digest_keys *keys, const char *why)
{
	log_event(keys->log, LOG_WARNING, "digests_not_kept", {"file", keys->path}, {"message", why});
}

int digest_keys_open(struct digest_keys *keys, const char *denials_path, bool has_redis,
                     struct log *log)
{
	const char *why = NULL;
	struct stat info;

	keys->log = log;
	keys->prefers_remembered = has_redis;
	if (asprintf(&keys->path, "%s.redis-secret", denials_path) < 0) {
		keys->path = NULL;
		return WEIR_ENOMEM;
	}
	if (lstat(keys->path, &info) == 0)
		why = denial_secret_read(keys->path, &keys->remembered);
	else if (errno != ENOENT)
		why = strerror(errno);
	else
		return WEIR_OK;
	keys->has_remembered = !why;
	if (why)
		warn(keys, why);
	return WEIR_OK;
}

void digest_keys_close(struct digest_keys *keys)
{
	free(keys->path);
}

/*
 * Replaces the file. Nothing waits for the disk: a file that a crash of the system has damaged is
 * replaced when the Redis answers next.
 */
static const char *write_file(const struct digest_keys *keys, const struct hash_key *hash_key)
{
	struct new_file file;
	char text[PERMIT_SECRET_TEXT];
	const char *why = NULL;

	permit_secret_write(hash_key, text);
	text[PERMIT_SECRET_TEXT - 1] = '\n'; /* in place of the NUL */
	if (!new_file_open(&file, keys->path))
		return strerror(errno);
	if (write(file.fd, text, sizeof text) != (ssize_t)sizeof text)
		why = "no space left for the whole secret";
	else if (rename(file.temporary_path, keys->path) != 0)
		why = strerror(errno);
	new_file_close(&file);
	return why;
}

void digest_keys_remember(struct digest_keys *keys)
{
	size_t count = permit_secrets_count(keys->secrets) - 1;
	struct hash_key newest;
	const char *why = NULL;

	if (!keys->path || count == keys->saved_count)
		return;
	keys->saved_count = count;
	newest = derive_hash_key(permit_secrets_at(keys->secrets, 0, NULL));
	if (!keys->has_remembered || newest.k0 != keys->remembered.k0 ||
	    newest.k1 != keys->remembered.k1)
		why = write_file(keys, &newest);
	if (why)
		warn(keys, why);
}

static struct hash_key hash_key_at(const struct digest_keys *keys, size_t i)
{
	size_t count = permit_secrets_count(keys->secrets) - 1;
	bool is_remembered;

	if (i < count)
		return derive_hash_key(permit_secrets_at(keys->secrets, i, NULL));
	is_remembered = keys->has_remembered && (i == count) == keys->prefers_remembered;
	return is_remembered ? keys->remembered : keys->own;
}

size_t digest_keys_count(const struct digest_keys *keys)
{
	return permit_secrets_count(keys->secrets) + keys->has_remembered;
}

void digest_keys_write_by(const struct digest_keys *keys, size_t i, struct slice key,
                          char out[KEY_DIGEST_TEXT])
{
	struct hash_key hash_key = hash_key_at(keys, i);

	snprintf(out, KEY_DIGEST_TEXT, "%016llx",
	         (unsigned long long)hash_bytes(&hash_key, key.data, key.len));
}

void digest_keys_write(const struct digest_keys *keys, struct slice key, char out[KEY_DIGEST_TEXT])
{
	digest_keys_write_by(keys, 0, key, out);
}
