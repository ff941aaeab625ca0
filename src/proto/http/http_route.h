/* http_route.h: describes the HTTP routes: path, methods, permission and kind of request. */
#ifndef PROTO_HTTP_ROUTE_H
#define PROTO_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "proto/request.h"

/* Methods, as a set. */
enum {
	METHOD_GET = 1,
	METHOD_HEAD = 2,
	METHOD_POST = 4,
	METHOD_PUT = 8,
	METHOD_OTHER = 16,
	METHOD_READ = METHOD_GET | METHOD_HEAD,
	METHOD_KOALA = METHOD_READ | METHOD_POST | METHOD_PUT,
	METHOD_ANY = METHOD_KOALA | METHOD_OTHER,
};

struct http_request;

struct http_route {
	struct slice path; /* the whole path; a prefix if it ends in '/' and is longer */
	enum request_class class;
	unsigned methods;
	enum request_kind kind;
	enum request_op op;
	int (*read)(struct http_request *http); /* 0 or a status */
	bool is_koala; /* may lack a Host, and may have more slashes around the path */
};

/** All routes; sets *n to their number. */
const struct http_route *http_routes(size_t *n);

/** Whether a request of HTTP/1.1 for this target may lack a Host. */
bool http_may_lack_host(struct slice target);

#endif
