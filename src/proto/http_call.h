/* http_call.h: one request on its way from HTTP to neutral. */
#ifndef PROTO_HTTP_CALL_H
#define PROTO_HTTP_CALL_H

#include "proto/http_session.h"

struct http_call {
	struct fill fill;
	const struct http1_reader *reader;
	struct slice data;
	struct http1_message message;
	struct slice query; /* of the target, behind '?' */
	struct slice rest;  /* of the path, behind the route's */
};

/** An item of a batch that can't be read is answered by the error of `item`. */
void http_refuse(struct fill *item);

/* Of http_koala.c: for routes, see struct http_route. */
int http_read_browse(struct http_call *call);
int http_read_each(struct http_call *call);
int http_read_feedback(struct http_call *call);
int http_read_value(struct http_call *call);
int http_read_browses(struct http_call *call);
int http_read_alive(struct http_call *call);
int http_read_dump(struct http_call *call);

#endif
