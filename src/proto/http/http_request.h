/* http_request.h: turns an HTTP request of either version into a neutral request. */
#ifndef PROTO_HTTP_REQUEST_H
#define PROTO_HTTP_REQUEST_H

#include "proto/http/http_session.h"

struct http_request {
	struct fill fill;
	const struct http_fields *fields;
	const char *head_start; /* the offsets in `fields` count from here */
	struct http_header header;
	struct slice method, target, body;
	struct slice query;     /* the part of the target after '?' */
	struct slice path_rest; /* the part of the path after the route's */
};

/** Fills in http->fill.request from the other members, or with an error. */
void http_read_request(struct http_request *http);
/** Makes the request one that is answered by `error` with the message of fill->error. */
void http_refuse_as(struct fill *fill, enum http_error error);
/** The same for broken framing. For HTTP1_BAD the message is `why`, at byte `at` of the request. */
void http_refuse_framing(struct fill *fill, enum http1_result result, const char *why, size_t at);
/** The same for an item of a batch; the error is chosen by the status of fill->error. */
void http_refuse_by_status(struct fill *item);

/** Decodes %XX and '+' in a parameter of a query. Returns 0, or a status with an error set. */
int http_decode_parameter(struct fill *fill, struct slice *name, struct slice *value);

/* In http_listing.c. */
int http_read_top(struct http_request *http);
int http_read_denials(struct http_request *http);
int http_read_stats(struct http_request *http);
int http_read_events(struct http_request *http);

/* In http_koala.c. For routes, see struct http_route. */
int http_read_browse(struct http_request *http);
int http_read_update(struct http_request *http);
int http_read_feedback(struct http_request *http);
int http_read_value(struct http_request *http);
int http_read_multi_browse(struct http_request *http);
int http_read_alive(struct http_request *http);
int http_read_dump(struct http_request *http);

#endif
