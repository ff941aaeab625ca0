/* trust.h: the flags by which a command speaks TLS to a server. */
#ifndef CLI_TLS_FLAGS_H
#define CLI_TLS_FLAGS_H

#include <stdbool.h>

#include "base/network/ip.h"
#include "load/dial.h"
#include "net/address.h"

/* For a command's table. Named as redis-cli's. */
#define TLS_FLAGS                                                                                  \
	{"tls", NULL, "speak TLS", 0, NULL},                                                           \
	    {"cacert", "FILE", "with --tls: who signs servers, in PEM (the system's authorities)", 0,  \
	     NULL},                                                                                    \
	    {"cert", "FILE", "with --tls: a certificate to show, in PEM", 0, NULL},                    \
	    {"key", "FILE", "its key, in PEM (in the file of --cert)", 0, NULL},                       \
	{                                                                                              \
		"sni", "NAME", "with --tls: name in the server's certificate (the host of --server)", 0,   \
		    NULL                                                                                   \
	}

/* Zeroed at first. */
struct tls_flags {
	bool is_wanted;
	struct tls_files files;
	struct dial_tls dial;
	char host[IP_TEXT_MAX + 1];
};

/** Takes a flag, by its place in TLS_FLAGS. */
void tls_flags_set(struct tls_flags *trust, int flag, const char *value);

/** `server` was written for `address`. Reads the files: EIO, EINVAL, ENOMEM. */
int tls_flags_open(struct tls_flags *trust, const char *server, const struct net_address *address,
                   struct weir_error *error);
void tls_flags_close(struct tls_flags *trust);

#endif
