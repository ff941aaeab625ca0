/*
 * http1.c: finds one request message of HTTP/1.0 or 1.1 in bytes that may arrive in pieces. The
 * library llhttp parses the *head*, the request line and header fields. This file checks the head
 * more strictly, and finds the body.
 */
#include "proto/http/http1.h"

#include <string.h>

#include "base/number.h"
#include "proto/http/http_route.h"

/* llhttp reports a text in pieces as they arrive; a span covers the pieces up to now. */
static void span_extend(const struct http1_reader *reader, struct http_span *span, const char *at,
                        size_t len)
{
	size_t end = (size_t)(at - reader->message_start) + len;

	if (span->len == 0)
		span->at = (uint32_t)(at - reader->message_start);
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

	span_extend(reader, &reader->field_name, at, len);
	return HPE_OK;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
	struct http1_reader *reader = parser->data;

	span_extend(reader, &reader->field_value, at, len);
	return HPE_OK;
}

static struct slice span_slice(struct http_span span, const char *message_start)
{
	return (struct slice){message_start + span.at, span.len};
}

static int on_value_complete(llhttp_t *parser)
{
	struct http1_reader *reader = parser->data;
	struct slice name = span_slice(reader->field_name, reader->message_start);

	if (reader->head_len > 0)
		return HPE_OK; /* a trailer, behind the body: not stored */
	http_fields_add(&reader->fields, name, reader->field_value);
	reader->field_name = reader->field_value = (struct http_span){0, 0};
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
	reader->read_len = reader->head_len = 0;
	reader->target = reader->field_name = reader->field_value = (struct http_span){0, 0};
	http_fields_clear(&reader->fields);
	reader->continue_was_sent = reader->has_raw_query = false;
}

/* Begins to read a message with llhttp, and drops what is known of the message before. */
static void begin_message(struct http1_reader *reader)
{
	llhttp_reset(&reader->parser);
	reader->last_head.before_len = 0;
	http1_next(reader);
}

size_t http1_len(const struct http1_reader *reader)
{
	return reader->read_len;
}

struct slice http1_header_lines(const struct http1_reader *reader, struct slice data)
{
	struct slice fields = {data.data, reader->head_len};

	slice_cut(&fields, '\n');
	return fields;
}

/* Returns HTTP1_BAD, with the text of the error and the byte of the message where it is. */
static enum http1_result refuse_as_bad(struct http1_message *message, const char *error, size_t at)
{
	message->error = error;
	message->error_at = at;
	return HTTP1_BAD;
}

/*
 * Whether all lines end in CRLF and none is folded. Some versions of llhttp accept a lone CR or LF
 * and join folded lines; then a proxy in front could see other lines than Weir.
 */
static bool are_lines_strict(const char *head, size_t len)
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

/* Checks a complete head, where llhttp leaves that to its caller. Returns HTTP1_MESSAGE or an
 * error. */
static enum http1_result check_head(const struct http1_reader *reader, struct slice data,
                                    struct http1_message *message)
{
	const llhttp_t *parser = &reader->parser;
	struct slice coding =
	    http_fields_value(&reader->fields, data.data, HTTP_FIELD_TRANSFER_ENCODING, 0);
	bool http_1_0 = parser->http_minor == 0;
	bool has_content_length = parser->flags & F_CONTENT_LENGTH;

	if (parser->http_major != 1 || parser->http_minor > 1)
		return HTTP1_BAD_VERSION;
	if (!are_lines_strict(data.data, reader->head_len))
		return refuse_as_bad(message, "expected every line to end in CRLF and none to be folded",
		                     reader->head_len);
	if (reader->fields.too_many)
		return HTTP1_HEADER_LONG;
	if (http_fields_value(&reader->fields, data.data, HTTP_FIELD_HOST, 1).data)
		return refuse_as_bad(message, "expected one Host, found several", reader->head_len);
	if (!http_1_0 && !http_fields_has(&reader->fields, HTTP_FIELD_HOST) &&
	    !http_may_lack_host(span_slice(reader->target, data.data)))
		return refuse_as_bad(message, "expected a Host in a request of HTTP/1.1", reader->head_len);
	if (coding.data) {
		if (http_1_0 || has_content_length)
			return refuse_as_bad(message,
			                     "expected no Transfer-Encoding in HTTP/1.0 or with Content-Length",
			                     reader->head_len);
		if (!slice_equal_nocase(coding, SLICE("chunked")) ||
		    http_fields_value(&reader->fields, data.data, HTTP_FIELD_TRANSFER_ENCODING, 1).data)
			return HTTP1_BAD_CODING;
	}
	if (has_content_length && parser->content_length > reader->body_max)
		return HTTP1_BODY_LONG;
	return HTTP1_MESSAGE;
}

/* A byte that llhttp refuses in a query, although browsers send it there unescaped. */
static bool is_raw_byte(char c)
{
	return (unsigned char)c >= 0x80;
}

/*
 * Copies the request line of `data`, or as much of it as has arrived, with letters in place of raw
 * bytes in the query, so that llhttp accepts it. Returns no data if there is no memory.
 */
static struct slice copy_line_without_raw_bytes(struct slice data, struct arena *arena)
{
	const char *end = memchr(data.data, '\n', data.len);
	size_t len = end ? (size_t)(end - data.data) : data.len;
	char *copy = arena_alloc(arena, len);
	bool in_query = false;

	for (size_t i = 0; copy && i < len; i++) {
		copy[i] = in_query && is_raw_byte(data.data[i]) ? 'x' : data.data[i];
		in_query |= copy[i] == '?';
	}
	return (struct slice){copy, len};
}

/* Gives llhttp the new bytes of a request line that has raw bytes, from a copy without them. */
static llhttp_errno_t execute_request_line(struct http1_reader *reader, struct slice data,
                                           struct arena *arena, const char **at)
{
	struct slice line = copy_line_without_raw_bytes(data, arena);
	llhttp_errno_t code = HPE_OK;

	if (!line.data)
		return HPE_USER;
	if (reader->read_len < line.len) {
		reader->message_start = line.data;
		code = llhttp_execute(&reader->parser, line.data + reader->read_len,
		                      line.len - reader->read_len);
		if (code != HPE_OK)
			*at = data.data + (llhttp_get_error_pos(&reader->parser) - line.data);
		else
			reader->read_len = line.len;
		reader->message_start = data.data;
	}
	return code;
}

/* Gives llhttp the new bytes of `data`. Sets *at where llhttp stopped, unless it has read all. */
static llhttp_errno_t execute_new_bytes(struct http1_reader *reader, struct slice data,
                                        struct arena *arena, const char **at)
{
	llhttp_errno_t code =
	    reader->has_raw_query ? execute_request_line(reader, data, arena, at) : HPE_OK;

	if (code != HPE_OK || reader->read_len == data.len)
		return code;
	code =
	    llhttp_execute(&reader->parser, data.data + reader->read_len, data.len - reader->read_len);
	*at = llhttp_get_error_pos(&reader->parser);
	return code;
}

/*
 * Gives llhttp the bytes up to `end`. Returns HTTP1_MESSAGE if it has stopped behind the head or
 * the message, as the callbacks above make it do, or HTTP1_MORE if it has read all. llhttp refuses
 * a query with bytes outside ASCII: then it gets the request line again, with others in their
 * place.
 */
static enum http1_result feed_parser(struct http1_reader *reader, struct slice data, size_t end,
                                     struct arena *arena, struct http1_message *message)
{
	const char *at = NULL;
	llhttp_errno_t code;

	if (data.len < end)
		end = data.len;
	if (reader->read_len >= end)
		return HTTP1_MORE;
	data.len = end;
	code = execute_new_bytes(reader, data, arena, &at);
	if (__builtin_expect(code == HPE_INVALID_URL, 0) && !reader->has_raw_query &&
	    at < data.data + end && is_raw_byte(*at)) {
		begin_message(reader); /* read the request line again */
		reader->has_raw_query = true;
		code = execute_new_bytes(reader, data, arena, &at);
	}
	if (code == HPE_OK) {
		reader->read_len = end;
		return HTTP1_MORE;
	}
	if (code == HPE_PAUSED) {
		reader->read_len = (size_t)(at - data.data);
		llhttp_resume(&reader->parser);
		return HTTP1_MESSAGE;
	}
	if (code == HPE_INVALID_VERSION || code == HPE_PAUSED_H2_UPGRADE)
		return HTTP1_BAD_VERSION;
	if (!at) /* there was no memory for the copy of the request line */
		return refuse_as_bad(message, "expected more memory", reader->read_len);
	return refuse_as_bad(message, llhttp_get_error_reason(&reader->parser),
	                     (size_t)(at - data.data));
}

struct gathered_body {
	char *data;
	size_t len;
};

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
	struct gathered_body *body = parser->data;

	memcpy(body->data + body->len, at, len);
	body->len += len;
	return HPE_OK;
}

/*
 * Copies the body of a chunked message into one piece. Chunks are gathered once all have arrived,
 * because the arena may have been reset before. The same parser reads them again, because another
 * one could read them differently. Returns false if there is no memory.
 */
static bool gather_chunks(const struct http1_reader *reader, struct slice data, struct arena *arena,
                          struct slice *body)
{
	static const llhttp_settings_t body_settings = {
	    .on_body = on_body,
	    .on_message_complete = on_complete,
	};
	struct gathered_body gathered = {arena_alloc(arena, reader->read_len - reader->head_len), 0};
	struct slice line = {NULL, 0};
	llhttp_t parser;

	if (reader->has_raw_query)
		line = copy_line_without_raw_bytes(data, arena);
	if (!gathered.data || (reader->has_raw_query && !line.data))
		return false;
	llhttp_init(&parser, HTTP_REQUEST, &body_settings);
	parser.data = &gathered;
	if (line.len > 0)
		llhttp_execute(&parser, line.data, line.len);
	llhttp_execute(&parser, data.data + line.len, reader->read_len - line.len);
	*body = (struct slice){gathered.data, gathered.len};
	return true;
}

/*
 * Whether the client waits for "100 Continue" before it sends the body: not with HTTP/1.0, and not
 * once the body has begun to arrive.
 */
static bool awaits_continue(const struct http1_reader *reader, struct slice data)
{
	return !reader->continue_was_sent && reader->parser.http_minor == 1 &&
	       data.len == reader->head_len &&
	       slice_equal_nocase(http_fields_value(&reader->fields, data.data, HTTP_FIELD_EXPECT, 0),
	                          SLICE("100-continue"));
}

/* The functions below return HTTP1_MESSAGE when their part of the message is complete. */
static enum http1_result read_head(struct http1_reader *reader, struct slice data,
                                   struct arena *arena, struct http1_message *message)
{
	enum http1_result result = feed_parser(reader, data, reader->header_max, arena, message);

	if (result == HTTP1_MORE && reader->read_len >= reader->header_max)
		return reader->parser.http_major == 0 ? HTTP1_TARGET_LONG : HTTP1_HEADER_LONG;
	if (result != HTTP1_MESSAGE)
		return result;
	reader->head_len = reader->read_len;
	return check_head(reader, data, message);
}

static enum http1_result read_chunks(struct http1_reader *reader, struct slice data,
                                     struct arena *arena, struct http1_message *message)
{
	size_t end = reader->head_len + reader->body_max;
	enum http1_result result = feed_parser(reader, data, end, arena, message);

	if (result == HTTP1_MORE && reader->read_len >= end)
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
	reader->read_len = reader->head_len + len;
	return HTTP1_MESSAGE;
}

/*
 * Makes a template of this message's head, since the next message is likely the same except for its
 * target. Not of a message with a body, nor without a Host: whether a Host may be absent depends on
 * the target.
 */
static void learn_template(struct http1_reader *reader, struct slice data, struct slice target)
{
	bool has_body = reader->read_len > reader->head_len;

	if (has_body || !reader->keep_alive || !http_fields_has(&reader->fields, HTTP_FIELD_HOST))
		return;
	http1_template_learn(&reader->last_head, (struct slice){data.data, reader->head_len}, target);
	reader->former_target_len = reader->target.len;
	reader->former_line_count = reader->fields.line_count;
	reader->former_present_bits = reader->fields.present_bits;
	reader->former_has_proxy_field = reader->fields.has_proxy_field;
}

/*
 * Reads the message by the template; returns false if it does not match. The fields are those of
 * the message before, moved by the difference between the lengths of the targets.
 */
static bool read_by_template(struct http1_reader *reader, struct slice data)
{
	struct slice head = {data.data, u64_min(data.len, reader->header_max)};
	struct slice target = http1_template_match(&reader->last_head, head);
	uint32_t target_len = (uint32_t)target.len;

	if (!target.data)
		return false;
	for (unsigned i = 0; i < reader->former_line_count; i++) /* wraps modulo 2^32 */
		reader->fields.lines[i].value.at += target_len - reader->former_target_len;
	reader->former_target_len = target_len;
	reader->fields.line_count = reader->former_line_count;
	reader->fields.present_bits = reader->former_present_bits;
	reader->fields.has_proxy_field = reader->former_has_proxy_field;
	reader->target = (struct http_span){reader->last_head.before_len, target_len};
	reader->head_len = reader->read_len = http1_template_len(&reader->last_head, target_len);
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

/*
 * Reads a message: by the template of the one before, or else its head and its body. `data` begins
 * where the message does, and has more bytes in each call.
 */
enum http1_result http1_read(struct http1_reader *reader, struct slice data, struct arena *arena,
                             struct http1_message *message)
{
	enum http1_result result;

	if (data.len == 0)
		return HTTP1_MORE;
	if (reader->read_len == 0) {
		if (read_by_template(reader, data)) { /* the parser still has the method and version */
			message->body = (struct slice){data.data + reader->read_len, 0};
			fill_message(reader, data, message);
			return HTTP1_MESSAGE;
		}
		begin_message(reader);
	}
	reader->message_start = data.data;
	reader->parser.data = reader;
	if (reader->head_len == 0) {
		result = read_head(reader, data, arena, message);
		if (result != HTTP1_MESSAGE)
			return result;
	}
	result = read_body(reader, data, arena, message);
	if (result == HTTP1_MORE && awaits_continue(reader, data)) {
		reader->continue_was_sent = true;
		return HTTP1_CONTINUE;
	}
	fill_message(reader, data, message);
	if (result == HTTP1_MESSAGE)
		learn_template(reader, data, message->target);
	return result;
}
