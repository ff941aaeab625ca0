/*
 * http2_skipped.h: remembers the streams that a client has skipped, which it may not open any more.
 *
 * Stream IDs must increase, so a client that opens stream 7 after stream 1 has skipped 3 and 5.
 */
#ifndef PROTO_HTTP2_SKIPPED_H
#define PROTO_HTTP2_SKIPPED_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: no stream yet. */
struct http2_skipped {
	int32_t newest;
	int32_t gap_after, gap_before; /* the streams between these two were skipped last */
};

/**
 * Records a header for stream `id`, which opens the stream or is its trailer. Returns false if the
 * stream was skipped, so that the header opens it too late. nghttp2 can not distinguish this from a
 * trailer that crosses our reset, and ignores both. Only the streams skipped last are known,
 * because well-behaved clients skip none.
 */
bool http2_skipped_open(struct http2_skipped *skipped, int32_t id);

#endif
