/* http2_internal.h: defines the structs of an HTTP/2 connection and its streams, for the files that
 * read requests and write answers. */
#ifndef PROTO_HTTP2_INTERNAL_H
#define PROTO_HTTP2_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "proto/codec.h"
#include "proto/http2/http2_skipped.h"
#include "proto/http2/http2_message.h"
#include "proto/http2/http2_requests.h"

struct http2_stream {
	struct http2_stream *next, **link; /* in the connection's list; `link` points to this one */
	int32_t id;
	bool has_ended;    /* the request is complete */
	bool is_delivered; /* http2_parse has returned its request */
	bool is_answered;
	bool is_reset;           /* its later frames are dropped */
	unsigned request_number; /* see http2_requests.h; 0 until the request is handed over */
	struct http2_message *own_message; /* of a request with a body; others' are the connection's */
	size_t counted_bytes;              /* of it */
	struct slice unsent;               /* the part of the answer's body that is not sent ... */
	char *unsent_copy;                 /* ... and its memory, if it outlives http2_frame_answers */
};

struct http2 {
	nghttp2_session *session;
	const struct codec_bounds *bounds;
	struct http2_stream *streams;
	struct http2_stream *completed_stream; /* the frame that was read has completed its request */
	struct http2_stream *answered_stream;  /* its answer is being written; NULL if it has ended */
	struct http2_message newest_message;   /* of the newest stream: headers arrive one at a time */
	struct buffer frames_to_send;          /* with the next answers */
	size_t frame_bytes_left; /* bytes that are missing of a frame that nghttp2 gets in parts */
	size_t input_bytes, unsent_bytes;
	struct http2_requests requests;
	struct http2_skipped skipped;
	int32_t last_stream_id;    /* the stream of the last request ... */
	size_t last_frame_len;     /* ... and the bytes of its last frame */
	bool repeats_last_request; /* the next parse returns it once more */
	bool has_failed;
	int flood_budget;
};

/** Adds to the count of the session's bytes. */
static inline void http2_count_session_bytes(struct http2 *http2, ptrdiff_t bytes)
{
	if (http2->bounds->session_bytes && bytes != 0)
		atomic_fetch_add_explicit(http2->bounds->session_bytes, (uint64_t)bytes,
		                          memory_order_relaxed);
}

/** Finds a stream; NULL if it has ended or was refused. */
static inline struct http2_stream *http2_find_stream(const struct http2 *http2, int32_t id)
{
	struct http2_stream *newest = http2->streams, *answered = http2->answered_stream;

	/* Most calls look for one of these. */
	if (newest && newest->id == id)
		return newest;
	if (answered && answered->id == id)
		return answered;
	return nghttp2_session_get_stream_user_data(http2->session, id);
}

void http2_reset_stream(struct http2 *http2, int32_t id, uint32_t code);
/** Frees the memory of the request. */
void http2_free_request(struct http2 *http2, struct http2_stream *stream);
/** Frees the memory of the unsent part of the answer. */
void http2_free_unsent(struct http2 *http2, struct http2_stream *stream);
/** Appends one frame. Returns false if none can be sent now. */
bool http2_drain_frame(struct http2 *http2, struct buffer *out);
/** Appends all frames that can be sent. */
void http2_drain(struct http2 *http2, struct buffer *out);

#endif
