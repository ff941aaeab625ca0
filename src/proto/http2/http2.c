#include "proto/http2/http2.h"

#include <stdlib.h>

#include "base/number.h"
#include "proto/http2/http2_internal.h"
#include "proto/http2/http2_memory.h"

#define FRAME_HEADER 9
#define FRAME_MAX    16384 /* without its header; the least bound that a peer may set */

static void free_stream(struct http2 *http2, struct http2_stream *stream)
{
	http2_drop_input(http2, stream);
	http2_drop_unsent(http2, stream);
	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	if (http2->ready == stream)
		http2->ready = NULL;
	if (http2->answered == stream)
		http2->answered = NULL;
	http2_memory()->free(stream, NULL);
}

/* Drops a request and its later frames. */
static void refuse_input(struct http2 *http2, struct http2_stream *stream, uint32_t code)
{
	stream->is_reset = true;
	http2_drop_input(http2, stream);
	http2_reset(http2, stream->id, code);
}

/* Counts the memory that the request uses now, and drops the request if that is too much. */
static void count_input(struct http2 *http2, struct http2_stream *stream)
{
	size_t size = http2_message_size(stream->message), more = size - stream->counted;

	stream->counted = size;
	http2->input += more;
	http2_count(http2, (ptrdiff_t)more);
	if (http2->input > HTTP2_INPUT_MAX && http2->input > size)
		refuse_input(http2, stream, NGHTTP2_ENHANCE_YOUR_CALM);
}

/*
 * Moves the header from the connection to the stream, since a body follows, and headers of other
 * streams may arrive before it.
 */
static void move_message_to_stream(struct http2 *http2, struct http2_stream *stream)
{
	struct http2_message *message = malloc(sizeof *message);

	if (!message) {
		refuse_input(http2, stream, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	*message = http2->message;
	message->body.max = http2->bounds->request_max;
	http2->message = (struct http2_message){.error = HTTP1_MESSAGE};
	stream->message = message;
	count_input(http2, stream);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *context)
{
	struct http2 *http2 = context;

	if (head->type == NGHTTP2_HEADERS && !http2_skipped_open(&http2->skipped, head->stream_id))
		nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (http2->unsent > HTTP2_UNSENT_MAX) {
		http2_reset(http2, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	stream = http2_memory()->calloc(1, sizeof *stream, NULL);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	http2_message_clear(&http2->message);
	stream->id = frame->hd.stream_id;
	stream->next = http2->streams;
	stream->link = &http2->streams;
	if (stream->next)
		stream->next->link = &stream->next;
	http2->streams = stream;
	return nghttp2_session_set_stream_user_data(session, stream->id, stream);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name_bytes, size_t name_len, const uint8_t *value_bytes,
                     size_t value_len, uint8_t flags, void *context)
{
	struct http2 *http2 = context;
	struct http2_message *message = &http2->message;
	struct slice name = {(const char *)name_bytes, name_len};
	struct slice value = {(const char *)value_bytes, value_len};

	(void)session, (void)flags;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || message->error != HTTP1_MESSAGE)
		return 0;
	message->bytes += name.len + value.len + 4;
	if (message->bytes > http2->bounds->header_max)
		http2_message_refuse(message, name.data[0] == ':' ? HTTP1_TARGET_LONG : HTTP1_HEADER_LONG,
		                     NULL);
	else
		http2_message_add(message, name, value);
	return message->header.failed ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static int on_body(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream = http2_find(http2, id);
	struct http2_message *message = stream ? stream->message : NULL;

	(void)session, (void)flags;
	if (!message || message->error != HTTP1_MESSAGE)
		return 0;
	if (message->body.len + len > http2->bounds->request_max) {
		http2_message_refuse(message, HTTP1_BODY_LONG, NULL);
	} else {
		buffer_add(&message->body, data, len);
		if (message->body.failed)
			refuse_input(http2, stream, NGHTTP2_INTERNAL_ERROR);
		else
			count_input(http2, stream);
	}
	return 0;
}

static void send_continue(struct http2 *http2, const struct http2_stream *stream)
{
	static const nghttp2_nv interim = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, 0};

	if (nghttp2_submit_headers(http2->session, 0, stream->id, NULL, &interim, 1, NULL) != 0)
		http2->has_failed = true;
}

/* The message of a stream, which is the connection's until its body follows. */
static struct http2_message *message_of(struct http2 *http2, const struct http2_stream *stream)
{
	return stream->message ? stream->message : &http2->message;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream;

	(void)session;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = http2_find(http2, frame->hd.stream_id);
	if (!stream || stream->is_reset)
		return 0;
	stream->has_ended |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	if (stream->is_delivered)
		return 0;
	if (stream->has_ended || message_of(http2, stream)->error != HTTP1_MESSAGE) {
		stream->is_delivered = true;
		http2->ready = stream;
	} else if (!stream->message) {
		if (http2_message_awaits_continue(&http2->message))
			send_continue(http2, stream);
		move_message_to_stream(http2, stream);
	}
	return 0;
}

/* Records that the client wants no answer any more. */
static void cancel_request(struct http2 *http2, struct http2_stream *stream)
{
	if (stream->number && !stream->is_answered)
		http2_requests_cancel(&http2->requests, stream->number);
	stream->number = 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream = http2_find(http2, id);

	(void)session, (void)code;
	if (!stream)
		return 0;
	if (!stream->is_answered) /* the client has reset it before its answer */
		http2->flood_budget -= HTTP2_RESET_COST;
	cancel_request(http2, stream);
	free_stream(http2, stream);
	return 0;
}

static nghttp2_session *open_nghttp2_session(struct http2 *http2)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_body);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	if (nghttp2_session_server_new3(&session, callbacks, http2, NULL, http2_memory()) != 0)
		session = NULL;
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

struct http2 *http2_open(const struct codec_bounds *bounds)
{
	const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS_MAX},
	    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)bounds->request_max + 1},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)bounds->header_max},
	};
	struct http2 *http2 = calloc(1, sizeof *http2);

	if (!http2)
		return NULL;
	http2->bounds = bounds;
	http2->message.error = HTTP1_MESSAGE;
	http2->left = HTTP2_PREFACE.len;
	http2->flood_budget = HTTP2_FLOOD_BUDGET;
	http2->session = open_nghttp2_session(http2);
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
	http2_message_free(&http2->message);
	buffer_free(&http2->wire);
	free(http2->requests.streams);
	free(http2);
}

static size_t frame_len(const unsigned char *head)
{
	return FRAME_HEADER + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
}

/* How many bytes to give nghttp2 now: a frame, or part of a frame longer than the input bound. */
static size_t next_len(struct http2 *http2, struct slice data)
{
	const unsigned char *head = (const unsigned char *)data.data;
	size_t len, input_max = http2->bounds->header_max + http2->bounds->request_max;

	if (http2->left == 0) {
		if (data.len < FRAME_HEADER)
			return 0;
		len = frame_len(head);
		if (len > FRAME_HEADER + FRAME_MAX) /* nghttp2 refuses it by its header */
			len = FRAME_HEADER;
		if (data.len < len && data.len < input_max)
			return 0;
		http2->left = len;
	}
	len = u64_min(http2->left, data.len);
	http2->left -= len;
	return len;
}

/* Returns the request of `stream`, or CODEC_SKIPPED if the stream is reset or refused. */
static enum codec_result hand_over(struct http2 *http2, struct http2_stream *stream,
                                   struct arena *arena, struct request *request)
{
	if (!stream || stream->is_reset)
		return CODEC_SKIPPED;
	http2_message_read(message_of(http2, stream), http2->bounds, arena, request);
	if (request->kind == REQUEST_EVENTS) { /* a stream of events needs a connection of its own */
		http2_reset(http2, stream->id, NGHTTP2_HTTP_1_1_REQUIRED);
		return CODEC_SKIPPED;
	}
	if (!stream->number)
		stream->number = http2_requests_add(&http2->requests, stream->id);
	if (!stream->number) {
		http2_reset(http2, stream->id, NGHTTP2_REFUSED_STREAM);
		return CODEC_SKIPPED;
	}
	request->stream = stream->number & ((1u << REQUEST_STREAM_BITS) - 1);
	return CODEC_REQUEST;
}

static void feed(struct http2 *http2, struct slice bytes)
{
	http2->ready = NULL;
	/* nghttp2 fails if it detects a flood, or has no memory. */
	if (nghttp2_session_mem_recv(http2->session, (const uint8_t *)bytes.data, bytes.len) < 0)
		http2->flood_budget = 0;
	http2->flood_budget += http2->ready ? HTTP2_REQUEST_CREDIT : -1;
	if (http2->flood_budget > HTTP2_FLOOD_BUDGET)
		http2->flood_budget = HTTP2_FLOOD_BUDGET;
	if (http2->flood_budget <= 0)
		nghttp2_session_terminate_session(http2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

enum codec_result http2_parse(struct http2 *http2, struct slice data, size_t *consumed,
                              struct arena *arena, struct request *request)
{
	enum codec_result result = CODEC_SKIPPED;
	bool is_header, is_over;

	if (http2->deliver_again) {
		http2->deliver_again = false;
		*consumed = http2->last_len;
		result = hand_over(http2, http2_find(http2, http2->last), arena, request);
	} else {
		*consumed = next_len(http2, data);
		if (*consumed == 0)
			return CODEC_MORE;
		feed(http2, (struct slice){data.data, *consumed});
		if (http2->ready) {
			http2->last = http2->ready->id;
			http2->last_len = *consumed;
			result = hand_over(http2, http2->ready, arena, request);
		}
	}
	/* A header causes no frame of nghttp2's own; a body may cause a window update. */
	is_header = result == CODEC_REQUEST && http2->ready && !http2->ready->message;
	if (!is_header && nghttp2_session_want_write(http2->session))
		http2_drain(http2, &http2->wire);
	is_over = http2->has_failed || http2->wire.failed || http2->flood_budget <= 0 ||
	          (!is_header && !nghttp2_session_want_read(http2->session));
	if (is_over || (result == CODEC_SKIPPED && http2->wire.len > 0)) {
		*request = (struct request){.kind = REQUEST_INTERIM};
		result = CODEC_REQUEST;
	}
	if (is_over) {
		for (struct http2_stream *stream = http2->streams; stream; stream = stream->next)
			cancel_request(http2, stream);
		request->close_after = true;
		*consumed = data.len;
	}
	return result;
}

/* A client can safely repeat elsewhere the streams after `last`. */
void http2_append_goodbye(struct http2 *http2, struct buffer *out)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(http2->session);

	if (nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) ==
	    0)
		http2_drain(http2, out);
}

uint64_t http2_unfinished_request(const struct http2 *http2)
{
	int32_t oldest = 0;

	for (const struct http2_stream *stream = http2->streams; stream; stream = stream->next)
		if (!stream->is_delivered && !stream->is_reset)
			oldest = stream->id; /* the list begins with the newest */
	return (uint64_t)oldest;
}

void http2_repeat_request(struct http2 *http2)
{
	http2->deliver_again = true;
}

unsigned http2_next_cancelled(struct http2 *http2)
{
	return http2_requests_next_cancelled(&http2->requests);
}

/* Cancels the request of an RST_STREAM frame; nghttp2 gets the frame later and ends the stream. */
static void apply_reset_ahead(struct http2 *http2, const unsigned char *body)
{
	uint32_t id =
	    (uint32_t)body[-4] << 24 | (uint32_t)body[-3] << 16 | (uint32_t)body[-2] << 8 | body[-1];
	struct http2_stream *stream = http2_find(http2, (int32_t)(id & INT32_MAX));

	if (!stream || !stream->is_delivered)
		return;
	stream->is_reset = true;
	cancel_request(http2, stream);
}

void http2_find_cancellations(struct http2 *http2, struct slice data)
{
	const unsigned char *at = (const unsigned char *)data.data, *end = at + data.len;
	size_t len = http2->deliver_again ? http2->last_len : http2->left;

	while (len < (size_t)(end - at) && (size_t)(end - at) - len >= FRAME_HEADER) {
		at += len;
		len = frame_len(at);
		if (at[3] == NGHTTP2_RST_STREAM && len == FRAME_HEADER + 4 && len <= (size_t)(end - at))
			apply_reset_ahead(http2, at + FRAME_HEADER);
	}
}
