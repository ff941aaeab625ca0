/* tls_flags.h: reads the flags by which a command connects to a server with TLS. */
#ifndef CLI_REMOTE_TLS_FLAGS_H
#define CLI_REMOTE_TLS_FLAGS_H

#include <stdbool.h>

#include "client/dial.h"

/* For a command's table. Their names are those of redis-cli. */
#define TLS_FLAGS                                                                                  \
	{"tls", NULL, "speak TLS", 0, NULL},                                                           \
	    {"cacert", "FILE", "with --tls: authorities that sign servers, in PEM (the system's)", 0,  \
	     NULL},                                                                                    \
	    {"cert", "FILE", "with --tls: client certificate, in PEM", 0, NULL},                       \
	    {"key", "FILE", "its key, in PEM (in the file of --cert)", 0, NULL},                       \
	{                                                                                              \
		"sni", "NAME", "with --tls: name in the server's certificate (the host of --server)", 0,   \
		    NULL                                                                                   \
	}

#define TLS_FLAG_COUNT 5

/* Zeroed at first. */
struct tls_flags {
	bool is_wanted;
	struct tls_files files;
	struct dial_tls dial;
};

/** Sets a flag by its index in TLS_FLAGS. */
void tls_flags_set(struct tls_flags *flags, int flag, const char *value);

/**
 * Reads the files. Without --sni the certificate must be for `host`, which is used until
 * tls_flags_close. Errors: EIO, EINVAL, ENOMEM.
 */
int tls_flags_open(struct tls_flags *flags, const char *host, struct weir_error *error);
void tls_flags_close(struct tls_flags *flags);

#endif
