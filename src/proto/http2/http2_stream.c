/* http2_stream.c: frees the memory of an HTTP/2 connection's streams, resets streams, and gets the
 * frames to send from nghttp2. */
#include <stdlib.h>

#include "proto/http2/http2_internal.h"

void http2_free_request(struct http2 *http2, struct http2_stream *stream)
{
	if (!stream->own_message)
		return;
	http2->input_bytes -= stream->counted_bytes;
	http2_count_session_bytes(http2, -(ptrdiff_t)stream->counted_bytes);
	stream->counted_bytes = 0;
	http2_message_free(stream->own_message);
	free(stream->own_message);
	stream->own_message = NULL;
}

void http2_free_unsent(struct http2 *http2, struct http2_stream *stream)
{
	if (stream->unsent_copy) {
		http2->unsent_bytes -= stream->unsent.len;
		http2_count_session_bytes(http2, -(ptrdiff_t)stream->unsent.len);
	}
	free(stream->unsent_copy);
	stream->unsent_copy = NULL;
	stream->unsent = (struct slice){NULL, 0};
}

void http2_reset_stream(struct http2 *http2, int32_t id, uint32_t code)
{
	if (nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, id, code) != 0)
		http2->has_failed = true;
}

/* Appends a frame. Returns false if none can be sent now, or nghttp2 has failed. */
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
