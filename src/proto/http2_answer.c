#include "proto/http2.h"

#include <stdlib.h>

#include "base/number.h"
#include "proto/http2_inside.h"
#include "proto/http_session.h"

/* Fields of an answer, and their names. */
#define FIELDS_MAX 16
#define NAMES_MAX  512

/* Before each answer in what http2_reply makes. */
struct record {
	uint32_t place, len;
	bool close;
};

void http2_drop_unsent(struct http2 *http2, struct http2_stream *stream)
{
	if (stream->copy) {
		http2->unsent -= stream->unsent.len;
		http2_count(http2, -(ptrdiff_t)stream->unsent.len);
	}
	free(stream->copy);
	stream->copy = NULL;
	stream->unsent = (struct slice){NULL, 0};
}

void http2_drain(struct http2 *http2, struct buffer *out)
{
	const uint8_t *data;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(http2->session, &data)) > 0)
		buffer_add(out, data, (size_t)n);
	if (n < 0)
		http2->has_failed = true;
}

void http2_reply(const struct request *request, const struct reply *reply, struct buffer *out)
{
	struct record record = {request->stream, 0, request->close};
	size_t at = out->len;

	if (request->kind == REQUEST_INTERIM)
		return;
	buffer_add(out, &record, sizeof record);
	http_reply(request, reply, out);
	if (out->failed)
		return;
	record.len = (uint32_t)(out->len - at - sizeof record);
	memcpy(out->data + at, &record, sizeof record);
}

static ssize_t read_unsent(nghttp2_session *session, int32_t id, uint8_t *to, size_t len,
                           uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream = source->ptr;

	(void)session, (void)id;
	len = u64_min(len, stream->unsent.len);
	memcpy(to, stream->unsent.data, len);
	stream->unsent = (struct slice){stream->unsent.data + len, stream->unsent.len - len};
	if (stream->copy) {
		http2->unsent -= len;
		http2_count(http2, -(ptrdiff_t)len);
	}
	if (stream->unsent.len == 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

/* Whether each answer has another value: the peer need not remember those. */
static bool is_of_one_answer(struct slice name)
{
	return slice_equal(name, SLICE("ratelimit")) || slice_equal(name, SLICE("retry-after"));
}

/* Names of our fields have letters, digits and '-', of which the last two have the bit. */
static void copy_lower(char *to, struct slice name)
{
	uint64_t eight;

	for (; name.len >= sizeof eight; name.data += sizeof eight, name.len -= sizeof eight) {
		memcpy(&eight, name.data, sizeof eight);
		eight |= UINT64_C(0x2020202020202020);
		to = mempcpy(to, &eight, sizeof eight);
	}
	for (size_t i = 0; i < name.len; i++)
		to[i] = (char)(name.data[i] | 0x20);
}

/* The lines of an answer's head as fields; *head becomes its body. */
static size_t read_head(struct slice *head, nghttp2_nv *fields, char *names)
{
	const uint8_t flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
	struct slice status = slice_cut(head, '\n'), name, value;
	char *end = names + NAMES_MAX;
	size_t n = 0;

	fields[n++] = (nghttp2_nv){(uint8_t *)":status", (uint8_t *)status.data + strlen("HTTP/1.1 "), 7, 3,
	                           flags};
	while (http_next_line(head, &name, &value)) {
		if (slice_equal_nocase(name, SLICE("connection")) || n == FIELDS_MAX ||
		    name.len > (size_t)(end - names))
			continue;
		copy_lower(names, name);
		name.data = names;
		fields[n++] = (nghttp2_nv){(uint8_t *)names, (uint8_t *)value.data, name.len, value.len,
		                           flags | (is_of_one_answer(name) ? NGHTTP2_NV_FLAG_NO_INDEX : 0)};
		names += name.len;
	}
	return n;
}

/* The answer's memory is the caller's: keeps a copy of what the window did not admit. */
static void keep_unsent(struct http2 *http2, struct http2_stream *stream)
{
	size_t len = stream->unsent.len;

	stream->copy = malloc(len);
	if (!stream->copy) {
		stream->unsent.len = 0;
		http2->has_failed = true;
		return;
	}
	memcpy(stream->copy, stream->unsent.data, len);
	stream->unsent.data = stream->copy;
	http2->unsent += len;
	http2_count(http2, (ptrdiff_t)len);
}

static void answer(struct http2 *http2, int32_t id, struct slice text, struct buffer *out)
{
	struct http2_stream *stream = http2_find(http2, id);
	nghttp2_data_provider body = {{.ptr = stream}, read_unsent};
	nghttp2_nv fields[FIELDS_MAX];
	char names[NAMES_MAX];
	size_t n;

	if (!stream || stream->is_answered)
		return;
	n = read_head(&text, fields, names);
	stream->is_answered = true;
	stream->unsent = text;
	http2_drop_input(http2, stream);
	if (nghttp2_submit_response(http2->session, id, fields, n, text.len > 0 ? &body : NULL) != 0)
		http2->has_failed = true;
	http2_drain(http2, out);
	stream = http2_find(http2, id);
	if (!stream)
		return;
	if (stream->unsent.len > 0)
		keep_unsent(http2, stream);
	else if (!stream->has_ended) /* its answer did not need the rest of the request */
		http2_reset(http2, id, NGHTTP2_NO_ERROR);
}

void http2_send(struct http2 *http2, struct slice answers, struct buffer *out)
{
	struct record record;

	buffer_add(out, http2->wire.data, http2->wire.len);
	buffer_free(&http2->wire);
	while (answers.len >= sizeof record) {
		memcpy(&record, answers.data, sizeof record);
		answers = (struct slice){answers.data + sizeof record, answers.len - sizeof record};
		answer(http2, http2_places_leave(&http2->places, record.place),
		       (struct slice){answers.data, record.len}, out);
		answers = (struct slice){answers.data + record.len, answers.len - record.len};
		if (record.close)
			nghttp2_session_terminate_session(http2->session, NGHTTP2_NO_ERROR);
	}
	http2_drain(http2, out);
}
