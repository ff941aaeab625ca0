/* http2_ids.h: streams that a client has passed over, which it may not open any more. */
#ifndef PROTO_HTTP2_IDS_H
#define PROTO_HTTP2_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* Zero: no stream yet. */
struct http2_ids {
	int32_t newest;
	int32_t before, behind; /* those between them were passed over last */
};

/**
 * A block of a header for stream `id`. False: the stream was passed over, so this opens it too
 * late. nghttp2 can't tell that from a trailer that crosses our reset, and ignores both. Only the
 * streams passed over last are known: clients that keep the rules pass over none.
 */
bool http2_ids_see(struct http2_ids *ids, int32_t id);

#endif
