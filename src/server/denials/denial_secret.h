/*
 * denial_secret.h: keeps a secret for digests of keys beside the files of denials, so that a key's
 * digest is the same after a restart: in PATH.secret, as 32 hexadecimal digits and a newline.
 *
 * A server whose table is in a file uses the secret of that table instead. Servers with one Redis
 * use the secret there, as soon as they know it (digest_keys.h). This secret signs no permits,
 * because a server that lost its counts at a restart must not accept the permits from before it.
 */
#ifndef SERVER_DENIAL_SECRET_H
#define SERVER_DENIAL_SECRET_H

#include "base/hash.h"
#include "server/admin/event_log.h"

/**
 * Reads the secret that belongs to the files of denials at `denials_path`. Makes the file with a
 * random secret if there is none; if that fails, logs a warning and leaves *secret alone. A file
 * that is not such a secret is an error. Returns 0, EIO or ENOMEM.
 */
int denial_secret_open(const char *denials_path, struct log *log, struct hash_key *secret,
                       struct weir_error *error);

/** Reads the secret in a file. Returns NULL, or what is wrong. */
const char *denial_secret_read(const char *path, struct hash_key *secret);

#endif
