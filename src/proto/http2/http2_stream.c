/* http2_stream.c: frees the memory of streams, resets them, and gets frames from nghttp2. */
#include <stdlib.h>

#include "proto/http2/http2_internal.h"

void http2_drop_input(struct http2 *http2, struct http2_stream *stream)
{
	if (!stream->message)
		return;
	http2->input -= stream->counted;
	http2_count(http2, -(ptrdiff_t)stream->counted);
	stream->counted = 0;
	http2_message_free(stream->message);
	free(stream->message);
	stream->message = NULL;
}

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

void http2_reset(struct http2 *http2, int32_t id, uint32_t code)
{
	if (nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, id, code) != 0)
		http2->has_failed = true;
}

bool http2_drain_frame(struct http2 *http2, struct buffer *out)
{
	const uint8_t *data;
	ssize_t n = nghttp2_session_mem_send(http2->session, &data);

	if (n > 0)
		buffer_add(out, data, (size_t)n);
	if (n < 0)
		http2->has_failed = true;
	return n > 0;
}

void http2_drain(struct http2 *http2, struct buffer *out)
{
	while (http2_drain_frame(http2, out))
		;
}
