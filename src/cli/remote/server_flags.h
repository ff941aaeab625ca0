/*
 * server_flags.h: reads the flags and environment variables by which a command reaches a server:
 * its address, the login, and TLS.
 */
#ifndef CLI_REMOTE_SERVER_FLAGS_H
#define CLI_REMOTE_SERVER_FLAGS_H

#include "cli/remote/credentials.h"
#include "cli/remote/tls_flags.h"
#include "client/server_address.h"

#define SERVER_RESP "127.0.0.1:6380"
#define SERVER_HTTP "127.0.0.1:8080"

/* For a command's table; `address` is the default. */
#define SERVER_FLAGS(address)                                                                      \
	{"server", "ADDR", "address of the server, HOST:PORT, unix:PATH or a URL (" address ")", 0,    \
	 "WEIR_SERVER"},                                                                               \
	    CREDENTIALS_FLAGS, TLS_FLAGS

#define SERVER_FLAG_COUNT (1 + CREDENTIALS_FLAG_COUNT + TLS_FLAG_COUNT)

/* For the usages of a command. */
#define SERVER_USE "[--server ADDR] [--user NAME] [--tls [--cacert FILE]]"

/* Zeroed at first. */
struct server_flags {
	const char *text; /* of the address */
	struct server_address address;
	struct credentials login;
	struct tls_flags trust;
};

/** Sets a flag by its index in SERVER_FLAGS. */
void server_flags_set(struct server_flags *flags, int flag, const char *value);

/** Whether --server or WEIR_SERVER is a URL. Call it before server_flags_open. */
bool server_flags_name_http(const struct server_flags *flags);

/**
 * Reads the environment and the files, and looks up the address, once all flags are set.
 * `address` is the default. Errors: those of server_address_parse, credentials_read and
 * tls_flags_open.
 */
int server_flags_open(struct server_flags *flags, const char *address, struct weir_error *error);
/** Also after an error of server_flags_open. */
void server_flags_close(struct server_flags *flags);

#endif
