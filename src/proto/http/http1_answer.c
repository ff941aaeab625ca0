/* http1_answer.c: writes the answer to a request as a message of HTTP/1: status line, header fields
 * and body. */
#include "base/number.h"
#include "proto/http/http_answer.h"
#include "proto/http/http_session.h"

/* Enough for any head: the values, and the text around them. */
#define HEAD_MAX (HTTP_ANSWER_VALUES_MAX + 512)

/* Like the functions below, returns the end of what it has written. */
static char *put(char *to, struct slice text)
{
	return mempcpy(to, text.data, text.len);
}

static char *put_fields(char *to, const struct http_answer *answer)
{
	static const struct slice names[] = {
#define X(name, field, http2, varies) [HTTP_ANSWER_##name] = SLICE(field ": "),
	    HTTP_ANSWER_FIELDS(X)
#undef X
	};
	const char *value = answer->values.data;

	for (unsigned i = 0; i < answer->field_count; i++) {
		const struct http_answer_field *field = &answer->fields[i];

		to = put(to, names[field->name]);
		to = mempcpy(to, value, field->len);
		to = put(to, SLICE("\r\n"));
		value += field->len;
	}
	return to;
}

/* Writes the status line and the header fields. */
static char *put_head(char *to, const struct http_answer *answer, const struct request *request,
                      size_t body_len)
{
	to = put(to, SLICE("HTTP/1.1 "));
	to = put(to, slice_of(answer->status));
	if (answer->type.data) {
		to = put(to, SLICE("\r\nContent-Type: "));
		to = put(to, answer->type);
	}
	if (!answer->is_stream) {
		to = put(to, SLICE("\r\nContent-Length: "));
		to = format_u64(to, body_len);
	}
	if (request->close_after || answer->is_stream)
		to = put(to, SLICE("\r\nConnection: close"));
	else if (request->flags & HTTP_KEEP_ALIVE)
		to = put(to, SLICE("\r\nConnection: keep-alive"));
	to = put(to, SLICE("\r\n"));
	to = put_fields(to, answer);
	return put(to, SLICE("\r\n"));
}

/* Writes the body first, since the head contains its length, and then moves it. */
static void add_answer(const struct request *request, const struct reply *reply, struct buffer *out)
{
	struct http_answer answer;
	char head[HEAD_MAX];
	size_t start = out->len, head_len, body_len;

	http_answer_make(&answer, request, reply, out);
	head_len = (size_t)(put_head(head, &answer, request, out->len - start) - head);
	if (request->flags & HTTP_NO_BODY)
		out->len = start;
	body_len = out->len - start;
	if (!buffer_reserve(out, head_len))
		return;
	memmove(out->data + start + head_len, out->data + start, body_len);
	memcpy(out->data + start, head, head_len);
	out->len += head_len;
}

void http1_append_answer(const struct request *request, const struct reply *reply,
                         struct buffer *out)
{
	if (request->kind == REQUEST_INTERIM)
		buffer_add_text(out, "HTTP/1.1 100 Continue\r\n\r\n");
	else
		add_answer(request, reply, out);
}
