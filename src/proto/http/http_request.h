/* http_request.h: one request on its way from HTTP to neutral. */
#ifndef PROTO_HTTP_CALL_H
#define PROTO_HTTP_CALL_H

#include "proto/http/http_session.h"

struct http_request {
	struct fill fill;
	const struct http_fields *fields;
	const char *base; /* of their values */
	struct http_header header;
	struct slice method, target, body;
	struct slice query; /* of the target, behind '?' */
	struct slice rest;  /* of the path, behind the route's */
};

/** Fills in the request that `call` is about, or its error. */
void http_read(struct http_request *call);
/** To be answered by `error`, in the words of fill->error. */
void http_refuse_as(struct fill *fill, enum http_error error);
/** The same for broken framing: HTTP1_BAD is told as `what`, at a byte of the request. */
void http_refuse_framing(struct fill *fill, enum http1_result result, const char *what, size_t at);
/** An item of a batch that can't be read is answered by the error of `item`. */
void http_refuse(struct fill *item);

/* In http_koala.c. For routes, see struct http_route. */
int http_read_browse(struct http_request *call);
int http_read_update(struct http_request *call);
int http_read_feedback(struct http_request *call);
int http_read_value(struct http_request *call);
int http_read_multi_browse(struct http_request *call);
int http_read_alive(struct http_request *call);
int http_read_dump(struct http_request *call);

#endif
