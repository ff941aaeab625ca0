/* http2_internal.h: a connection and its streams, for those who read and those who write. */
#ifndef PROTO_HTTP2_INSIDE_H
#define PROTO_HTTP2_INSIDE_H

#include <nghttp2/nghttp2.h>

#include "proto/codec.h"
#include "proto/http2/http2_skipped.h"
#include "proto/http2/http2_message.h"
#include "proto/http2/http2_requests.h"

struct http2_stream {
	struct http2_stream *next, **link; /* of the connection's */
	int32_t id;
	bool has_ended;    /* the request is complete */
	bool is_delivered; /* parse has handed it over */
	bool is_answered;
	bool is_reset;                 /* what comes for it is dropped */
	unsigned number;               /* see http2_requests.h; 0 until the request is handed over */
	struct http2_message *message; /* of a request with a body; others' are the connection's */
	size_t counted;                /* bytes of it that are counted */
	struct slice unsent;           /* of the answer's body ... */
	char *copy;                    /* ... and its memory, if it outlives http2_send */
};

struct http2 {
	nghttp2_session *session;
	const struct codec_bounds *bounds;
	struct http2_stream *streams;
	struct http2_stream *ready;    /* its request came with the frame that is read */
	struct http2_stream *answered; /* its answer is being written; NULL once it has ended */
	struct http2_message message;  /* of the last stream that began: headers come one at a time */
	struct buffer wire;            /* frames that leave with the next answers */
	size_t left;                   /* bytes of a frame that is given in parts */
	size_t input, unsent;
	struct http2_requests requests;
	struct http2_skipped skipped;
	int32_t last;       /* the stream of the last request ... */
	size_t last_len;    /* ... and the bytes of its last frame */
	bool deliver_again; /* it is to be handed over once more */
	bool has_failed;
	int flood_budget;
};

/** Counts bytes that the session holds. */
static inline void http2_count(struct http2 *http2, ptrdiff_t bytes)
{
	if (http2->bounds->session_bytes && bytes != 0)
		atomic_fetch_add_explicit(http2->bounds->session_bytes, (uint64_t)bytes,
		                          memory_order_relaxed);
}

/** Returns NULL if it has ended, or was refused. */
static inline struct http2_stream *http2_find(const struct http2 *http2, int32_t id)
{
	struct http2_stream *newest = http2->streams, *answered = http2->answered;

	/* Most calls are about one of these. */
	if (newest && newest->id == id)
		return newest;
	if (answered && answered->id == id)
		return answered;
	return nghttp2_session_get_stream_user_data(http2->session, id);
}

void http2_reset(struct http2 *http2, int32_t id, uint32_t code);
/** Frees what is kept of the request. */
void http2_drop_input(struct http2 *http2, struct http2_stream *stream);
/** Frees what is kept of the answer. */
void http2_drop_unsent(struct http2 *http2, struct http2_stream *stream);
/** Appends one frame. Returns false if there is none that may leave now. */
bool http2_drain_frame(struct http2 *http2, struct buffer *out);
/** Appends all frames that are to leave. */
void http2_drain(struct http2 *http2, struct buffer *out);

#endif
