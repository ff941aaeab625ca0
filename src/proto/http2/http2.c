/*
 * http2.c: reads requests from the bytes of an HTTP/2 connection. The library nghttp2 parses the
 * frames, and calls back here with the headers and bodies of the connection's streams; each stream
 * has one request.
 */
#include "proto/http2/http2.h"

#include <stdlib.h>

#include "base/number.h"
#include "proto/http2/http2_internal.h"
#include "proto/http2/http2_memory.h"

#define FRAME_HEADER 9     /* bytes */
#define FRAME_MAX    16384 /* without its header; the least bound that a peer may set */

static void free_stream(struct http2 *http2, struct http2_stream *stream)
{
	http2_free_request(http2, stream);
	http2_free_unsent(http2, stream);
	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	if (http2->completed_stream == stream)
		http2->completed_stream = NULL;
	if (http2->answered_stream == stream)
		http2->answered_stream = NULL;
	http2_memory()->free(stream, NULL);
}

/* Resets the stream of a request that needs too much memory, and drops its later frames. */
static void refuse_request(struct http2 *http2, struct http2_stream *stream, uint32_t code)
{
	stream->is_reset = true;
	http2_free_request(http2, stream);
	http2_reset_stream(http2, stream->id, code);
}

/* Counts the memory that the request uses now, and drops the request if that is too much. */
static void count_request_bytes(struct http2 *http2, struct http2_stream *stream)
{
	size_t size = http2_message_size(stream->own_message), more = size - stream->counted_bytes;
	bool is_only_request;

	stream->counted_bytes = size;
	http2->input_bytes += more;
	http2_count_session_bytes(http2, (ptrdiff_t)more);
	is_only_request = http2->input_bytes == size; /* it has bounds of its own */
	if (http2->input_bytes > HTTP2_INPUT_MAX && !is_only_request)
		refuse_request(http2, stream, NGHTTP2_ENHANCE_YOUR_CALM);
}

/*
 * Moves the header from the connection to the stream, since a body follows, and headers of other
 * streams may arrive before it.
 */
static void move_message_to_stream(struct http2 *http2, struct http2_stream *stream)
{
	struct http2_message *message = malloc(sizeof *message);

	if (!message) {
		refuse_request(http2, stream, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	*message = http2->newest_message;
	message->body.max = http2->bounds->request_max;
	http2->newest_message = (struct http2_message){.error = HTTP1_MESSAGE};
	stream->own_message = message;
	count_request_bytes(http2, stream);
}

/*
 * The functions on_… are callbacks of nghttp2, which return 0 or an error that ends the stream or
 * the session.
 */

/* Ends the connection if the frame opens a stream that the client has skipped before. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *context)
{
	struct http2 *http2 = context;

	if (head->type == NGHTTP2_HEADERS && !http2_skipped_open(&http2->skipped, head->stream_id))
		nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
	return 0;
}

/* A new stream begins. It is refused while too many answers wait for the peer to read them. */
static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (http2->unsent_bytes > HTTP2_UNSENT_MAX) {
		http2_reset_stream(http2, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	stream = http2_memory()->calloc(1, sizeof *stream, NULL);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	http2_message_clear(&http2->newest_message);
	stream->id = frame->hd.stream_id;
	stream->next = http2->streams;
	stream->link = &http2->streams;
	if (stream->next)
		stream->next->link = &stream->next;
	http2->streams = stream;
	return nghttp2_session_set_stream_user_data(session, stream->id, stream);
}

/* Adds a field to the header of the newest stream; fields of trailers are dropped. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name_bytes, size_t name_len, const uint8_t *value_bytes,
                     size_t value_len, uint8_t flags, void *context)
{
	struct http2 *http2 = context;
	struct http2_message *message = &http2->newest_message;
	struct slice name = {(const char *)name_bytes, name_len};
	struct slice value = {(const char *)value_bytes, value_len};

	(void)session, (void)flags;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || http2_message_is_refused(message))
		return 0;
	message->header_bytes += name.len + value.len + strlen(": \r\n");
	if (message->header_bytes > http2->bounds->header_max)
		http2_message_refuse(message, name.data[0] == ':' ? HTTP1_TARGET_LONG : HTTP1_HEADER_LONG,
		                     NULL);
	else
		http2_message_add(message, name, value);
	return message->header.failed ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

/* Adds a piece of a request's body, within the bounds of its length and memory. */
static int on_body(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream = http2_find_stream(http2, id);
	struct http2_message *message = stream ? stream->own_message : NULL;

	(void)session, (void)flags;
	if (!message || http2_message_is_refused(message))
		return 0;
	if (message->body.len + len > http2->bounds->request_max) {
		http2_message_refuse(message, HTTP1_BODY_LONG, NULL);
	} else {
		buffer_add(&message->body, data, len);
		if (message->body.failed)
			refuse_request(http2, stream, NGHTTP2_INTERNAL_ERROR);
		else
			count_request_bytes(http2, stream);
	}
	return 0;
}

/* Tells the client that waits for it to send the body. */
static void send_continue(struct http2 *http2, const struct http2_stream *stream)
{
	static const nghttp2_nv interim = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, 0};

	if (nghttp2_submit_headers(http2->session, 0, stream->id, NULL, &interim, 1, NULL) != 0)
		http2->has_failed = true;
}

/* The message of a stream, which is the connection's until its body follows. */
static struct http2_message *message_of(struct http2 *http2, const struct http2_stream *stream)
{
	return stream->own_message ? stream->own_message : &http2->newest_message;
}

/* A frame is complete, and maybe the request: by its last frame, or by an error. */
static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream;

	(void)session;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = http2_find_stream(http2, frame->hd.stream_id);
	if (!stream || stream->is_reset)
		return 0;
	stream->has_ended |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	if (stream->is_delivered)
		return 0;
	if (stream->has_ended || http2_message_is_refused(message_of(http2, stream))) {
		stream->is_delivered = true;
		http2->completed_stream = stream;
	} else if (!stream->own_message) {
		if (http2_message_awaits_continue(&http2->newest_message))
			send_continue(http2, stream);
		move_message_to_stream(http2, stream);
	}
	return 0;
}

/* Has the server notified that the client wants no answer any more. */
static void cancel_request(struct http2 *http2, struct http2_stream *stream)
{
	if (stream->request_number && !stream->is_answered)
		http2_requests_cancel(&http2->requests, stream->request_number);
	stream->request_number = 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
	struct http2 *http2 = context;
	struct http2_stream *stream = http2_find_stream(http2, id);

	(void)session, (void)code;
	if (!stream)
		return 0;
	if (!stream->is_answered) /* the client has reset it, or we have */
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
	http2->newest_message.error = HTTP1_MESSAGE;
	http2->frame_bytes_left = HTTP2_PREFACE.len;
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
	http2_message_free(&http2->newest_message);
	buffer_free(&http2->frames_to_send);
	free(http2->requests.stream_ids);
	free(http2);
}

/* The length of the frame that begins here, with its header. */
static size_t frame_len(const unsigned char *head)
{
	return FRAME_HEADER + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
}

/*
 * How many bytes to give nghttp2 now: one frame, or part of a frame longer than the input bound.
 * Returns 0 while the frame has not arrived.
 */
static size_t take_next_frame(struct http2 *http2, struct slice data)
{
	const unsigned char *head = (const unsigned char *)data.data;
	size_t len, input_max = http2->bounds->header_max + http2->bounds->request_max;

	if (http2->frame_bytes_left == 0) {
		if (data.len < FRAME_HEADER)
			return 0;
		len = frame_len(head);
		if (len > FRAME_HEADER + FRAME_MAX) /* nghttp2 refuses it by its header */
			len = FRAME_HEADER;
		if (data.len < len && data.len < input_max)
			return 0;
		http2->frame_bytes_left = len;
	}
	len = u64_min(http2->frame_bytes_left, data.len);
	http2->frame_bytes_left -= len;
	return len;
}

/*
 * Fills in the request of `stream`, with a number by which its answer finds the stream again.
 * Returns CODEC_SKIPPED if the stream is reset or refused.
 */
static enum codec_result fill_in_request(struct http2 *http2, struct http2_stream *stream,
                                         struct arena *arena, struct request *request)
{
	if (!stream || stream->is_reset)
		return CODEC_SKIPPED;
	http2_message_read(message_of(http2, stream), http2->bounds, arena, request);
	if (request->kind == REQUEST_EVENTS) { /* a stream of events needs a connection of its own */
		http2_reset_stream(http2, stream->id, NGHTTP2_HTTP_1_1_REQUIRED);
		return CODEC_SKIPPED;
	}
	if (!stream->request_number)
		stream->request_number = http2_requests_add(&http2->requests, stream->id);
	if (!stream->request_number) {
		http2_reset_stream(http2, stream->id, NGHTTP2_REFUSED_STREAM);
		return CODEC_SKIPPED;
	}
	request->stream = stream->request_number & ((1u << REQUEST_STREAM_BITS) - 1);
	return CODEC_REQUEST;
}

/*
 * Gives nghttp2 a frame. A request adds to the budget, other frames take from it: a client that
 * sends many frames and few requests uses the budget up, and its connection ends.
 */
static void feed_nghttp2(struct http2 *http2, struct slice bytes)
{
	http2->completed_stream = NULL;
	if (nghttp2_session_mem_recv(http2->session, (const uint8_t *)bytes.data, bytes.len) < 0)
		http2->flood_budget = 0; /* nghttp2 has detected a flood itself, or has no memory */
	http2->flood_budget += http2->completed_stream ? HTTP2_REQUEST_CREDIT : -1;
	if (http2->flood_budget > HTTP2_FLOOD_BUDGET)
		http2->flood_budget = HTTP2_FLOOD_BUDGET;
	if (http2->flood_budget <= 0)
		nghttp2_session_terminate_session(http2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* Reads the next frame, or returns the last request once more if the server has asked for that. */
static enum codec_result read_frame(struct http2 *http2, struct slice data, size_t *consumed,
                                    struct arena *arena, struct request *request)
{
	struct http2_stream *completed;

	if (http2->repeats_last_request) {
		http2->repeats_last_request = false;
		*consumed = http2->last_frame_len;
		return fill_in_request(http2, http2_find_stream(http2, http2->last_stream_id), arena,
		                       request);
	}
	*consumed = take_next_frame(http2, data);
	if (*consumed == 0)
		return CODEC_MORE;
	feed_nghttp2(http2, (struct slice){data.data, *consumed});
	completed = http2->completed_stream;
	if (!completed)
		return CODEC_SKIPPED;
	http2->last_stream_id = completed->id;
	http2->last_frame_len = *consumed;
	return fill_in_request(http2, completed, arena, request);
}

/*
 * Reads a frame and returns the request that it completes, if any. An interim request, without an
 * answer of its own, makes the server send the frames of nghttp2, or close the connection.
 */
enum codec_result http2_parse(struct http2 *http2, struct slice data, size_t *consumed,
                              struct arena *arena, struct request *request)
{
	enum codec_result result = read_frame(http2, data, consumed, arena, request);
	bool has_no_body, is_over;

	if (result == CODEC_MORE)
		return CODEC_MORE;
	/*
	 * Most requests have no body. Such a request causes no frame of nghttp2's own (a body may cause
	 * a window update) and can't end the connection, so nghttp2 need not be asked.
	 */
	has_no_body =
	    result == CODEC_REQUEST && http2->completed_stream && !http2->completed_stream->own_message;
	if (!has_no_body && nghttp2_session_want_write(http2->session))
		http2_drain(http2, &http2->frames_to_send);
	is_over = http2->has_failed || http2->frames_to_send.failed || http2->flood_budget <= 0 ||
	          (!has_no_body && !nghttp2_session_want_read(http2->session));
	if (is_over || (result == CODEC_SKIPPED && http2->frames_to_send.len > 0)) {
		*request = (struct request){.kind = REQUEST_INTERIM};
		result = CODEC_REQUEST;
	}
	/* Requests without an answer get none any more, and the rest of the input is dropped. */
	if (is_over) {
		for (struct http2_stream *stream = http2->streams; stream; stream = stream->next)
			cancel_request(http2, stream);
		request->close_after = true;
		*consumed = data.len;
	}
	return result;
}

/* A GOAWAY frame: the client can safely repeat elsewhere the streams after `last`. */
void http2_append_goodbye(struct http2 *http2, struct buffer *out)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(http2->session);

	if (nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) ==
	    0)
		http2_drain(http2, out);
}

/* The oldest stream whose request has begun and is not complete, or 0. */
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
	http2->repeats_last_request = true;
}

unsigned http2_next_cancelled(struct http2 *http2)
{
	return http2_requests_next_cancelled(&http2->requests);
}

/*
 * Cancels the request of the stream that an RST_STREAM frame resets; nghttp2 gets the frame later
 * and ends the stream.
 */
static void cancel_reset_stream(struct http2 *http2, const unsigned char *frame)
{
	const unsigned char *id_bytes = frame + FRAME_HEADER - 4; /* the end of the frame's header */
	uint32_t id = (uint32_t)id_bytes[0] << 24 | (uint32_t)id_bytes[1] << 16 |
	              (uint32_t)id_bytes[2] << 8 | id_bytes[3];
	struct http2_stream *stream = http2_find_stream(http2, (int32_t)(id & INT32_MAX));

	if (!stream || !stream->is_delivered)
		return;
	stream->is_reset = true;
	cancel_request(http2, stream);
}

/*
 * Looks ahead for RST_STREAM frames in bytes that have arrived but are not parsed yet. `data`
 * begins with the rest of the frame that http2_parse reads now, or with the one that it is to
 * return again.
 */
void http2_find_cancellations(struct http2 *http2, struct slice data)
{
	const unsigned char *frame = (const unsigned char *)data.data;
	size_t len = http2->repeats_last_request ? http2->last_frame_len : http2->frame_bytes_left;
	size_t left = data.len; /* from `frame` on */

	while (len < left && left - len >= FRAME_HEADER) {
		bool is_reset;

		frame += len;
		left -= len;
		len = frame_len(frame);
		is_reset = frame[3] == NGHTTP2_RST_STREAM && len == FRAME_HEADER + 4;
		if (is_reset && len <= left)
			cancel_reset_stream(http2, frame);
	}
}
