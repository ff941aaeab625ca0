#include "proto/http2_message.h"

#include "base/error.h"
#include "proto/http_call.h"

void http2_message_refuse(struct http2_message *message, enum http1_result error, const char *what)
{
	if (message->error != HTTP1_MESSAGE)
		return;
	message->error = error;
	message->what = what;
}

static void add_line(struct http2_message *message, struct slice name, struct slice value)
{
	struct http_span span = {(uint32_t)(message->lines.len + name.len + 2), (uint32_t)value.len};

	buffer_add_slice(&message->lines, name);
	buffer_add(&message->lines, ": ", 2);
	buffer_add_slice(&message->lines, value);
	buffer_add(&message->lines, "\r\n", 2);
	http_fields_add(&message->fields, name, span);
	if (message->fields.too_many)
		http2_message_refuse(message, HTTP1_HEADER_LONG, NULL);
}

/* Clients may send both :authority and Host, if both say the same. */
static void add_host(struct http2_message *message, struct slice value)
{
	struct slice said = http_fields_value(&message->fields, message->lines.data, HTTP_FIELD_HOST, 0);

	if (!said.data)
		add_line(message, SLICE("host"), value);
	else if (!slice_equal(said, value))
		http2_message_refuse(message, HTTP1_BAD, "expected one Host, found several");
}

void http2_message_add(struct http2_message *message, struct slice name, struct slice value)
{
	if (slice_equal(name, SLICE(":method"))) {
		if (value.len > HTTP2_METHOD_MAX)
			http2_message_refuse(message, HTTP1_BAD, "expected a method of at most 16 bytes");
		else
			memcpy(message->method, value.data, value.len);
	} else if (slice_equal(name, SLICE(":path"))) {
		buffer_add_slice(&message->target, value);
	} else if (slice_equal(name, SLICE(":authority")) || slice_equal(name, SLICE("host"))) {
		add_host(message, value);
	} else if (name.len > 0 && name.data[0] != ':') {
		add_line(message, name, value);
	}
}

bool http2_message_awaits_continue(const struct http2_message *message)
{
	return slice_equal_nocase(
	    http_fields_value(&message->fields, message->lines.data, HTTP_FIELD_EXPECT, 0),
	    SLICE("100-continue"));
}

void http2_message_free(struct http2_message *message)
{
	buffer_free(&message->target);
	buffer_free(&message->lines);
	buffer_free(&message->body);
}

static char *copy_to(struct arena *arena, const struct buffer *from)
{
	char *to = arena_alloc(arena, from->len + 1);

	if (to && from->len > 0)
		memcpy(to, from->data, from->len);
	return to;
}

void http2_message_read(const struct http2_message *message, const struct codec_limits *limits,
                        struct arena *arena, struct request *request)
{
	char *target = copy_to(arena, &message->target), *lines = copy_to(arena, &message->lines);
	char *body = copy_to(arena, &message->body), *method = arena_copy(arena, slice_of(message->method));
	struct http_call call = {
	    .fill = {.request = request, .limits = limits, .arena = arena},
	    .fields = &message->fields,
	    .base = lines,
	    .lines = {lines, message->lines.len},
	    .method = method,
	    .target = {target, message->target.len},
	    .body = {body, message->body.len},
	};

	*request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	if (!target || !lines || !body || !method) {
		error_set(&call.fill.error, WEIR_ENOMEM, "out of memory");
		http_refuse_as(&call.fill, HTTP_ERROR_MEMORY);
	} else if (message->error != HTTP1_MESSAGE) {
		http_refuse_framing(&call.fill, message->error, message->what, message->lines.len);
	} else {
		http_read(&call);
	}
}
