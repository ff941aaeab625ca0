#include "proto/http/http1.h"

#include <string.h>

#include "base/number.h"
#include "proto/http/http_route.h"

static void span_extend(const struct http1_reader *reader, struct http_span *span, const char *at,
                        size_t len)
{
	size_t end = (size_t)(at - reader->base) + len;

	if (span->len == 0)
		span->at = (uint32_t)(at - reader->base);
	span->len = (uint32_t)(end - span->at);
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
	struct http1_reader *reader = parser->data;

	span_extend(reader, &reader->target, at, len);
	return HPE_OK;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
	struct http1_reader *reader = parser->data;

	span_extend(reader, &reader->name, at, len);
	return HPE_OK;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
	struct http1_reader *reader = parser->data;

	span_extend(reader, &reader->value, at, len);
	return HPE_OK;
}

static struct slice span_slice(struct http_span span, const char *base)
{
	return (struct slice){base + span.at, span.len};
}

static int on_value_complete(llhttp_t *parser)
{
	struct http1_reader *reader = parser->data;
	struct slice name = span_slice(reader->name, reader->base);

	if (reader->head_len > 0)
		return HPE_OK; /* a trailer */
	http_fields_add(&reader->fields, name, reader->value);
	reader->name = reader->value = (struct http_span){0, 0};
	return HPE_OK;
}

static int on_headers_complete(llhttp_t *parser)
{
	struct http1_reader *reader = parser->data;

	reader->keep_alive = llhttp_should_keep_alive(parser);
	/* No protocol is switched to here: also a CONNECT ends where its body does. */
	parser->upgrade = 0;
	return HPE_PAUSED;
}

static int on_complete(llhttp_t *parser)
{
	(void)parser;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_message_complete = on_complete,
};

void http1_open(struct http1_reader *reader, size_t header_max, size_t body_max)
{
	*reader = (struct http1_reader){.header_max = header_max, .body_max = body_max};
	llhttp_init(&reader->parser, HTTP_REQUEST, &settings);
}

void http1_next(struct http1_reader *reader)
{
	reader->fed = reader->head_len = 0;
	reader->target = reader->name = reader->value = (struct http_span){0, 0};
	http_fields_clear(&reader->fields);
	reader->continued = reader->raw = false;
}

/* Begins to read a message with llhttp, and forgets the message before. */
static void begin_message(struct http1_reader *reader)
{
	llhttp_reset(&reader->parser);
	reader->form.before = 0;
	http1_next(reader);
}

size_t http1_len(const struct http1_reader *reader)
{
	return reader->fed;
}

struct slice http1_header_lines(const struct http1_reader *reader, struct slice data)
{
	struct slice fields = {data.data, reader->head_len};

	slice_cut(&fields, '\n');
	return fields;
}

static enum http1_result bad(struct http1_message *message, const char *error, size_t at)
{
	message->error = error;
	message->error_at = at;
	return HTTP1_BAD;
}

/*
 * Whether all lines end in CRLF and none is folded. Some versions of llhttp accept a lone CR or LF
 * and join folded lines; then a proxy in front could see other lines than Weir.
 */
static bool lines_strict(const char *head, size_t len)
{
	const char *end = head + len, *p = head;

	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		if (p == head || p[-1] != '\r')
			return false;
		if (++p < end && (*p == ' ' || *p == '\t'))
			return false;
	}
	for (p = head; (p = memchr(p, '\r', (size_t)(end - p))); p++)
		if (p + 1 == end || p[1] != '\n')
			return false;
	return true;
}

/* Checks of a complete head that llhttp leaves to its caller. */
static enum http1_result check_head(const struct http1_reader *reader, struct slice data,
                                    struct http1_message *message)
{
	const llhttp_t *parser = &reader->parser;
	struct slice coding =
	    http_fields_value(&reader->fields, data.data, HTTP_FIELD_TRANSFER_ENCODING, 0);
	bool http_1_0 = parser->http_minor == 0;

	if (parser->http_major != 1 || parser->http_minor > 1)
		return HTTP1_BAD_VERSION;
	if (!lines_strict(data.data, reader->head_len))
		return bad(message, "expected every line to end in CRLF and none to be folded",
		           reader->head_len);
	if (reader->fields.too_many)
		return HTTP1_HEADER_LONG;
	if (http_fields_value(&reader->fields, data.data, HTTP_FIELD_HOST, 1).data)
		return bad(message, "expected one Host, found several", reader->head_len);
	if (!http_1_0 && !http_fields_has(&reader->fields, HTTP_FIELD_HOST) &&
	    !http_may_lack_host(span_slice(reader->target, data.data)))
		return bad(message, "expected a Host in a request of HTTP/1.1", reader->head_len);
	if (coding.data) {
		if (http_1_0 || (parser->flags & F_CONTENT_LENGTH))
			return bad(message, "expected no Transfer-Encoding in HTTP/1.0 or with Content-Length",
			           reader->head_len);
		if (!slice_equal_nocase(coding, SLICE("chunked")) ||
		    http_fields_value(&reader->fields, data.data, HTTP_FIELD_TRANSFER_ENCODING, 1).data)
			return HTTP1_BAD_CODING;
	}
	if ((parser->flags & F_CONTENT_LENGTH) && parser->content_length > reader->body_max)
		return HTTP1_BODY_LONG;
	return HTTP1_MESSAGE;
}

/* Whether llhttp refuses the byte in a query. */
static bool is_raw(char c)
{
	return (unsigned char)c >= 0x80;
}

/*
 * Copies the request line of `data`, or as much of it as has arrived, with letters in place of raw
 * bytes. Returns no data if there is no memory.
 */
static struct slice replace_raw(struct slice data, struct arena *arena)
{
	const char *end = memchr(data.data, '\n', data.len);
	size_t len = end ? (size_t)(end - data.data) : data.len;
	char *copy = arena_alloc(arena, len);
	bool in_query = false;

	for (size_t i = 0; copy && i < len; i++) {
		copy[i] = in_query && is_raw(data.data[i]) ? 'x' : data.data[i];
		in_query |= copy[i] == '?';
	}
	return (struct slice){copy, len};
}

/* Gives llhttp the new bytes of a request line with raw bytes. */
static llhttp_errno_t execute_raw(struct http1_reader *reader, struct slice data,
                                  struct arena *arena, const char **at)
{
	struct slice line = replace_raw(data, arena);
	llhttp_errno_t code = HPE_OK;

	if (!line.data)
		return HPE_USER;
	if (reader->fed < line.len) {
		reader->base = line.data;
		code = llhttp_execute(&reader->parser, line.data + reader->fed, line.len - reader->fed);
		if (code != HPE_OK)
			*at = data.data + (llhttp_get_error_pos(&reader->parser) - line.data);
		else
			reader->fed = line.len;
		reader->base = data.data;
	}
	return code;
}

/* Gives llhttp the new bytes of `data`. Sets *at where llhttp stopped, unless it has read all. */
static llhttp_errno_t execute_new(struct http1_reader *reader, struct slice data,
                                  struct arena *arena, const char **at)
{
	llhttp_errno_t code = reader->raw ? execute_raw(reader, data, arena, at) : HPE_OK;

	if (code != HPE_OK || reader->fed == data.len)
		return code;
	code = llhttp_execute(&reader->parser, data.data + reader->fed, data.len - reader->fed);
	*at = llhttp_get_error_pos(&reader->parser);
	return code;
}

/* Gives llhttp the bytes up to `end`. HTTP1_MESSAGE: it stopped at the end of head or message. */
static enum http1_result feed(struct http1_reader *reader, struct slice data, size_t end,
                              struct arena *arena, struct http1_message *message)
{
	const char *at = NULL;
	llhttp_errno_t code;

	if (data.len < end)
		end = data.len;
	if (reader->fed >= end)
		return HTTP1_MORE;
	data.len = end;
	code = execute_new(reader, data, arena, &at);
	if (__builtin_expect(code == HPE_INVALID_URL, 0) && !reader->raw && at < data.data + end &&
	    is_raw(*at)) {
		begin_message(reader); /* read the request line again */
		reader->raw = true;
		code = execute_new(reader, data, arena, &at);
	}
	if (code == HPE_OK) {
		reader->fed = end;
		return HTTP1_MORE;
	}
	if (code == HPE_PAUSED) {
		reader->fed = (size_t)(at - data.data);
		llhttp_resume(&reader->parser);
		return HTTP1_MESSAGE;
	}
	if (code == HPE_INVALID_VERSION || code == HPE_PAUSED_H2_UPGRADE)
		return HTTP1_BAD_VERSION;
	if (!at)
		return bad(message, "expected more memory", reader->fed);
	return bad(message, llhttp_get_error_reason(&reader->parser), (size_t)(at - data.data));
}

struct gather {
	char *to;
	size_t len;
};

static int on_gather(llhttp_t *parser, const char *at, size_t len)
{
	struct gather *gather = parser->data;

	memcpy(gather->to + gather->len, at, len);
	gather->len += len;
	return HPE_OK;
}

/*
 * Copies the body of a chunked message into one piece. Chunks are gathered once all have arrived,
 * because the arena may have been reset before. The same parser reads them again, because another
 * one could read them differently.
 */
static bool gather_chunks(const struct http1_reader *reader, struct slice data, struct arena *arena,
                          struct slice *body)
{
	static const llhttp_settings_t gather_settings = {
	    .on_body = on_gather,
	    .on_message_complete = on_complete,
	};
	struct gather gather = {.to = arena_alloc(arena, reader->fed - reader->head_len)};
	struct slice line = {NULL, 0};
	llhttp_t parser;

	if (reader->raw)
		line = replace_raw(data, arena);
	if (!gather.to || (reader->raw && !line.data))
		return false;
	llhttp_init(&parser, HTTP_REQUEST, &gather_settings);
	parser.data = &gather;
	if (line.len > 0)
		llhttp_execute(&parser, line.data, line.len);
	llhttp_execute(&parser, data.data + line.len, reader->fed - line.len);
	*body = (struct slice){gather.to, gather.len};
	return true;
}

/* Whether to send 100 Continue: not for HTTP/1.0, and not once the body has begun to arrive. */
static bool awaits_continue(const struct http1_reader *reader, struct slice data)
{
	return !reader->continued && reader->parser.http_minor == 1 && data.len == reader->head_len &&
	       slice_equal_nocase(http_fields_value(&reader->fields, data.data, HTTP_FIELD_EXPECT, 0),
	                          SLICE("100-continue"));
}

static enum http1_result read_head(struct http1_reader *reader, struct slice data,
                                   struct arena *arena, struct http1_message *message)
{
	enum http1_result result = feed(reader, data, reader->header_max, arena, message);

	if (result == HTTP1_MORE && reader->fed >= reader->header_max)
		return reader->parser.http_major == 0 ? HTTP1_TARGET_LONG : HTTP1_HEADER_LONG;
	if (result != HTTP1_MESSAGE)
		return result;
	reader->head_len = reader->fed;
	return check_head(reader, data, message);
}

static enum http1_result read_chunks(struct http1_reader *reader, struct slice data,
                                     struct arena *arena, struct http1_message *message)
{
	size_t end = reader->head_len + reader->body_max;
	enum http1_result result = feed(reader, data, end, arena, message);

	if (result == HTTP1_MORE && reader->fed >= end)
		return HTTP1_BODY_LONG;
	if (result == HTTP1_MESSAGE && !gather_chunks(reader, data, arena, &message->body))
		return HTTP1_BODY_LONG;
	return result;
}

static enum http1_result read_body(struct http1_reader *reader, struct slice data,
                                   struct arena *arena, struct http1_message *message)
{
	size_t len = reader->parser.content_length;

	if (reader->parser.flags & F_CHUNKED)
		return read_chunks(reader, data, arena, message);
	if (data.len - reader->head_len < len)
		return HTTP1_MORE;
	message->body = (struct slice){data.data + reader->head_len, len};
	reader->fed = reader->head_len + len;
	return HTTP1_MESSAGE;
}

/*
 * Makes a template of this message if it has no body, since the next message is likely the same
 * except for its target. Not without a Host: whether a Host may be absent depends on the target.
 */
static void learn_template(struct http1_reader *reader, struct slice data, struct slice target)
{
	if (reader->fed > reader->head_len || !reader->keep_alive ||
	    !http_fields_has(&reader->fields, HTTP_FIELD_HOST))
		return;
	http1_template_learn(&reader->form, (struct slice){data.data, reader->head_len}, target);
	reader->former_target_len = reader->target.len;
	reader->former_line_count = reader->fields.count;
	reader->former_has = reader->fields.has;
	reader->former_forwarded = reader->fields.forwarded;
}

/* Reads the message by the template, if it matches. */
static bool read_by_template(struct http1_reader *reader, struct slice data)
{
	struct slice head = {data.data, u64_min(data.len, reader->header_max)};
	struct slice target = http1_template_match(&reader->form, head);
	uint32_t len = (uint32_t)target.len;

	if (!target.data)
		return false;
	for (unsigned i = 0; i < reader->former_line_count; i++) /* wraps modulo 2^32 */
		reader->fields.lines[i].value.at += len - reader->former_target_len;
	reader->former_target_len = len;
	reader->fields.count = reader->former_line_count;
	reader->fields.has = reader->former_has;
	reader->fields.forwarded = reader->former_forwarded;
	reader->target = (struct http_span){reader->form.before, len};
	reader->head_len = reader->fed = http1_template_len(&reader->form, len);
	return true;
}

static void fill_message(const struct http1_reader *reader, struct slice data,
                         struct http1_message *message)
{
	message->method = llhttp_method_name((llhttp_method_t)reader->parser.method);
	message->target = span_slice(reader->target, data.data);
	message->http_1_0 = reader->parser.http_minor == 0;
	message->keep_alive = reader->keep_alive;
}

enum http1_result http1_read(struct http1_reader *reader, struct slice data, struct arena *arena,
                             struct http1_message *message)
{
	enum http1_result result;

	if (data.len == 0)
		return HTTP1_MORE;
	if (reader->fed == 0) {
		if (read_by_template(reader, data)) { /* the parser still has the method and version */
			message->body = (struct slice){data.data + reader->fed, 0};
			fill_message(reader, data, message);
			return HTTP1_MESSAGE;
		}
		begin_message(reader);
	}
	reader->base = data.data;
	reader->parser.data = reader;
	if (reader->head_len == 0) {
		result = read_head(reader, data, arena, message);
		if (result != HTTP1_MESSAGE)
			return result;
	}
	result = read_body(reader, data, arena, message);
	if (result == HTTP1_MORE && awaits_continue(reader, data)) {
		reader->continued = true;
		return HTTP1_CONTINUE;
	}
	fill_message(reader, data, message);
	if (result == HTTP1_MESSAGE)
		learn_template(reader, data, message->target);
	return result;
}
