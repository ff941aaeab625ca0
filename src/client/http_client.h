/* http_client.h: sends one HTTP/1.1 request to a server and reads the reply. */
#ifndef CLIENT_HTTP_CLIENT_H
#define CLIENT_HTTP_CLIENT_H

#include "client/connection.h"
#include "client/http_reply.h"

struct http_call {
	const char *method, *path; /* the path with its query, both in the form of HTTP */
	struct slice fields;       /* lines of header fields, such as a login; or empty */
	struct slice body;         /* JSON; or empty */
	unsigned connect_s;        /* the most seconds for connecting, and for each send */
	unsigned timeout_s;        /* the most seconds until the reply has ended; 0 for no bound */
	size_t body_max;           /* of the reply */
};

/**
 * Opens a connection, sends the request, and reads the reply, which the caller frees in any case.
 * Errors: EIO, ENOMEM, and those of http_reply_read.
 */
int http_client_call(const struct server_address *server, const struct dial_tls *trust,
                     const struct http_call *call, struct http_reply *reply,
                     struct weir_error *error);

/** Appends the text to a path or query: all bytes but letters, digits and "-._~" as %HH. */
void http_client_add_encoded(struct buffer *out, struct slice text);

#endif
