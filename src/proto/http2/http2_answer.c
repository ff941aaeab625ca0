/*
 * http2_answer.c: writes the answers of an HTTP/2 connection. An answer, which may be given at any
 * time and in any order, is stored first. Frames are made of it only when it is sent, because the
 * frames of a connection must be sent in the order in which nghttp2 makes them.
 */
#include "proto/http2/http2.h"

#include <stdlib.h>

#include "base/number.h"
#include "proto/http/http_answer.h"
#include "proto/http/http_session.h"
#include "proto/http2/http2_internal.h"

/* An answer as http2_store_answer stores it; its body and the values of its fields follow. */
struct stored_answer {
	uint32_t request_number, body_len, values_len;
	uint32_t content_len; /* Content-Length, also if the body is not sent */
	char status[3];
	bool close_after;
	unsigned char field_count;
	struct slice type; /* see struct http_answer */
	struct http_answer_field fields[HTTP_ANSWER_NAMES];
};

/* The fields of an answer, with status, Content-Type and Content-Length. */
#define FIELDS_MAX (HTTP_ANSWER_NAMES + 3)

/* Appends the answer as a struct stored_answer; http2_frame_answers reads it. */
void http2_store_answer(const struct request *request, const struct reply *reply,
                        struct buffer *out)
{
	struct stored_answer stored;
	struct http_answer answer;
	size_t start = out->len, body_start = start + sizeof stored;

	if (request->kind == REQUEST_INTERIM) /* it only makes the server send frames of nghttp2 */
		return;
	if (buffer_reserve(out, sizeof stored))
		out->len = body_start;
	http_answer_make(&answer, request, reply, out); /* appends the body */
	stored.request_number = request->stream;
	stored.close_after = request->close_after;
	stored.content_len = (uint32_t)(out->len - body_start);
	if (request->flags & HTTP_NO_BODY)
		out->len = body_start;
	stored.body_len = (uint32_t)(out->len - body_start);
	stored.values_len = (uint32_t)answer.values.len;
	stored.type = answer.type;
	stored.field_count = (unsigned char)answer.field_count;
	memcpy(stored.status, answer.status, sizeof stored.status);
	memcpy(stored.fields, answer.fields, answer.field_count * sizeof *answer.fields);
	buffer_add(out, answer.values.data, answer.values.len);
	if (!out->failed)
		memcpy(out->data + start, &stored, sizeof stored);
}

/* nghttp2 calls it for the next piece of an answer's body that the peer's window admits. */
static ssize_t read_unsent(nghttp2_session *session, int32_t id, uint8_t *to, size_t len,
                           uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream = source->ptr;

	(void)session, (void)id;
	len = u64_min(len, stream->unsent.len);
	memcpy(to, stream->unsent.data, len);
	stream->unsent = (struct slice){stream->unsent.data + len, stream->unsent.len - len};
	if (stream->unsent_copy) {
		http2->unsent_bytes -= len;
		http2_count_session_bytes(http2, -(ptrdiff_t)len);
	}
	if (stream->unsent.len == 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

/* A field that `varies` has another value in most answers, so HPACK should not index it. */
static nghttp2_nv make_field(struct slice name, struct slice value, bool varies)
{
	return (nghttp2_nv){(uint8_t *)name.data, (uint8_t *)value.data, name.len, value.len,
	                    NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE |
	                        (varies ? NGHTTP2_NV_FLAG_NO_INDEX : 0)};
}

/* Fills in the fields of an answer; returns how many. `length` has space for Content-Length. */
static size_t make_fields(const struct stored_answer *stored, const char *values, char *length,
                          nghttp2_nv *fields)
{
	static const struct {
		struct slice name;
		bool varies;
	} names[] = {
#define X(name, field, http2, varies) [HTTP_ANSWER_##name] = {SLICE(http2), varies},
	    HTTP_ANSWER_FIELDS(X)
#undef X
	};
	struct slice digits = {length, (size_t)(format_u64(length, stored->content_len) - length)};
	size_t n = 0;

	fields[n++] = make_field(SLICE(":status"), (struct slice){stored->status, 3}, false);
	if (stored->type.data)
		fields[n++] = make_field(SLICE("content-type"), stored->type, false);
	fields[n++] = make_field(SLICE("content-length"), digits, false);
	for (unsigned i = 0; i < stored->field_count; i++) {
		const struct http_answer_field *field = &stored->fields[i];

		fields[n++] = make_field(names[field->name].name, (struct slice){values, field->len},
		                         names[field->name].varies);
		values += field->len;
	}
	return n;
}

/* Copies the part of the body that the window did not admit, since the caller owns its memory. */
static void copy_unsent(struct http2 *http2, struct http2_stream *stream)
{
	size_t len = stream->unsent.len;

	stream->unsent_copy = malloc(len);
	if (!stream->unsent_copy) {
		stream->unsent.len = 0;
		http2->has_failed = true;
		return;
	}
	memcpy(stream->unsent_copy, stream->unsent.data, len);
	stream->unsent.data = stream->unsent_copy;
	http2->unsent_bytes += len;
	http2_count_session_bytes(http2, (ptrdiff_t)len);
}

/* Appends the frames of the answer, without asking nghttp2 for others. */
static void drain_answer(struct http2 *http2, struct buffer *out)
{
	while (http2->answered_stream && http2_drain_frame(http2, out))
		;
}

/*
 * Has nghttp2 make the frames of an answer, whose body and values are at `body`, and appends them.
 * If the answer is sent whole and the request is complete, nghttp2 closes the stream, and
 * on_stream_close sets answered_stream to NULL.
 */
static void send_answer(struct http2 *http2, const struct stored_answer *stored, const char *body,
                        struct buffer *out)
{
	int32_t id = http2_requests_remove(&http2->requests, stored->request_number);
	struct http2_stream *stream = http2_find_stream(http2, id);
	nghttp2_data_provider source = {{.ptr = stream}, read_unsent};
	nghttp2_nv fields[FIELDS_MAX];
	char length[20]; /* the digits of Content-Length */
	size_t n;

	if (!stream || stream->is_answered)
		return;
	n = make_fields(stored, body + stored->body_len, length, fields);
	stream->is_answered = true;
	stream->unsent = (struct slice){body, stored->body_len};
	http2_free_request(http2, stream);
	if (nghttp2_submit_response(http2->session, id, fields, n,
	                            stored->body_len > 0 ? &source : NULL) != 0)
		http2->has_failed = true;
	http2->answered_stream = stream;
	drain_answer(http2, out);
	stream = http2->answered_stream;
	if (!stream)
		return;
	http2->answered_stream = NULL;
	if (stream->unsent.len > 0)
		copy_unsent(http2, stream);
	else if (!stream->has_ended) /* the rest of the request is not needed */
		http2_reset_stream(http2, id, NGHTTP2_NO_ERROR);
}

/* Appends the frames that wait, and those of the answers; each of `answers` is a stored_answer. */
void http2_frame_answers(struct http2 *http2, struct slice answers, struct buffer *out)
{
	struct stored_answer stored;

	buffer_add(out, http2->frames_to_send.data, http2->frames_to_send.len);
	buffer_free(&http2->frames_to_send);
	while (answers.len >= sizeof stored) {
		size_t len;

		memcpy(&stored, answers.data, sizeof stored);
		len = sizeof stored + stored.body_len + stored.values_len;
		send_answer(http2, &stored, answers.data + sizeof stored, out);
		answers = (struct slice){answers.data + len, answers.len - len};
		if (stored.close_after)
			nghttp2_session_terminate_session(http2->session, NGHTTP2_NO_ERROR);
	}
	http2_drain(http2, out);
}
