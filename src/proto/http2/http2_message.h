/*
 * http2_message.h: the request of one stream, as far as it is here.
 *
 * The routes read it as they read one of HTTP/1.
 */
#ifndef PROTO_HTTP2_MESSAGE_H
#define PROTO_HTTP2_MESSAGE_H

#include "proto/codec.h"
#include "proto/http/http1.h"

#define HTTP2_METHOD_MAX 16

/* Zero but for `error`: none of it is here. */
struct http2_message {
	enum http1_result error; /* HTTP1_MESSAGE: none yet */
	const char *what;        /* of HTTP1_BAD */
	struct buffer header;    /* see http_header_add */
	struct buffer body;
	struct http_span method, target; /* in `header` */
	struct http_fields fields;       /* of `header` */
	size_t bytes;                    /* of the header, as HTTP/1 would send it */
};

/** The next request follows; what is small of its memory stays. */
void http2_message_clear(struct http2_message *message);

/** The memory that it takes. */
size_t http2_message_size(const struct http2_message *message);
void http2_message_free(struct http2_message *message);
/** A field of the header, or a pseudo-header. */
void http2_message_add(struct http2_message *message, struct slice name, struct slice value);
/** Whether the client waits for 100 Continue before it sends the body. Its header is complete. */
bool http2_message_awaits_continue(const struct http2_message *message);
/** It will be answered by this error, unless it has one. */
void http2_message_refuse(struct http2_message *message, enum http1_result error, const char *what);
/** Fills in the request. The stream may end before it is answered, so the arena gets a copy. */
void http2_message_read(const struct http2_message *message, const struct codec_bounds *bounds,
                        struct arena *arena, struct request *request);

#endif
