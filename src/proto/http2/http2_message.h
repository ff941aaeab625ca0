/*
 * http2_message.h: gathers the header of a stream's request, and makes a request of the header and
 * the body.
 */
#ifndef PROTO_HTTP2_MESSAGE_H
#define PROTO_HTTP2_MESSAGE_H

#include "proto/codec.h"
#include "proto/http/http1.h"

#define HTTP2_METHOD_MAX 16

/* Zeroed except for `error`: nothing has arrived. */
struct http2_message {
	enum http1_result error;         /* HTTP1_MESSAGE: no error */
	const char *error_text;          /* of HTTP1_BAD */
	struct buffer header;            /* see http_header_add */
	struct buffer body;              /* filled by http2.c */
	struct http_span method, target; /* in `header` */
	struct http_fields fields;       /* of `header` */
	size_t header_bytes;             /* as HTTP/1 would send them */
};

/** Empties the message for the next request; keeps its memory if that is small. */
void http2_message_clear(struct http2_message *message);

/** The bytes of memory that the message uses. */
size_t http2_message_size(const struct http2_message *message);
void http2_message_free(struct http2_message *message);
/** Adds a field of the header, or a pseudo-header. */
void http2_message_add(struct http2_message *message, struct slice name, struct slice value);
/** Whether the client waits for 100 Continue before it sends the body. The header is complete. */
bool http2_message_awaits_continue(const struct http2_message *message);
/** Sets the error to answer with, unless there is one. */
void http2_message_refuse(struct http2_message *message, enum http1_result error, const char *text);
static inline bool http2_message_is_refused(const struct http2_message *message)
{
	return message->error != HTTP1_MESSAGE;
}
/** Fills in the request from a copy in the arena, since the stream may end before the answer. */
void http2_message_read(const struct http2_message *message, const struct codec_bounds *bounds,
                        struct arena *arena, struct request *request);

#endif
