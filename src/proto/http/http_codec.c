/*
 * http_codec.c: the codec of HTTP: turns the bytes of a connection into requests, and replies into
 * bytes. It chooses HTTP/1 or HTTP/2 by the first bytes of the connection.
 */
#include "base/number.h"
#include "proto/http/http_request.h"
#include "proto/http2/http2.h"

/* Fills in the request that a complete message of HTTP/1 makes. */
static void read_message(struct http_request *http, const struct http1_reader *reader,
                         struct slice data, const struct http1_message *message)
{
	struct request *request = http->fill.request;

	http->fields = &reader->fields;
	http->head_start = data.data;
	http->header = (struct http_header){http1_header_lines(reader, data), .is_text = true};
	http->method = slice_of(message->method);
	http->target = message->target;
	http->body = message->body;
	request->close_after = !message->keep_alive;
	if (message->http_1_0 && message->keep_alive)
		request->flags |= HTTP_KEEP_ALIVE;
	http_read_request(http);
}

/* Reads one message, and fills in a request, or the error with which to answer. */
static enum codec_result parse_http1(struct http_session *session, struct slice data,
                                     size_t *consumed, struct arena *arena, struct request *request)
{
	struct http1_message message;
	enum http1_result result = http1_read(&session->reader, data, arena, &message);
	struct http_request http;

	if (result == HTTP1_MORE)
		return CODEC_MORE;
	fill_begin(&http.fill, request, &session->bounds, arena);
	*request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	if (result == HTTP1_CONTINUE) {
		request->kind = REQUEST_INTERIM;
		*consumed = 0;
	} else if (result == HTTP1_MESSAGE) {
		read_message(&http, &session->reader, data, &message);
		*consumed = http1_len(&session->reader);
		http1_next(&session->reader);
	} else {
		http_refuse_framing(&http.fill, result, message.error, message.error_at);
		request->close_after = true;
		*consumed = data.len;
	}
	return CODEC_REQUEST;
}

/*
 * Opens an HTTP/2 session once the preface, a fixed text, has arrived. Returns whether `data`
 * begins like the preface.
 */
static bool begin_http2(struct http_session *session, struct slice data)
{
	size_t len = u64_min(data.len, HTTP2_PREFACE.len);

	if (memcmp(data.data, HTTP2_PREFACE.data, len) != 0)
		return false;
	if (len < HTTP2_PREFACE.len)
		return true;
	session->http2 = http2_open(&session->bounds);
	return session->http2; /* without memory HTTP/1 refuses the preface */
}

/* The first bytes decide between HTTP/1 and HTTP/2. */
static enum codec_result parse(void *state, struct slice data, size_t *consumed,
                               struct arena *arena, struct request *request)
{
	struct http_session *session = state;

	if (__builtin_expect(!session->is_http1, 0)) {
		if (data.len == 0)
			return CODEC_MORE;
		if (session->http2 || begin_http2(session, data))
			return session->http2 ? http2_parse(session->http2, data, consumed, arena, request)
			                      : CODEC_MORE;
		session->is_http1 = true;
	}
	return parse_http1(session, data, consumed, arena, request);
}

/* The functions below do what struct codec says (codec.h), for HTTP/2 alone. */
static void repeat_request(void *state)
{
	struct http_session *session = state;

	if (session->http2)
		http2_repeat_request(session->http2);
}

static uint64_t unfinished_request(const void *state)
{
	const struct http_session *session = state;

	return session->http2 ? http2_unfinished_request(session->http2) : 0;
}

static void append_goodbye(void *state, struct buffer *out)
{
	struct http_session *session = state;

	if (session->http2)
		http2_append_goodbye(session->http2, out);
}

static unsigned next_cancelled(void *state)
{
	struct http_session *session = state;

	return session->http2 ? http2_next_cancelled(session->http2) : 0;
}

static void find_cancellations(void *state, struct slice data)
{
	struct http_session *session = state;

	if (session->http2)
		http2_find_cancellations(session->http2, data);
}

static bool answers_in_any_order(const void *state)
{
	return ((const struct http_session *)state)->http2;
}

static void reply_to(void *state, const struct request *request, const struct reply *reply,
                     struct buffer *out)
{
	struct http_session *session = state;

	if (__builtin_expect(session->http2 != NULL, 0))
		http2_store_answer(request, reply, out);
	else
		http1_append_answer(request, reply, out);
}

static void frame_answers(void *state, struct slice answers, struct buffer *out)
{
	http2_frame_answers(((struct http_session *)state)->http2, answers, out);
}

static void close_session(void *state)
{
	http2_close(((struct http_session *)state)->http2);
}

static void open_http_session(void *state, const struct codec_bounds *bounds, uint64_t id)
{
	struct http_session *session = state;

	(void)id;
	session->is_http1 = false;
	session->http2 = NULL;
	session->bounds = *bounds;
	http1_open(&session->reader, bounds->header_max, bounds->request_max);
}

const struct codec http_codec = {
    .name = "http",
    .session_size = sizeof(struct http_session),
    .open = open_http_session,
    .answers_in_any_order = answers_in_any_order,
    .close = close_session,
    .parse = parse,
    .repeat_request = repeat_request,
    .unfinished_request = unfinished_request,
    .next_cancelled = next_cancelled,
    .find_cancellations = find_cancellations,
    .append_goodbye = append_goodbye,
    .reply = reply_to,
    .frame_answers = frame_answers,
};
