/* credentials.h: the flags and variables by which a command logs in to a server. */
#ifndef CLI_CREDENTIALS_H
#define CLI_CREDENTIALS_H

#include <weir/weir.h>

#include "base/buffer.h"

/* For a command's table. A secret is no value of a flag: other users can read those. */
#define CREDENTIALS_FLAGS                                                                          \
	{"user", "NAME", "log in as this user, by WEIR_PASSWORD or WEIR_TOKEN", 0, NULL},              \
	{                                                                                              \
		"login", "FILE", "log in by what is in it instead: a token, or NAME:SECRET", 0, NULL       \
	}

#define CREDENTIALS_FLAG_COUNT 2

/* For a command's variables. */
#define CREDENTIALS_VARIABLES                                                                      \
	{"WEIR_PASSWORD", "the password of --user"},                                                   \
	{                                                                                              \
		"WEIR_TOKEN", "a token to log in by, with --user or without"                               \
	}

/* Zeroed: none. */
struct credentials {
	const char *path; /* of --login */
	struct buffer text;
	const char *user;   /* NULL for a token, which names the user */
	const char *secret; /* NULL if there is no login */
};

/** Takes a flag, by its place in CREDENTIALS_FLAGS. */
void credentials_set(struct credentials *credentials, int flag, const char *value);

/**
 * Reads the secret when all flags are known: from the file of --login, its first line, where only a
 * token has no colon; or else from the variables. EINVAL, EIO, ELONG, ENOMEM.
 */
int credentials_read(struct credentials *credentials, struct weir_error *error);

/** Also from memory. */
void credentials_free(struct credentials *credentials);

/* Both add nothing without a login, and leave no copies of it behind. Free `out` by buffer_wipe. */

/** Appends the command of RESP that logs in. */
void credentials_add_auth(const struct credentials *credentials, struct buffer *out);
/** Appends the field of HTTP that logs in at `path`, with its end of line. */
void credentials_add_field(const struct credentials *credentials, const char *path,
                           struct buffer *out);

#endif
