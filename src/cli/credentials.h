/* credentials.h: how a command logs in to a server. */
#ifndef CLI_CREDENTIALS_H
#define CLI_CREDENTIALS_H

#include <weir/weir.h>

#include "base/buffer.h"

/* For a command's table. */
#define CREDENTIALS_FLAG                                                                           \
	{                                                                                              \
		"login", "FILE", "log in by what is in it: a token, or NAME:SECRET", 0, NULL               \
	}

/* Zeroed: none. */
struct credentials {
	struct buffer text;
	const char *user; /* NULL: a token, which says who it is */
	const char *secret;
};

/** Takes the first line of a file; only a token has no colon. EIO, ELONG, ENOMEM. */
int credentials_read(struct credentials *credentials, const char *path, struct weir_error *error);
/** Also from memory. */
void credentials_free(struct credentials *credentials);

/** Appends the command of RESP that logs in. */
void credentials_add_auth(const struct credentials *credentials, struct buffer *out);
/** Appends the field of HTTP that logs in, with its end of line. */
void credentials_add_field(const struct credentials *credentials, struct buffer *out);

#endif
