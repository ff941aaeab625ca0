#include "proto/http2/http2.h"

#include <stdlib.h>

#include "base/number.h"
#include "proto/http/http_answer.h"
#include "proto/http/http_session.h"
#include "proto/http2/http2_internal.h"

/* An answer in what http2_reply makes; its body and the values of its fields follow. */
struct record {
	uint32_t number, body_len, values_len;
	uint32_t content_len; /* also of a body that is not sent */
	char status[3];
	bool close;
	unsigned char field_count;
	struct slice type; /* see struct http_answer */
	struct http_answer_field fields[HTTP_ANSWER_NAMES];
};

/* The fields of an answer, and the status, type and length of its body. */
#define FIELDS_MAX (HTTP_ANSWER_NAMES + 3)

void http2_reply(const struct request *request, const struct reply *reply, struct buffer *out)
{
	struct record record;
	struct http_answer answer;
	size_t at = out->len, body = at + sizeof record;

	if (request->kind == REQUEST_INTERIM)
		return;
	if (buffer_reserve(out, sizeof record))
		out->len = body;
	http_answer_make(&answer, request, reply, out);
	record.number = request->stream;
	record.close = request->close;
	record.content_len = (uint32_t)(out->len - body);
	if (request->flags & HTTP_NO_BODY)
		out->len = body;
	record.body_len = (uint32_t)(out->len - body);
	record.values_len = (uint32_t)answer.values.len;
	record.type = answer.type;
	record.field_count = (unsigned char)answer.field_count;
	memcpy(record.status, answer.status, sizeof record.status);
	memcpy(record.fields, answer.fields, answer.field_count * sizeof *answer.fields);
	buffer_add(out, answer.values.data, answer.values.len);
	if (!out->failed)
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

static nghttp2_nv field_of(struct slice name, struct slice value, bool varies)
{
	return (nghttp2_nv){(uint8_t *)name.data, (uint8_t *)value.data, name.len, value.len,
	                    NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE |
	                        (varies ? NGHTTP2_NV_FLAG_NO_INDEX : 0)};
}

/* Returns how many. `length` has room for the digits of the body's. */
static size_t fields_of(const struct record *record, const char *values, char *length,
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
	struct slice digits = {length, (size_t)(format_u64(length, record->content_len) - length)};
	size_t n = 0;

	fields[n++] = field_of(SLICE(":status"), (struct slice){record->status, 3}, false);
	if (record->type.data)
		fields[n++] = field_of(SLICE("content-type"), record->type, false);
	fields[n++] = field_of(SLICE("content-length"), digits, false);
	for (unsigned i = 0; i < record->field_count; i++) {
		const struct http_answer_field *field = &record->fields[i];

		fields[n++] = field_of(names[field->name].name, (struct slice){values, field->len},
		                       names[field->name].varies);
		values += field->len;
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

/* Appends all frames up to the answer's last. The search for more is left to the end. */
static void drain_answer(struct http2 *http2, struct buffer *out)
{
	while (http2->answered && http2_drain_frame(http2, out))
		;
}

/* `body` is the answer's, and its values follow. */
static void answer(struct http2 *http2, const struct record *record, const char *body,
                   struct buffer *out)
{
	int32_t id = http2_requests_remove(&http2->requests, record->number);
	struct http2_stream *stream = http2_find(http2, id);
	nghttp2_data_provider source = {{.ptr = stream}, read_unsent};
	nghttp2_nv fields[FIELDS_MAX];
	char length[20];
	size_t n;

	if (!stream || stream->is_answered)
		return;
	n = fields_of(record, body + record->body_len, length, fields);
	stream->is_answered = true;
	stream->unsent = (struct slice){body, record->body_len};
	http2_drop_input(http2, stream);
	if (nghttp2_submit_response(http2->session, id, fields, n,
	                            record->body_len > 0 ? &source : NULL) != 0)
		http2->has_failed = true;
	http2->answered = stream;
	drain_answer(http2, out);
	stream = http2->answered;
	if (!stream)
		return;
	http2->answered = NULL;
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
		size_t len;

		memcpy(&record, answers.data, sizeof record);
		len = sizeof record + record.body_len + record.values_len;
		answer(http2, &record, answers.data + sizeof record, out);
		answers = (struct slice){answers.data + len, answers.len - len};
		if (record.close)
			nghttp2_session_terminate_session(http2->session, NGHTTP2_NO_ERROR);
	}
	http2_drain(http2, out);
}
