/*
 * http_answer.c: makes the HTTP answer to a request, for HTTP/1 and HTTP/2: the status, the header
 * fields, and the body, most often the server's decision in JSON.
 */
#include "proto/http/http_answer.h"

#include "base/number.h"
#include "base/text/decision_fields.h"
#include "base/time/timestamp.h"
#include "proto/adhoc_command.h"
#include "proto/fill.h"
#include "proto/http/http_name.h"
#include "proto/http/http_session.h"

#define FIELD(name) DECISION_FIELD(",", name)

#define JSON_TYPE  SLICE("application/json")
#define PLAIN_TYPE SLICE("text/plain; charset=utf-8")

/* Bytes that are enough for the four numbers of RateLimit and RateLimit-Policy. */
#define RATELIMIT_MAX 128
/* Bytes that are enough for a decision in JSON, without its names and permit. */
#define DECISION_MAX 384

enum http_error http_error_of(int status)
{
	static const enum http_error errors_of[] = {
	    [-WEIR_ENOMEM] = HTTP_ERROR_MEMORY,
	    [-WEIR_EINVAL] = HTTP_ERROR_BAD_REQUEST,
	    [-WEIR_ECOST] = HTTP_ERROR_COST,
	    [-WEIR_ERANGE] = HTTP_ERROR_BAD_REQUEST,
	    [-WEIR_ENOTFOUND] = HTTP_ERROR_UNKNOWN_LIMIT,
	    [-WEIR_ESYNTAX] = HTTP_ERROR_BAD_REQUEST,
	    [-WEIR_EIO] = HTTP_ERROR_INTERNAL,
	    [-WEIR_EUNSUPPORTED] = HTTP_ERROR_UNSUPPORTED,
	    [-WEIR_ELONG] = HTTP_ERROR_TOO_LONG,
	    [-WEIR_EFULL] = HTTP_ERROR_TOO_MANY_CONNECTIONS,
	    [-WEIR_EPERM] = HTTP_ERROR_FORBIDDEN,
	    [-WEIR_ESTORE] = HTTP_ERROR_STORE,
	    [-WEIR_EAUTH] = HTTP_ERROR_UNAUTHORIZED,
	};
	size_t index = (size_t)-status;

	return index < sizeof errors_of / sizeof *errors_of ? errors_of[index] : HTTP_ERROR_INTERNAL;
}

/* throttlecrab has other codes for a missing and for an invalid field. */
enum http_error http_throttlecrab_error_of(int status)
{
	return status == WEIR_ENOTFOUND                         ? HTTP_ERROR_FIELDS
	       : status == WEIR_EINVAL || status == WEIR_ERANGE ? HTTP_ERROR_INTERNAL
	                                                        : http_error_of(status);
}

static uint64_t ceil_seconds(uint64_t ns)
{
	return ceil_div(ns, NS_PER_S);
}

static uint64_t ceil_milliseconds(uint64_t ns)
{
	return ceil_div(ns, NS_PER_MS);
}

/* Adds a header field whose value has been appended to answer->values, from `begin` on. */
static void add_field(struct http_answer *answer, enum http_answer_name name, size_t begin)
{
	answer->fields[answer->field_count++] =
	    (struct http_answer_field){name, (uint32_t)(answer->values.len - begin)};
}

static void add_text_field(struct http_answer *answer, enum http_answer_name name, const char *text)
{
	size_t begin = answer->values.len;

	buffer_add_text(&answer->values, text);
	add_field(answer, name, begin);
}

/*
 * Returns the end of what it has written, as all put functions do. `text` is a literal, so the
 * compiler knows its length.
 */
static inline __attribute__((always_inline)) char *put_text(char *to, const char *text)
{
	return mempcpy(to, text, strlen(text));
}

static inline __attribute__((always_inline)) char *put_number(char *to, const char *text,
                                                              uint64_t value)
{
	return format_u64(put_text(to, text), value);
}

/*
 * Adds RateLimit-Policy ("name";q=100;w=60) and RateLimit ("name";r=99;t=1) in the syntax of
 * draft-ietf-httpapi-ratelimit-headers-10: quota, window, remaining, and time to the reset.
 */
static void add_ratelimit(struct http_answer *answer, const struct weir_decision *d)
{
	struct buffer *values = &answer->values;
	size_t begin = values->len, name_len;
	char *to;

	http_name_add_string(values, d->limit);
	name_len = values->len - begin;
	to = buffer_reserve(values, name_len + RATELIMIT_MAX);
	if (!to)
		return;
	to = put_number(to, ";q=", d->quota);
	to = put_number(to, ";w=", u64_max(ceil_seconds(d->window_ns), 1));
	values->len = (size_t)(to - values->data);
	add_field(answer, HTTP_ANSWER_RATELIMIT_POLICY, begin);
	to = mempcpy(to, values->data + begin, name_len);
	begin = values->len;
	to = put_number(to, ";r=", d->remaining);
	to = put_number(to, ";t=", ceil_seconds(d->reset_after_ns));
	values->len = (size_t)(to - values->data);
	add_field(answer, HTTP_ANSWER_RATELIMIT, begin);
}

/* A character that is escaped in a JSON string needs 6 bytes at most. */
#define JSON_ESCAPE_MAX 6

/* Writes the literal `field` and `name` as a JSON string, or null. */
static char *put_name(char *to, const char *field, struct slice name)
{
	struct buffer out = {.capacity = JSON_ESCAPE_MAX * name.len + 1};

	to = put_text(to, field);
	if (!name.data)
		return put_text(to, "null");
	*to++ = '"';
	out.data = to;
	buffer_add_json(&out, name);
	to += out.len;
	*to++ = '"';
	return to;
}

/* Adds the members of a rule's result, a JSON object of the configuration, unless it is empty. */
static void add_result(struct buffer *out, const char *result)
{
	const char *begin = strchr(result, '{'), *end = strrchr(result, '}');
	bool is_object = begin && end;

	if (!is_object || begin + 1 + strspn(begin + 1, " \t\r\n") >= end)
		return;
	buffer_add(out, ",", 1);
	buffer_add(out, begin + 1, (size_t)(end - begin) - 1);
}

static struct slice slice_or_null(const char *name)
{
	return name ? slice_of(name) : (struct slice){NULL, 0};
}

/* Appends the decision as a JSON object. It is written into memory that is reserved once: fast. */
static void add_decision(struct buffer *out, const struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;
	struct slice limit = slice_or_null(d->limit), rule = slice_or_null(d->rule);
	size_t names_max = JSON_ESCAPE_MAX * (limit.len + rule.len);
	char *to = buffer_reserve(out, DECISION_MAX + names_max + reply->permit.len);

	if (!to)
		return;
	to = put_text(to, DECISION_FIELD("{", allowed));
	to = d->allowed ? put_text(to, "true") : put_text(to, "false");
	to = put_name(to, FIELD(limit), limit);
	to = put_number(to, FIELD(quota), d->quota);
	to = put_number(to, FIELD(remaining), d->remaining);
	to = put_number(to, FIELD(retry_after_ms), ceil_milliseconds(d->retry_after_ns));
	to = put_number(to, FIELD(reset_after_ms), ceil_milliseconds(d->reset_after_ns));
	if (d->paced || d->wait_ns > 0)
		to = put_number(to, FIELD(wait_ms), ceil_milliseconds(d->wait_ns));
	to = put_text(put_text(to, FIELD(reason)), "\"");
	to = put_text(to, weir_reason_text(d->reason)); /* lower-case letters and '_' */
	*to++ = '"';
	if (d->degraded)
		to = put_text(put_text(to, FIELD(degraded)), "true");
	if (d->rule)
		to = put_name(to, FIELD(rule), rule);
	if (reply->permit.len > 0) {
		to = put_text(put_text(to, FIELD(permit)), "\"");
		to = mempcpy(to, reply->permit.data, reply->permit.len);
		*to++ = '"';
	}
	out->len = (size_t)(to - out->data);
	if (!d->allowed && d->result)
		add_result(out, d->result);
	buffer_add(out, "}", 1);
}

/* 503 if Weir or the protected service is unhealthy, otherwise 429: the client asked too much. */
static const char *denial_status(enum weir_reason reason)
{
	bool unhealthy = reason == WEIR_REASON_SHED || reason == WEIR_REASON_BREAKER_OPEN ||
	                 reason == WEIR_REASON_STORE_FAILURE || reason == WEIR_REASON_NO_ROOM;

	return unhealthy ? "503 Service Unavailable" : "429 Too Many Requests";
}

static void add_name_field(struct http_answer *answer, enum http_answer_name field,
                           const char *name)
{
	size_t begin = answer->values.len;

	if (!name)
		return;
	http_name_add(&answer->values, name);
	add_field(answer, field, begin);
}

/* Adds the fields by which an operator finds out why a request was denied. */
static void add_denial(struct http_answer *answer, const struct reply *reply)
{
	add_name_field(answer, HTTP_ANSWER_RULE, reply->decision.rule);
	add_name_field(answer, HTTP_ANSWER_LIMIT, reply->decision.limit);
	add_name_field(answer, HTTP_ANSWER_DECISION, reply->denial_id);
}

/*
 * Answers with a decision. /auth (from_proxy) answers a proxy: the permit is in a header field,
 * since there is no body if the request may pass, and request->detail is the status of a denial.
 */
static void answer_decision(struct http_answer *answer, const struct request *request,
                            const struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;

	if (!d->allowed && request->detail) {
		char *end = format_u64(answer->own_status, (uint64_t)request->detail);

		memcpy(end, " Denied", sizeof " Denied");
		answer->status = answer->own_status;
	} else if (!d->allowed && request->op == REQUEST_ACQUIRE) {
		answer->status = denial_status(d->reason);
	}
	if (request->from_proxy && d->allowed)
		answer->type = (struct slice){NULL, 0};
	else
		add_decision(answer->body, reply);
	if (d->limit && d->quota > 0 && d->window_ns > 0)
		add_ratelimit(answer, d);
	if (request->from_proxy && reply->permit.len > 0) {
		size_t begin = answer->values.len;

		buffer_add_slice(&answer->values, reply->permit);
		add_field(answer, HTTP_ANSWER_PERMIT, begin);
	}
	if (!d->allowed && request->op != REQUEST_REFUND) {
		size_t begin = answer->values.len;

		buffer_add_u64(&answer->values, u64_max(ceil_seconds(d->retry_after_ns), 1));
		add_field(answer, HTTP_ANSWER_RETRY_AFTER, begin);
	}
	if (__builtin_expect(reply->explains_denial, 0))
		add_denial(answer, reply);
}

static const struct {
	const char *status, *code;
} errors[] = {
#define X(name, status, code) [HTTP_ERROR_##name] = {status, code},
    HTTP_ERROR_LIST(X)
#undef X
};

static void add_error(struct buffer *out, enum http_error error, struct slice message)
{
	buffer_add_text(out, DECISION_FIELD("{", error));
	buffer_add_text(out, "{\"code\":\"");
	buffer_add_text(out, errors[error].code);
	buffer_add_text(out, "\",\"message\":\"");
	buffer_add_json(out, message);
	buffer_add_text(out, "\"}}");
}

static void add_throttlecrab_error(struct buffer *out, struct slice message)
{
	buffer_add_text(out, DECISION_FIELD("{", error));
	buffer_add_text(out, "\"");
	buffer_add_json(out, message);
	buffer_add_text(out, "\"}");
}

/* Finds the error to answer with, and its message. Returns false if there is none. */
static bool find_error(const struct request *request, const struct reply *reply,
                       enum http_error *error, struct slice *message)
{
	if (request->kind == REQUEST_LOCAL) {
		*error = (enum http_error)request->reply_code;
		*message = request->local_text;
		return true;
	}
	if (request->kind == REQUEST_ADHOC && adhoc_is_decided(reply))
		return false;
	*error = request->flags & HTTP_THROTTLECRAB ? http_throttlecrab_error_of(reply->status)
	                                            : http_error_of(reply->status);
	/* Through a proxy a 401 would make the visitor's browser ask for a password of Weir. */
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

static void answer_error(struct http_answer *answer, const struct request *request,
                         enum http_error error, struct slice message)
{
	static const char *const allow[] = {
	    [METHOD_GET] = "GET",
	    [METHOD_READ] = "GET, HEAD",
	    [METHOD_POST] = "POST",
	    [METHOD_KOALA] = "GET, HEAD, POST, PUT",
	};

	if (request->flags & HTTP_KOALA)
		http_koala_add_error(answer->body, error, message);
	else if (request->flags & HTTP_THROTTLECRAB)
		add_throttlecrab_error(answer->body, message);
	else
		add_error(answer->body, error, message);
	/* Koala's clients expect status 200 and read err_no. */
	if (!(request->flags & HTTP_KOALA && error == HTTP_ERROR_STORE))
		answer->status = errors[error].status;
	if (error == HTTP_ERROR_METHOD)
		add_text_field(answer, HTTP_ANSWER_ALLOW, allow[request->detail]); /* the route's methods */
	if (error == HTTP_ERROR_UNAUTHORIZED) {
		/* Two fields, since browsers read one scheme of each and would not ask for a password. */
		add_text_field(answer, HTTP_ANSWER_WWW_AUTHENTICATE, "Bearer");
		add_text_field(answer, HTTP_ANSWER_WWW_AUTHENTICATE,
		               "Basic realm=\"weir\", charset=\"UTF-8\"");
	}
}

/* Appends throttlecrab's answer, whose status is 200 even for a denial. */
static void add_throttlecrab(struct buffer *out, const struct reply *reply)
{
	int64_t values[THROTTLECRAB_COUNT];
	char *to;

	adhoc_throttlecrab_values(reply, values);
	to = buffer_reserve(out, DECISION_MAX);
	if (!to)
		return;
	to = values[THROTTLECRAB_ALLOWED] ? put_text(to, "{\"allowed\":true")
	                                  : put_text(to, "{\"allowed\":false");
	to = put_number(to, ",\"limit\":", (uint64_t)values[THROTTLECRAB_LIMIT]);
	to = put_number(to, ",\"remaining\":", (uint64_t)values[THROTTLECRAB_REMAINING]);
	to = put_number(to, ",\"reset_after\":", (uint64_t)values[THROTTLECRAB_RESET]);
	to = put_number(to, ",\"retry_after\":", (uint64_t)values[THROTTLECRAB_RETRY]);
	*to++ = '}';
	out->len = (size_t)(to - out->data);
}

/* Appends the key of a breaker and the phase that the request has forced. */
static void add_forced_phase(const struct request *request, struct buffer *out)
{
	buffer_add_text(out, "\",\"key\":\"");
	buffer_add_json(out, request->key);
	buffer_add_text(out, "\",\"state\":\"");
	buffer_add_slice(out, fill_force_text(request->force));
	buffer_add(out, "\"", 1);
}

/* Appends the share of requests that the limit denies from now on. */
static void add_denied_share(const struct request *request, struct buffer *out)
{
	char deny[DECIMAL_TEXT_MAX];

	format_decimal(deny, request->denied_share);
	buffer_add_text(out, "\",\"deny\":");
	buffer_add_text(out, deny);
}

/* Appends what an operator's request has set, for /v1/shed or /v1/breaker. */
static void add_override(struct buffer *out, const struct request *request)
{
	buffer_add_text(out, "{\"limit\":\"");
	buffer_add_json(out, request->limit);
	(request->kind == REQUEST_FORCE ? add_forced_phase : add_denied_share)(request, out);
	if (request->until_ns != 0) {
		buffer_add_text(out, ",\"until\":\"");
		timestamp_add_date(out, request->until_ns);
		buffer_add(out, "\"", 1);
	}
	buffer_add(out, "}", 1);
}

/* Appends the answer to an item of a batch, in Koala's form if `is_koala`. */
static void add_item(struct buffer *out, bool is_koala, const struct request *item,
                     const struct reply *reply)
{
	enum http_error error;
	struct slice message;
	bool failed = find_error(item, reply, &error, &message);

	if (is_koala)
		http_koala_begin_item(out, item);
	if (failed)
		(is_koala ? http_koala_add_error : add_error)(out, error, message);
	else if (is_koala)
		http_koala_add_body(item, reply, out);
	else
		add_decision(out, reply);
	if (is_koala)
		buffer_add(out, "}", 1);
}

static void add_batch(struct buffer *out, const struct request *request, const struct reply *reply)
{
	buffer_add(out, "[", 1);
	for (size_t i = 0; i < request->item_count; i++) {
		if (i > 0)
			buffer_add(out, ",", 1);
		add_item(out, request->flags & HTTP_KOALA, &request->items[i], &reply->items[i]);
	}
	buffer_add(out, "]", 1);
}

static void answer_koala(struct http_answer *answer, const struct request *request,
                         const struct reply *reply)
{
	if (request->kind == REQUEST_POLICY || request->kind == REQUEST_COUNTERS)
		answer->type = PLAIN_TYPE;
	answer->status = http_koala_add_body(request, reply, answer->body);
}

/* Begins a stream of server-sent events; the server appends the events later. */
static void answer_events(struct http_answer *answer)
{
	answer->type = SLICE("text/event-stream");
	answer->is_stream = true;
	add_text_field(answer, HTTP_ANSWER_CACHE_CONTROL, "no-store");
	add_text_field(answer, HTTP_ANSWER_ACCEL_BUFFERING, "no");
	buffer_add_text(answer->body, ":\n\n"); /* an empty comment, so that the client gets bytes */
}

/* The page may not be shown in a frame of another page, which could make its user click. */
static void answer_dashboard(struct http_answer *answer, const struct reply *reply)
{
	answer->type = SLICE("text/html; charset=utf-8");
	add_text_field(answer, HTTP_ANSWER_CACHE_CONTROL, "no-store");
	add_text_field(answer, HTTP_ANSWER_POLICY, reply->policy);
	add_text_field(answer, HTTP_ANSWER_FRAME_OPTIONS, "DENY");
	add_text_field(answer, HTTP_ANSWER_TYPE_OPTIONS, "nosniff");
	add_text_field(answer, HTTP_ANSWER_REFERRER_POLICY, "no-referrer");
	buffer_add_slice(answer->body, reply->body);
}

static void answer_health(struct http_answer *answer, const struct request *request,
                          const struct reply *reply)
{
	answer->type = PLAIN_TYPE;
	if (!reply->ready)
		answer->status = "503 Service Unavailable";
	buffer_add_slice(answer->body, !reply->ready                 ? SLICE("not ready\n")
	                               : request->local_text.len > 0 ? request->local_text
	                                                             : SLICE("ok\n"));
}

/* The body of the reply has the settings that need a restart, as texts of a list. */
static void add_reload(struct buffer *out, const struct reply *reply)
{
	buffer_add_text(out, "{\"ok\":true");
	if (reply->body.len > 0) {
		buffer_add_text(out, ",\"restart_needed\":[");
		buffer_add_slice(out, reply->body);
		buffer_add(out, "]", 1);
	}
	buffer_add(out, "}", 1);
}

/* Answers a request that the server has handled without an error. */
static void answer_result(struct http_answer *answer, const struct request *request,
                          const struct reply *reply)
{
	switch ((enum request_kind)request->kind) {
	case REQUEST_ADHOC:
		add_throttlecrab(answer->body, reply);
		if (reply->explains_denial)
			add_denial(answer, reply);
		break;
	case REQUEST_EVENTS:
		answer_events(answer);
		break;
	case REQUEST_SHED:
	case REQUEST_FORCE:
		add_override(answer->body, request);
		break;
	case REQUEST_REPORT:
		buffer_add_text(answer->body, "{\"ok\":true}");
		break;
	case REQUEST_RELOAD:
		add_reload(answer->body, reply);
		break;
	case REQUEST_BATCH:
		add_batch(answer->body, request, reply);
		break;
	case REQUEST_DASHBOARD:
		answer_dashboard(answer, reply);
		break;
	case REQUEST_METRICS:
		answer->type = SLICE("text/plain; version=0.0.4; charset=utf-8");
		__attribute__((fallthrough));
	case REQUEST_LIMITS:
	case REQUEST_TOP:
	case REQUEST_DENIALS:
	case REQUEST_DIGEST:
	case REQUEST_STATUS:
	case REQUEST_STATS:
		buffer_add_slice(answer->body, reply->body);
		break;
	case REQUEST_HEALTH:
	case REQUEST_READY:
		answer_health(answer, request, reply);
		break;
	case REQUEST_POLICY:
	case REQUEST_COUNTERS:
	case REQUEST_BROWSE:
	case REQUEST_EACH_LIMIT:
	case REQUEST_BROWSE_ALL:
	case REQUEST_VALUE:
	case REQUEST_ALIVE:
		answer_koala(answer, request, reply);
		break;
	case REQUEST_LIMIT:
	case REQUEST_RULES:
	case REQUEST_KEY:
		answer_decision(answer, request, reply);
		break;
	case REQUEST_LOCAL:
	case REQUEST_INTERIM:
	case REQUEST_LOGIN:
	case REQUEST_KIND_COUNT: /* none of these comes by HTTP without an error */
		break;
	}
}

void http_answer_make(struct http_answer *answer, const struct request *request,
                      const struct reply *reply, struct buffer *body)
{
	enum http_error error;
	struct slice message;

	answer->status = "200 OK";
	answer->type = JSON_TYPE;
	answer->is_stream = false;
	answer->field_count = 0;
	answer->values = (struct buffer){
	    .data = answer->space, .capacity = sizeof answer->space, .max = sizeof answer->space};
	answer->body = body;
	if (find_error(request, reply, &error, &message))
		answer_error(answer, request, error, message);
	else
		answer_result(answer, request, reply);
	body->failed |= answer->values.failed;
}
