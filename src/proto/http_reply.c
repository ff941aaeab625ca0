#include "proto/http_session.h"

#include "base/answer.h"
#include "base/number.h"
#include "base/when.h"
#include "proto/adhoc.h"
#include "proto/fill.h"

/* Holds any head: limits' names have 64 bytes at most. */
#define HEAD_MAX 1024

#define FIELD(name) ANSWER_FIELD(",", name)

#define JSON_TYPE  "application/json"
#define PLAIN_TYPE "text/plain; charset=utf-8"

enum http_verb http_error_of(int status)
{
	static const enum http_verb errors_of[] = {
	    [-WEIR_ENOMEM] = HTTP_ERROR_MEMORY,
	    [-WEIR_EINVAL] = HTTP_ERROR_BAD_REQUEST,
	    [-WEIR_ECOST] = HTTP_ERROR_COST,
	    [-WEIR_ERANGE] = HTTP_ERROR_BAD_REQUEST,
	    [-WEIR_ENOTFOUND] = HTTP_ERROR_UNKNOWN_LIMIT,
	    [-WEIR_ESYNTAX] = HTTP_ERROR_BAD_REQUEST,
	    [-WEIR_EIO] = HTTP_ERROR_INTERNAL,
	    [-WEIR_EUNSUPPORTED] = HTTP_ERROR_UNSUPPORTED,
	    [-WEIR_ELONG] = HTTP_ERROR_TOO_LONG,
	    [-WEIR_EFULL] = HTTP_ERROR_CROWDED,
	    [-WEIR_EPERM] = HTTP_ERROR_FORBIDDEN,
	    [-WEIR_ESTORE] = HTTP_ERROR_STORE,
	    [-WEIR_EAUTH] = HTTP_ERROR_UNAUTHORIZED,
	};
	size_t index = (size_t)-status;

	return index < sizeof errors_of / sizeof *errors_of ? errors_of[index] : HTTP_ERROR_INTERNAL;
}

enum http_verb http_crab_error_of(int status)
{
	return status == WEIR_ENOTFOUND                          ? HTTP_ERROR_FIELDS
	       : status == WEIR_EINVAL || status == WEIR_ERANGE ? HTTP_ERROR_INTERNAL
	                                                         : http_error_of(status);
}

static uint64_t seconds(uint64_t ns)
{
	return ceil_div(ns, NS_PER_S);
}

static uint64_t milliseconds(uint64_t ns)
{
	return ceil_div(ns, NS_PER_MS);
}

static struct buffer head_open(char *room)
{
	return (struct buffer){.data = room, .capacity = HEAD_MAX, .max = HEAD_MAX};
}

/* "HTTP/1.1 …" and what every reply has. */
static void head_start(struct buffer *head, const struct request *request, const char *status,
                       const char *type, size_t body_len)
{
	buffer_add_text(head, "HTTP/1.1 ");
	buffer_add_text(head, status);
	if (type) {
		buffer_add_text(head, "\r\nContent-Type: ");
		buffer_add_text(head, type);
	}
	buffer_add_text(head, "\r\nContent-Length: ");
	buffer_add_u64(head, body_len);
	buffer_add_text(head, request->close                     ? "\r\nConnection: close\r\n"
	                      : request->flags & HTTP_KEEP_ALIVE ? "\r\nConnection: keep-alive\r\n"
	                                                         : "\r\n");
}

/* Ends the head and puts it before the body, which was written first to know its length. */
static void head_finish(struct buffer *head, const struct request *request, struct buffer *out,
                        size_t body)
{
	size_t len;

	buffer_add(head, "\r\n", 2);
	if (request->flags & HTTP_NO_BODY)
		out->len = body;
	len = out->len - body;
	if (head->failed || !buffer_reserve(out, head->len)) {
		out->failed = true;
		return;
	}
	memmove(out->data + body + head->len, out->data + body, len);
	memcpy(out->data + body, head->data, head->len);
	out->len += head->len;
}

/* Whether a string of structured fields takes the byte as it is. */
static bool is_plain(unsigned char byte)
{
	return byte >= ' ' && byte <= '~' && byte != '%' && byte != '"' && byte != '\\';
}

/*
 * A name as a string of structured fields (RFC 9651), which know ASCII only: other bytes, and
 * '%', as %XX, so that different names stay different.
 */
static void add_sf_string(struct buffer *head, const char *text)
{
	static const char digits[] = "0123456789ABCDEF";

	buffer_add(head, "\"", 1);
	for (;; text++) {
		const char *begin = text;
		unsigned char byte;

		while (is_plain((unsigned char)*text))
			text++;
		buffer_add(head, begin, (size_t)(text - begin));
		byte = (unsigned char)*text;
		if (byte == '\0')
			break;
		if (byte == '"' || byte == '\\')
			buffer_add(head, (const char[]){'\\', *text}, 2);
		else
			buffer_add(head, (const char[]){'%', digits[byte >> 4], digits[byte & 15]}, 3);
	}
	buffer_add(head, "\"", 1);
}

static void add_parameter(struct buffer *head, const char *text, uint64_t value)
{
	buffer_add_text(head, text);
	buffer_add_u64(head, value);
}

/* The syntax of draft-ietf-httpapi-ratelimit-headers-10. */
static void add_ratelimit(struct buffer *head, const struct weir_decision *d)
{
	struct slice name;
	size_t at;

	buffer_add_text(head, "RateLimit-Policy: ");
	at = head->len;
	add_sf_string(head, d->limit);
	name = (struct slice){head->data + at, head->len - at};
	add_parameter(head, ";q=", d->quota);
	add_parameter(head, ";w=", u64_max(seconds(d->window_ns), 1));
	buffer_add_text(head, "\r\nRateLimit: ");
	buffer_add_slice(head, name); /* a head stays where it is */
	add_parameter(head, ";r=", d->remaining);
	add_parameter(head, ";t=", seconds(d->reset_after_ns));
	buffer_add(head, "\r\n", 2);
}

static inline void add_name(struct buffer *out, const char *field, const char *name)
{
	buffer_add_text(out, field);
	if (name) {
		buffer_add(out, "\"", 1);
		buffer_add_json(out, slice_of(name));
		buffer_add(out, "\"", 1);
	} else {
		buffer_add(out, "null", 4);
	}
}

/* The fields of a rule's result join ours: the inside of its braces. */
static void add_result(struct buffer *out, const char *result)
{
	const char *begin = strchr(result, '{'), *end = strrchr(result, '}');

	if (!begin || !end || begin + 1 + strspn(begin + 1, " \t\r\n") >= end)
		return;
	buffer_add(out, ",", 1);
	buffer_add(out, begin + 1, (size_t)(end - begin) - 1);
}

static void add_decision(struct buffer *out, const struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;

	buffer_add_text(out, ANSWER_FIELD("{", allowed));
	buffer_add_text(out, d->allowed ? "true" : "false");
	add_name(out, FIELD(limit), d->limit);
	add_parameter(out, FIELD(quota), d->quota);
	add_parameter(out, FIELD(remaining), d->remaining);
	add_parameter(out, FIELD(retry_after_ms), milliseconds(d->retry_after_ns));
	add_parameter(out, FIELD(reset_after_ms), milliseconds(d->reset_after_ns));
	if (d->paced || d->wait_ns > 0)
		add_parameter(out, FIELD(wait_ms), milliseconds(d->wait_ns));
	buffer_add_text(out, FIELD(reason));
	buffer_add(out, "\"", 1);
	buffer_add_text(out, weir_reason_text(d->reason)); /* lower-case letters and '_' */
	buffer_add(out, "\"", 1);
	if (d->degraded) {
		buffer_add_text(out, FIELD(degraded));
		buffer_add_text(out, "true");
	}
	if (d->rule)
		add_name(out, FIELD(rule), d->rule);
	if (reply->permit.len > 0) {
		buffer_add_text(out, FIELD(permit));
		buffer_add(out, "\"", 1);
		buffer_add_slice(out, reply->permit);
		buffer_add(out, "\"", 1);
	}
	if (!d->allowed && d->result)
		add_result(out, d->result);
	buffer_add(out, "}", 1);
}

/* A client that asks too much gets 429, and one that asked while something is unwell 503. */
static const char *denial_status(enum weir_reason reason)
{
	bool unwell = reason == WEIR_REASON_SHED || reason == WEIR_REASON_BREAKER_OPEN ||
	              reason == WEIR_REASON_STORE_FAILURE || reason == WEIR_REASON_NO_ROOM;

	return unwell ? "503 Service Unavailable" : "429 Too Many Requests";
}

static void reply_decision(const struct request *request, const struct reply *reply,
                           struct buffer *out)
{
	const struct weir_decision *d = &reply->decision;
	char room[HEAD_MAX], chosen[] = "000 Denied";
	struct buffer head = head_open(room);
	const char *status = "200 OK", *type = JSON_TYPE;
	size_t body = out->len;

	if (!d->allowed && request->op == REQUEST_ACQUIRE)
		status = denial_status(d->reason);
	if (!d->allowed && request->detail) {
		format_u64(chosen, (uint64_t)request->detail);
		status = chosen;
	}
	if (request->from_proxy && d->allowed)
		type = NULL;
	else
		add_decision(out, reply);
	head_start(&head, request, status, type, out->len - body);
	if (d->limit && d->window_ns > 0) /* else it has no quota: it sheds by chance */
		add_ratelimit(&head, d);
	if (!d->allowed && request->op != REQUEST_REFUND) {
		add_parameter(&head, "Retry-After: ", u64_max(seconds(d->retry_after_ns), 1));
		buffer_add(&head, "\r\n", 2);
	}
	head_finish(&head, request, out, body);
}

static const struct {
	const char *status, *code;
} errors[] = {
#define X(name, status, code) [HTTP_ERROR_##name] = {status, code},
    HTTP_ERROR_LIST(X)
#undef X
};

static void add_error(struct buffer *out, enum http_verb error, struct slice message)
{
	buffer_add_text(out, ANSWER_FIELD("{", error));
	buffer_add_text(out, "{\"code\":\"");
	buffer_add_text(out, errors[error].code);
	buffer_add_text(out, "\",\"message\":\"");
	buffer_add_json(out, message);
	buffer_add_text(out, "\"}}");
}

static void add_crab_error(struct buffer *out, struct slice message)
{
	buffer_add_text(out, ANSWER_FIELD("{", error));
	buffer_add_text(out, "\"");
	buffer_add_json(out, message);
	buffer_add_text(out, "\"}");
}

/* Whether it is answered by an error; which, and in what words. */
static bool is_error(const struct request *request, const struct reply *reply,
                     enum http_verb *error, struct slice *message)
{
	if (request->kind == REQUEST_LOCAL) {
		*error = (enum http_verb)request->verb;
		*message = request->text;
		return true;
	}
	if (request->kind == REQUEST_ADHOC && adhoc_is_decided(reply))
		return false;
	*error = request->flags & HTTP_CRAB ? http_crab_error_of(reply->status)
	                                    : http_error_of(reply->status);
	/* A browser would ask its user for the password that a 401 of Weir's is about. */
	if ((reply->status == WEIR_EAUTH || reply->status == WEIR_EPERM) && request->from_proxy)
		*error = HTTP_ERROR_PROXY;
	if (reply->status == WEIR_ENOTFOUND && request->kind == REQUEST_REPORT)
		*error = HTTP_ERROR_PERMIT;
	if (reply->status == WEIR_ENOTFOUND && request->flags & HTTP_KOALA)
		*error = HTTP_ERROR_UNKNOWN_RULE;
	if (reply->status != 0)
		*message = slice_of(reply->message ? reply->message : weir_strerror(reply->status));
	return reply->status != 0;
}

static void reply_error(const struct request *request, enum http_verb error, struct slice message,
                        struct buffer *out)
{
	static const char *const allow[] = {
	    [METHOD_GET] = "Allow: GET\r\n",
	    [METHOD_READ] = "Allow: GET, HEAD\r\n",
	    [METHOD_POST] = "Allow: POST\r\n",
	    [METHOD_KOALA] = "Allow: GET, HEAD, POST, PUT\r\n",
	};
	char room[HEAD_MAX];
	struct buffer head = head_open(room);
	const char *status = errors[error].status;
	size_t body = out->len;

	if (request->flags & HTTP_KOALA)
		http_koala_error(out, error, message);
	else if (request->flags & HTTP_CRAB)
		add_crab_error(out, message);
	else
		add_error(out, error, message);
	if (request->flags & HTTP_KOALA && error == HTTP_ERROR_STORE)
		status = "200 OK"; /* its callers look for err_no */
	head_start(&head, request, status, JSON_TYPE, out->len - body);
	if (error == HTTP_ERROR_METHOD)
		buffer_add_text(&head, allow[request->detail]);
	if (error == HTTP_ERROR_UNAUTHORIZED)
		buffer_add_text(&head, "WWW-Authenticate: Bearer, Basic realm=\"weir\", charset=\"UTF-8\"\r\n");
	head_finish(&head, request, out, body);
}

static void reply_text(const struct request *request, const char *status, const char *type,
                       struct slice text, struct buffer *out)
{
	char room[HEAD_MAX];
	struct buffer head = head_open(room);
	size_t body = out->len;

	buffer_add_slice(out, text);
	head_start(&head, request, status, type, text.len);
	head_finish(&head, request, out, body);
}

/* 200 also when it is denied, and nothing of our own beside it. */
static void reply_crab(const struct request *request, const struct reply *reply,
                       struct buffer *out)
{
	int64_t values[CRAB_COUNT];
	char room[HEAD_MAX];
	struct buffer head = head_open(room);
	size_t body = out->len;

	adhoc_crab(reply, values);
	buffer_add_text(out, values[CRAB_ALLOWED] ? "{\"allowed\":true" : "{\"allowed\":false");
	add_parameter(out, ",\"limit\":", (uint64_t)values[CRAB_LIMIT]);
	add_parameter(out, ",\"remaining\":", (uint64_t)values[CRAB_REMAINING]);
	add_parameter(out, ",\"reset_after\":", (uint64_t)values[CRAB_RESET]);
	add_parameter(out, ",\"retry_after\":", (uint64_t)values[CRAB_RETRY]);
	buffer_add(out, "}", 1);
	head_start(&head, request, "200 OK", JSON_TYPE, out->len - body);
	head_finish(&head, request, out, body);
}

static void add_force(const struct request *request, struct buffer *out)
{
	buffer_add_text(out, "\",\"key\":\"");
	buffer_add_json(out, request->key);
	buffer_add_text(out, "\",\"state\":\"");
	buffer_add_slice(out, fill_force_text(request->force));
	buffer_add(out, "\"", 1);
}

static void add_share(const struct request *request, struct buffer *out)
{
	char deny[DECIMAL_TEXT_MAX];

	format_decimal(deny, request->deny);
	buffer_add_text(out, "\",\"deny\":");
	buffer_add_text(out, deny);
}

/* Repeats the switch that was made. */
static void reply_switch(const struct request *request, struct buffer *out)
{
	char room[HEAD_MAX];
	struct buffer head = head_open(room);
	size_t body = out->len;

	buffer_add_text(out, "{\"limit\":\"");
	buffer_add_json(out, request->limit);
	(request->kind == REQUEST_FORCE ? add_force : add_share)(request, out);
	if (request->until_ns != 0) {
		buffer_add_text(out, ",\"until\":\"");
		when_add_date(out, request->until_ns);
		buffer_add(out, "\"", 1);
	}
	buffer_add(out, "}", 1);
	head_start(&head, request, "200 OK", JSON_TYPE, out->len - body);
	head_finish(&head, request, out, body);
}

static void add_item(struct buffer *out, bool koala, const struct request *item,
                     const struct reply *reply)
{
	enum http_verb error;
	struct slice message;
	bool failed = is_error(item, reply, &error, &message);

	if (koala)
		http_koala_item(out, item);
	if (failed)
		(koala ? http_koala_error : add_error)(out, error, message);
	else if (koala)
		http_koala_body(item, reply, out);
	else
		add_decision(out, reply);
	if (koala)
		buffer_add(out, "}", 1);
}

static void reply_batch(const struct request *request, const struct reply *reply,
                        struct buffer *out)
{
	char room[HEAD_MAX];
	struct buffer head = head_open(room);
	size_t body = out->len;

	buffer_add(out, "[", 1);
	for (size_t i = 0; i < request->item_count; i++) {
		if (i > 0)
			buffer_add(out, ",", 1);
		add_item(out, request->flags & HTTP_KOALA, &request->items[i], &reply->items[i]);
	}
	buffer_add(out, "]", 1);
	head_start(&head, request, "200 OK", JSON_TYPE, out->len - body);
	head_finish(&head, request, out, body);
}

static void reply_koala(const struct request *request, const struct reply *reply,
                        struct buffer *out)
{
	bool is_page = request->kind == REQUEST_POLICY || request->kind == REQUEST_COUNTERS;
	char room[HEAD_MAX];
	struct buffer head = head_open(room);
	size_t body = out->len;
	const char *status = http_koala_body(request, reply, out);

	head_start(&head, request, status, is_page ? PLAIN_TYPE : JSON_TYPE, out->len - body);
	head_finish(&head, request, out, body);
}

static void reply_events(struct buffer *out)
{
	buffer_add_text(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	                     "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
	                     "Connection: close\r\n\r\n:\n\n");
}

void http_reply(const struct request *request, const struct reply *reply, struct buffer *out)
{
	static const char *const page_types[REQUEST_KIND_COUNT] = {
	    [REQUEST_METRICS] = "text/plain; version=0.0.4; charset=utf-8",
	    [REQUEST_LIMITS] = JSON_TYPE,
	    [REQUEST_TOP] = JSON_TYPE,
	};
	enum http_verb error;
	struct slice message;

	if (request->kind == REQUEST_INTERIM)
		buffer_add_text(out, "HTTP/1.1 100 Continue\r\n\r\n");
	else if (is_error(request, reply, &error, &message))
		reply_error(request, error, message, out);
	else if (request->kind == REQUEST_ADHOC)
		reply_crab(request, reply, out);
	else if (request->kind == REQUEST_EVENTS)
		reply_events(out);
	else if (request->kind == REQUEST_SHED || request->kind == REQUEST_FORCE)
		reply_switch(request, out);
	else if (request->kind == REQUEST_REPORT)
		reply_text(request, "200 OK", JSON_TYPE, SLICE("{\"ok\":true}"), out);
	else if (request->kind == REQUEST_BATCH)
		reply_batch(request, reply, out);
	else if (request->flags & HTTP_KOALA)
		reply_koala(request, reply, out);
	else if (page_types[request->kind])
		reply_text(request, "200 OK", page_types[request->kind], reply->body, out);
	else if (request->kind == REQUEST_HEALTH || request->kind == REQUEST_READY)
		reply_text(request, reply->ready ? "200 OK" : "503 Service Unavailable", PLAIN_TYPE,
		           !reply->ready            ? SLICE("not ready\n")
		           : request->text.len > 0 ? request->text
		                                    : SLICE("ok\n"),
		           out);
	else
		reply_decision(request, reply, out);
}
