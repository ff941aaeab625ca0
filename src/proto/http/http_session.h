/* http_session.h: defines the state of an HTTP connection, and the errors and flags of answers. */
#ifndef PROTO_HTTP_SESSION_H
#define PROTO_HTTP_SESSION_H

#include "proto/codec.h"
#include "proto/fill.h"
#include "proto/http/http1.h"
#include "proto/http/http_route.h"

struct http2;

struct http_session {
	struct codec_bounds bounds;
	bool is_http1;       /* true once the first bytes have shown it */
	struct http2 *http2; /* NULL unless the connection speaks HTTP/2 */
	struct http1_reader reader;
};

/* X(name, status and phrase, code) for each error. */
#define HTTP_ERROR_LIST(X)                                                                         \
	X(BAD_REQUEST, "400 Bad Request", "bad_request")                                               \
	X(COST, "400 Bad Request", "cost_too_large")                                                   \
	X(TOO_LONG, "400 Bad Request", "too_long")                                                     \
	X(UNSUPPORTED, "400 Bad Request", "unsupported")                                               \
	X(UNAUTHORIZED, "401 Unauthorized", "unauthorized")                                            \
	X(NOT_FOUND, "404 Not Found", "not_found")                                                     \
	X(UNKNOWN_LIMIT, "404 Not Found", "unknown_limit")                                             \
	X(UNKNOWN_RULE, "400 Bad Request", "unknown_rule")                                             \
	X(FORBIDDEN, "403 Forbidden", "forbidden")                                                     \
	X(PERMIT, "404 Not Found", "permit_not_held")                                                  \
	X(METHOD, "405 Method Not Allowed", "method_not_allowed")                                      \
	X(BODY_LONG, "413 Content Too Large", "body_too_large")                                        \
	X(TARGET_LONG, "414 URI Too Long", "target_too_long")                                          \
	X(HEADER_LONG, "431 Request Header Fields Too Large", "header_too_large")                      \
	X(FIELDS, "422 Unprocessable Content", "bad_request")                                          \
	X(PROXY, "500 Internal Server Error", "forbidden") /* a proxy that may not ask */              \
	X(INTERNAL, "500 Internal Server Error", "internal_error")                                     \
	X(CODING, "501 Not Implemented", "unknown_transfer_coding")                                    \
	X(MEMORY, "503 Service Unavailable", "out_of_memory")                                          \
	X(TOO_MANY_CONNECTIONS, "503 Service Unavailable", "too_many_connections")                     \
	X(STORE, "503 Service Unavailable", "store_failure")                                           \
	X(VERSION, "505 HTTP Version Not Supported", "unsupported_http_version")

/* request.reply_code of a REQUEST_LOCAL: the error to answer with; request.local_text is its
 * message. */
enum http_error {
#define X(name, status, code) HTTP_ERROR_##name,
	HTTP_ERROR_LIST(X)
#undef X
};

/* request.flags */
enum {
	HTTP_NO_BODY = 1,      /* reply without the body */
	HTTP_KEEP_ALIVE = 2,   /* HTTP/1.0: say that the connection stays */
	HTTP_THROTTLECRAB = 4, /* errors as throttlecrab has them */
	HTTP_KOALA = 8,        /* answers and errors as Koala has them */
};

/* Estimated bytes of the reply to an item of a batch. */
#define HTTP_ITEM_SIZE 256

/* request.detail: for a 405 the allowed methods; for /auth the status of denials, or 0. */

/**
 * Fills in the attributes of `wanted` that a proxied request has, from its header and from the
 * `query` of the visitor's URL.
 */
int http_forwarded_attributes(struct fill *fill, const struct forwarded_list *wanted,
                              const struct http_header *header, struct slice query);

/** The HTTP error for a status of the engine or of fill.h. */
enum http_error http_error_of(int status);
/** The same by throttlecrab's rules, where ENOTFOUND means a missing field. */
enum http_error http_throttlecrab_error_of(int status);

/* In http_koala_reply.c. */

/** Appends the body of an answer to a request of Koala's routes; returns the status. */
const char *http_koala_add_body(const struct request *request, const struct reply *reply,
                                struct buffer *out);
/** Appends the body of an error. */
void http_koala_add_error(struct buffer *out, enum http_error error, struct slice message);
/** Appends the text before the body of an item's answer; the caller appends a brace after it. */
void http_koala_begin_item(struct buffer *out, const struct request *item);

/** Appends the answer in the form of HTTP/1. */
void http1_append_answer(const struct request *request, const struct reply *reply,
                         struct buffer *out);

#endif
