#include "proto/http2.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "base/number.h"
#include "proto/http2_ids.h"
#include "proto/http2_message.h"
#include "proto/http2_places.h"
#include "proto/http_session.h"

#define FRAME_HEAD 9
#define FRAME_MAX  16384 /* without its head; nobody may ask for less */
/* Fields of an answer, and their names. */
#define FIELDS_MAX 16
#define NAMES_MAX  512

struct stream {
	struct stream *next, **link; /* of the connection's */
	int32_t id;
	bool has_ended;           /* the request is complete */
	bool is_asked;            /* parse has handed it over */
	bool is_answered;
	bool is_reset;            /* by us: what comes for it is dropped */
	struct http2_message message;
	size_t kept;
	struct slice unsent;       /* of the answer's body ... */
	char *copy;                /* ... and its memory, if it outlives http2_send */
};

struct http2 {
	nghttp2_session *session;
	const struct codec_limits *limits;
	struct stream *streams;
	struct stream *ready; /* its request came with the frame that is read */
	struct buffer wire;   /* frames that leave with the next answers */
	size_t left;          /* bytes of a frame that is given in parts */
	size_t input, unsent;
	struct http2_places places;
	struct http2_ids ids;
	int32_t last;         /* the stream of the last request, its place, ... */
	unsigned last_place;
	size_t last_len;      /* ... and the bytes of its last frame */
	bool again;           /* it is to be handed over once more */
	bool has_failed;
	int patience;
};

/* Before each answer in what http2_reply makes. */
struct record {
	uint32_t place, len;
	bool close;
};

static void count(struct http2 *http2, ptrdiff_t bytes)
{
	if (http2->limits->kept)
		atomic_fetch_add_explicit(http2->limits->kept, (uint64_t)bytes, memory_order_relaxed);
}

static void drop_input(struct http2 *http2, struct stream *stream)
{
	http2->input -= stream->kept;
	count(http2, -(ptrdiff_t)stream->kept);
	stream->kept = 0;
	http2_message_free(&stream->message);
}

static void drop_unsent(struct http2 *http2, struct stream *stream)
{
	if (stream->copy) {
		http2->unsent -= stream->unsent.len;
		count(http2, -(ptrdiff_t)stream->unsent.len);
	}
	free(stream->copy);
	stream->copy = NULL;
	stream->unsent = (struct slice){NULL, 0};
}

static void free_stream(struct http2 *http2, struct stream *stream)
{
	drop_input(http2, stream);
	drop_unsent(http2, stream);
	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	if (http2->ready == stream)
		http2->ready = NULL;
	free(stream);
}

static struct stream *find_stream(const struct http2 *http2, int32_t id)
{
	return nghttp2_session_get_stream_user_data(http2->session, id);
}

static void reset_stream(struct http2 *http2, int32_t id, uint32_t code)
{
	if (nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, id, code) != 0)
		http2->has_failed = true;
}

/* Room for `bytes` more of a request. False: it is dropped. */
static bool keep(struct http2 *http2, struct stream *stream, size_t bytes)
{
	if (http2->input + bytes > HTTP2_INPUT_MAX) {
		stream->is_reset = true;
		drop_input(http2, stream);
		reset_stream(http2, stream->id, NGHTTP2_ENHANCE_YOUR_CALM);
		return false;
	}
	stream->kept += bytes;
	http2->input += bytes;
	count(http2, (ptrdiff_t)bytes);
	return true;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *context)
{
	struct http2 *http2 = context;

	if (head->type == NGHTTP2_HEADERS && !http2_ids_see(&http2->ids, head->stream_id))
		nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct http2 *http2 = context;
	struct stream *stream;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (http2->unsent > HTTP2_UNSENT_MAX) {
		reset_stream(http2, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	stream = calloc(1, sizeof *stream);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	stream->id = frame->hd.stream_id;
	stream->message.error = HTTP1_MESSAGE;
	stream->next = http2->streams;
	stream->link = &http2->streams;
	if (stream->next)
		stream->next->link = &stream->next;
	http2->streams = stream;
	return nghttp2_session_set_stream_user_data(session, stream->id, stream);
}

static struct slice slice_of_rcbuf(nghttp2_rcbuf *rcbuf)
{
	nghttp2_vec vec = nghttp2_rcbuf_get_buf(rcbuf);

	return (struct slice){(const char *)vec.base, vec.len};
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name_ref,
                     nghttp2_rcbuf *value_ref, uint8_t flags, void *context)
{
	struct http2 *http2 = context;
	struct stream *stream = find_stream(http2, frame->hd.stream_id);
	struct slice name = slice_of_rcbuf(name_ref), value = slice_of_rcbuf(value_ref);
	size_t bytes = name.len + value.len + 4;

	(void)session, (void)flags;
	if (!stream || stream->is_reset || stream->message.error != HTTP1_MESSAGE ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (stream->kept + bytes > http2->limits->header_max) {
		http2_message_refuse(&stream->message,
		                     name.data[0] == ':' ? HTTP1_TARGET_LONG : HTTP1_HEADER_LONG, NULL);
		return 0;
	}
	if (!keep(http2, stream, bytes))
		return 0;
	http2_message_add(&stream->message, name, value);
	return stream->message.lines.failed || stream->message.target.failed
	           ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
	           : 0;
}

static int on_body(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *context)
{
	struct http2 *http2 = context;
	struct stream *stream = find_stream(http2, id);

	(void)session, (void)flags;
	if (!stream || stream->is_reset || stream->message.error != HTTP1_MESSAGE)
		return 0;
	if (stream->message.body.len + len > http2->limits->request_max)
		http2_message_refuse(&stream->message, HTTP1_BODY_LONG, NULL);
	else if (keep(http2, stream, len))
		buffer_add(&stream->message.body, data, len);
	if (stream->message.body.failed) {
		stream->is_reset = true;
		reset_stream(http2, id, NGHTTP2_INTERNAL_ERROR);
	}
	return 0;
}

static void tell_to_continue(struct http2 *http2, const struct stream *stream)
{
	static const nghttp2_nv interim = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, 0};

	if (nghttp2_submit_headers(http2->session, 0, stream->id, NULL, &interim, 1, NULL) != 0)
		http2->has_failed = true;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct http2 *http2 = context;
	struct stream *stream;

	(void)session;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = find_stream(http2, frame->hd.stream_id);
	if (!stream || stream->is_reset)
		return 0;
	stream->has_ended |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	if (stream->is_asked)
		return 0;
	if (stream->has_ended || stream->message.error != HTTP1_MESSAGE) {
		stream->is_asked = true;
		http2->ready = stream;
	} else if (frame->hd.type == NGHTTP2_HEADERS && http2_message_awaits_continue(&stream->message)) {
		tell_to_continue(http2, stream);
	}
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
	struct http2 *http2 = context;
	struct stream *stream = find_stream(http2, id);

	(void)session, (void)code;
	if (!stream)
		return 0;
	if (!stream->is_answered)
		http2->patience -= HTTP2_RESET_COST;
	free_stream(http2, stream);
	return 0;
}

static nghttp2_session *open_session(struct http2 *http2)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_body);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	if (nghttp2_session_server_new(&session, callbacks, http2) != 0)
		session = NULL;
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

struct http2 *http2_open(const struct codec_limits *limits)
{
	const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS_MAX},
	    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)limits->request_max + 1},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_max},
	};
	struct http2 *http2 = calloc(1, sizeof *http2);

	if (!http2)
		return NULL;
	http2->limits = limits;
	http2->left = HTTP2_PREFACE.len;
	http2->patience = HTTP2_PATIENCE;
	http2->session = open_session(http2);
	if (!http2->session || nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, settings,
	                                               sizeof settings / sizeof *settings) != 0) {
		http2_close(http2);
		return NULL;
	}
	return http2;
}

void http2_close(struct http2 *http2)
{
	if (!http2)
		return;
	nghttp2_session_del(http2->session);
	while (http2->streams)
		free_stream(http2, http2->streams);
	buffer_free(&http2->wire);
	free(http2->places.streams);
	free(http2);
}

static void drain(struct http2 *http2, struct buffer *out)
{
	const uint8_t *data;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(http2->session, &data)) > 0)
		buffer_add(out, data, (size_t)n);
	if (n < 0)
		http2->has_failed = true;
}

/* How many bytes to give nghttp2 now: a frame, or part of one that may be longer than the input. */
static size_t next_len(struct http2 *http2, struct slice data)
{
	const unsigned char *head = (const unsigned char *)data.data;
	size_t len, room = http2->limits->header_max + http2->limits->request_max;

	if (http2->left == 0) {
		if (data.len < FRAME_HEAD)
			return 0;
		len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
		/* nghttp2 refuses a longer one by its head. */
		len = len > FRAME_MAX ? FRAME_HEAD : FRAME_HEAD + len;
		if (data.len < len && data.len < room)
			return 0;
		http2->left = len;
	}
	len = u64_min(http2->left, data.len);
	http2->left -= len;
	return len;
}

/* Hands over the request of `id`; SKIPPED: nobody waits for it any more. */
static enum codec_result hand_over(struct http2 *http2, int32_t id, struct arena *arena,
                                   struct request *request)
{
	const struct stream *stream = find_stream(http2, id);

	if (!stream)
		return CODEC_SKIPPED;
	http2_message_read(&stream->message, http2->limits, arena, request);
	if (request->kind == REQUEST_EVENTS) { /* these need a connection of their own */
		reset_stream(http2, id, NGHTTP2_HTTP_1_1_REQUIRED);
		return CODEC_SKIPPED;
	}
	http2->last_place = http2_places_take(&http2->places, id);
	if (!http2->last_place) {
		reset_stream(http2, id, NGHTTP2_REFUSED_STREAM);
		return CODEC_SKIPPED;
	}
	request->stream = http2->last_place & ((1u << REQUEST_STREAM_BITS) - 1);
	return CODEC_REQUEST;
}

static void feed(struct http2 *http2, struct slice bytes)
{
	http2->ready = NULL;
	/* Below 0: it takes the peer for a flood, or has no memory. */
	if (nghttp2_session_mem_recv(http2->session, (const uint8_t *)bytes.data, bytes.len) < 0)
		http2->patience = 0;
	http2->patience += http2->ready ? HTTP2_REQUEST_GAIN : -1;
	if (http2->patience > HTTP2_PATIENCE)
		http2->patience = HTTP2_PATIENCE;
	if (http2->patience <= 0)
		nghttp2_session_terminate_session(http2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

enum codec_result http2_parse(struct http2 *http2, struct slice data, size_t *consumed,
                              struct arena *arena, struct request *request)
{
	enum codec_result result = CODEC_SKIPPED;
	bool is_over;

	if (http2->again) {
		http2->again = false;
		*consumed = http2->last_len;
		result = hand_over(http2, http2->last, arena, request);
	} else {
		*consumed = next_len(http2, data);
		if (*consumed == 0)
			return CODEC_MORE;
		feed(http2, (struct slice){data.data, *consumed});
		if (http2->ready) {
			http2->last = http2->ready->id;
			http2->last_len = *consumed;
			result = hand_over(http2, http2->last, arena, request);
		}
	}
	drain(http2, &http2->wire);
	is_over = http2->has_failed || http2->wire.failed || !nghttp2_session_want_read(http2->session);
	if (result == CODEC_SKIPPED && (http2->wire.len > 0 || is_over)) {
		*request = (struct request){.kind = REQUEST_INTERIM};
		result = CODEC_REQUEST;
	}
	if (is_over) {
		request->close = true;
		*consumed = data.len;
	}
	return result;
}

/* Streams that it has not seen by then are safe to be sent elsewhere. */
void http2_stop(struct http2 *http2, struct buffer *out)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(http2->session);

	if (nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) == 0)
		drain(http2, out);
}

uint64_t http2_unfinished(const struct http2 *http2)
{
	int32_t oldest = 0;

	for (const struct stream *stream = http2->streams; stream; stream = stream->next)
		if (!stream->is_asked && !stream->is_reset)
			oldest = stream->id; /* the newest stand first */
	return (uint64_t)oldest;
}

void http2_put_back(struct http2 *http2)
{
	http2->again = true;
	http2_places_leave(&http2->places, http2->last_place);
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
	struct stream *stream = source->ptr;

	(void)session, (void)id;
	len = u64_min(len, stream->unsent.len);
	memcpy(to, stream->unsent.data, len);
	stream->unsent = (struct slice){stream->unsent.data + len, stream->unsent.len - len};
	if (stream->copy) {
		http2->unsent -= len;
		count(http2, -(ptrdiff_t)len);
	}
	if (stream->unsent.len == 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

/* The lines of an answer's head as fields; *head becomes its body. Names are lower case here. */
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
		for (size_t i = 0; i < name.len; i++)
			names[i] = (char)(name.data[i] | (name.data[i] >= 'A' && name.data[i] <= 'Z' ? 32 : 0));
		fields[n++] = (nghttp2_nv){(uint8_t *)names, (uint8_t *)value.data, name.len, value.len, flags};
		names += name.len;
	}
	return n;
}

/* The answer's memory is the caller's: keeps a copy of what the window did not admit. */
static void keep_unsent(struct http2 *http2, struct stream *stream)
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
	count(http2, (ptrdiff_t)len);
}

static void answer(struct http2 *http2, int32_t id, struct slice text, struct buffer *out)
{
	struct stream *stream = find_stream(http2, id);
	nghttp2_data_provider body = {{.ptr = stream}, read_unsent};
	nghttp2_nv fields[FIELDS_MAX];
	char names[NAMES_MAX];
	size_t n;

	if (!stream || stream->is_answered)
		return;
	n = read_head(&text, fields, names);
	stream->is_answered = true;
	stream->unsent = text;
	drop_input(http2, stream);
	if (nghttp2_submit_response(http2->session, id, fields, n, text.len > 0 ? &body : NULL) != 0)
		http2->has_failed = true;
	drain(http2, out);
	stream = find_stream(http2, id);
	if (!stream)
		return;
	if (stream->unsent.len > 0)
		keep_unsent(http2, stream);
	else if (!stream->has_ended) /* its answer did not need the rest of the request */
		reset_stream(http2, id, NGHTTP2_NO_ERROR);
}

void http2_send(struct http2 *http2, struct slice answers, struct buffer *out)
{
	struct record record;

	buffer_add(out, http2->wire.data, http2->wire.len);
	buffer_free(&http2->wire);
	while (answers.len >= sizeof record) {
		memcpy(&record, answers.data, sizeof record);
		answers = (struct slice){answers.data + sizeof record, answers.len - sizeof record};
		answer(http2, http2_places_leave(&http2->places, record.place), (struct slice){answers.data, record.len}, out);
		answers = (struct slice){answers.data + record.len, answers.len - record.len};
		if (record.close)
			nghttp2_session_terminate_session(http2->session, NGHTTP2_NO_ERROR);
	}
	drain(http2, out);
}
