/* credentials.h: reads the flags and environment variables by which a command logs in to a server.
 */
#ifndef CLI_REMOTE_CREDENTIALS_H
#define CLI_REMOTE_CREDENTIALS_H

#include <weir/weir.h>

#include "base/buffer.h"

/* For a command's table. A flag has no secret as its value, since other users can read arguments.
 */
#define CREDENTIALS_FLAGS                                                                          \
	{"user", "NAME", "log in as this user, by WEIR_PASSWORD or WEIR_TOKEN", 0, NULL},              \
	{                                                                                              \
		"login", "FILE", "log in with the content of this file: a token, or NAME:SECRET", 0, NULL  \
	}

#define CREDENTIALS_FLAG_COUNT 2

/* For a command's variables. */
#define CREDENTIALS_VARIABLES                                                                      \
	{"WEIR_PASSWORD", "the password of --user"},                                                   \
	{                                                                                              \
		"WEIR_TOKEN", "a token to log in by, with --user or without"                               \
	}

/* Zeroed: there is no login. */
struct credentials {
	const char *path; /* of --login */
	struct buffer text;
	const char *user;   /* NULL for a token, which identifies the user */
	const char *secret; /* NULL if there is no login */
};

/** Sets a flag by its index in CREDENTIALS_FLAGS. */
void credentials_set(struct credentials *credentials, int flag, const char *value);

/**
 * Reads the secret once all flags are set: from the first line of the file of --login, which is a
 * token if it has no colon; without --login from the environment. EINVAL, EIO, ELONG, ENOMEM.
 */
int credentials_read(struct credentials *credentials, struct weir_error *error);

/**
 * Returns the end of a message about an error of a server: how to log in, or "" if neither the
 * login nor the rights of the user are at fault. `message` is that of HTTP or RESP; `status` is
 * that of HTTP, or 0.
 */
const char *credentials_remedy(const char *message, int status);

/** Overwrites the secret in memory. */
void credentials_free(struct credentials *credentials);

/* Both append nothing without a login. Free `out` by buffer_wipe, since it contains the secret. */

/** Appends the RESP command that logs in. */
void credentials_add_auth(const struct credentials *credentials, struct buffer *out);
/** Appends the HTTP header line that logs in at `path`. */
void credentials_add_field(const struct credentials *credentials, const char *path,
                           struct buffer *out);

#endif
