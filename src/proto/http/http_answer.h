/*
 * http_answer.h: makes an HTTP answer of a reply: status, fields and body, for either version.
 */
#ifndef PROTO_HTTP_ANSWER_H
#define PROTO_HTTP_ANSWER_H

#include "base/buffer.h"
#include "proto/request.h"

/*
 * X(name, field, field of HTTP/2, varies): the fields except those about the body. `varies` marks
 * fields whose value differs in most answers, which HPACK should not index.
 */
#define HTTP_ANSWER_FIELDS(X)                                                                      \
	X(ALLOW, "Allow", "allow", false)                                                              \
	X(WWW_AUTHENTICATE, "WWW-Authenticate", "www-authenticate", false)                             \
	X(POLICY, "Content-Security-Policy", "content-security-policy", false)                         \
	X(FRAME_OPTIONS, "X-Frame-Options", "x-frame-options", false)                                  \
	X(TYPE_OPTIONS, "X-Content-Type-Options", "x-content-type-options", false)                     \
	X(REFERRER_POLICY, "Referrer-Policy", "referrer-policy", false)                                \
	X(CACHE_CONTROL, "Cache-Control", "cache-control", false)                                      \
	X(ACCEL_BUFFERING, "X-Accel-Buffering", "x-accel-buffering", false)                            \
	X(RATELIMIT_POLICY, "RateLimit-Policy", "ratelimit-policy", false)                             \
	X(RATELIMIT, "RateLimit", "ratelimit", true)                                                   \
	X(RETRY_AFTER, "Retry-After", "retry-after", true)                                             \
	X(PERMIT, "X-Weir-Permit", "x-weir-permit", true)                                              \
	X(RULE, "X-Weir-Rule", "x-weir-rule", false)                                                   \
	X(LIMIT, "X-Weir-Limit", "x-weir-limit", false)                                                \
	X(DECISION, "X-Weir-Decision", "x-weir-decision", true)

enum http_answer_name {
#define X(name, field, http2, varies) HTTP_ANSWER_##name,
	HTTP_ANSWER_FIELDS(X)
#undef X
	    HTTP_ANSWER_NAMES
};

struct http_answer_field {
	enum http_answer_name name;
	uint32_t len; /* of its value */
};

/* Enough for the values of any answer: the name of a limit or a rule has 64 bytes, with escapes
 * 192.
 */
#define HTTP_ANSWER_VALUES_MAX (1280 + REPLY_PERMIT_MAX)

struct http_answer {
	const char *status; /* "200 OK" */
	struct slice type;  /* Content-Type; data NULL if the answer has none */
	bool is_stream;     /* the body has no end */
	unsigned field_count;
	struct http_answer_field fields[HTTP_ANSWER_NAMES];
	struct buffer values; /* of the fields, one behind the other */
	struct buffer *body;  /* the buffer that the body is appended to */
	char own_status[sizeof "599 Denied"];
	char space[HTTP_ANSWER_VALUES_MAX]; /* the memory of `values` */
};

/** Makes the answer to `request`, and appends its body to `body`. */
void http_answer_make(struct http_answer *answer, const struct request *request,
                      const struct reply *reply, struct buffer *body);

#endif
