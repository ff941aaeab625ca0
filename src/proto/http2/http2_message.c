/*
 * http2_message.c: gathers the header of a request of HTTP/2, field by field, and makes a request
 * for the server of the header and the body, with the same functions as for HTTP/1.
 */
#include "proto/http2/http2_message.h"

#include "base/error.h"
#include "proto/http/http_request.h"

/* A buffer of up to this many bytes is reused for the connection's next header. */
#define RETAINED_MAX 1024

/* Sets the error with which the request is answered; the first one counts. */
void http2_message_refuse(struct http2_message *message, enum http1_result error, const char *text)
{
	if (http2_message_is_refused(message))
		return;
	message->error = error;
	message->error_text = text;
}

static void empty_buffer(struct buffer *buffer)
{
	if (buffer->capacity > RETAINED_MAX)
		buffer_free(buffer);
	buffer->len = 0;
	buffer->failed = false;
}

void http2_message_clear(struct http2_message *message)
{
	message->method = message->target = (struct http_span){0, 0};
	message->error = HTTP1_MESSAGE;
	message->error_text = NULL;
	message->header_bytes = 0;
	empty_buffer(&message->header);
	http_fields_clear(&message->fields);
}

/* Adds :authority or Host. Clients may send both if they are equal. */
static void add_host(struct http2_message *message, struct slice value)
{
	struct slice host;

	if (!http_fields_has(&message->fields, HTTP_FIELD_HOST)) {
		http_fields_store(&message->fields, HTTP_FIELD_HOST,
		                  http_header_add(&message->header, SLICE("host"), value));
		return;
	}
	host = http_fields_value(&message->fields, message->header.data, HTTP_FIELD_HOST, 0);
	if (!slice_equal(host, value))
		http2_message_refuse(message, HTTP1_BAD, "expected one Host, found several");
}

/* Pseudo-headers are stored without a name, so that http_header_next skips them. */
#define PSEUDO                                                                                     \
	(struct slice)                                                                                 \
	{                                                                                              \
		NULL, 0                                                                                    \
	}

static void add_method(struct http2_message *message, struct slice value)
{
	if (value.len > HTTP2_METHOD_MAX)
		http2_message_refuse(message, HTTP1_BAD, "expected a method of at most 16 bytes");
	else
		message->method = http_header_add(&message->header, PSEUDO, value);
}

/* One letter identifies the pseudo-header, since nghttp2 refuses all but the four of a request. */
static void add_pseudo(struct http2_message *message, char initial, struct slice value)
{
	if (initial == 'm')
		add_method(message, value);
	else if (initial == 'p')
		message->target = http_header_add(&message->header, PSEUDO, value);
	else if (initial == 'a')
		add_host(message, value);
}

/* Adds a field of the header, or a pseudo-header, such as the method of the request. */
void http2_message_add(struct http2_message *message, struct slice name, struct slice value)
{
	bool is_pseudo = name.len >= 2 && name.data[0] == ':';

	if (is_pseudo)
		add_pseudo(message, name.data[1], value);
	else if (slice_equal(name, SLICE("host")))
		add_host(message, value);
	else
		http_fields_add(&message->fields, name, http_header_add(&message->header, name, value));
	if (message->fields.too_many)
		http2_message_refuse(message, HTTP1_HEADER_LONG, NULL);
}

bool http2_message_awaits_continue(const struct http2_message *message)
{
	return slice_equal_nocase(
	    http_fields_value(&message->fields, message->header.data, HTTP_FIELD_EXPECT, 0),
	    SLICE("100-continue"));
}

size_t http2_message_size(const struct http2_message *message)
{
	return sizeof *message + message->header.capacity + message->body.capacity;
}

void http2_message_free(struct http2_message *message)
{
	buffer_free(&message->header);
	buffer_free(&message->body);
}

static struct slice value_at(const char *header, struct http_span span)
{
	return (struct slice){header + span.at, span.len};
}

/* Fills in the request, from a copy of the message: the stream may end before the answer. */
void http2_message_read(const struct http2_message *message, const struct codec_bounds *bounds,
                        struct arena *arena, struct request *request)
{
	const struct buffer *header = &message->header, *body = &message->body;
	char *copy = arena_alloc(arena, header->len + body->len + 1);
	struct http_request http;

	fill_begin(&http.fill, request, bounds, arena);
	*request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	if (!copy) {
		error_set(&http.fill.error, WEIR_ENOMEM, "out of memory");
		http_refuse_as(&http.fill, HTTP_ERROR_MEMORY);
	} else if (http2_message_is_refused(message)) {
		http_refuse_framing(&http.fill, message->error, message->error_text, header->len);
	} else {
		http.fields = &message->fields;
		http.head_start = memcpy(copy, header->data, header->len);
		http.header = (struct http_header){{copy, header->len}, .is_text = false};
		http.method = value_at(copy, message->method);
		http.target = value_at(copy, message->target);
		http.body = (struct slice){copy + header->len, body->len};
		if (body->len > 0)
			memcpy(copy + header->len, body->data, body->len);
		http_read_request(&http);
	}
}
