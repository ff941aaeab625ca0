/*
 * http2_places.h: short numbers for the requests of a connection that are not answered.
 *
 * A stream's own number is too long for a request's head. A place is not another request's
 * before it is left, even if its stream has ended. The places of cancelled requests are in a
 * list until the server has learned of each.
 */
#ifndef PROTO_HTTP2_PLACES_H
#define PROTO_HTTP2_PLACES_H

#include <stdint.h>

/* Zero: empty. */
struct http2_places {
	int32_t *streams; /* by place, from 1; a free place holds the next one, or 0 */
	unsigned room, free, cancelled;
};

/** Returns 0 if there is no memory, or too many. */
unsigned http2_places_take(struct http2_places *places, int32_t stream);
/** Returns its stream. */
int32_t http2_places_leave(struct http2_places *places, unsigned place);
/** The client wants no answer to this request any more. */
void http2_places_cancel(struct http2_places *places, unsigned place);
/** Leaves the place of a cancelled request, and returns it. Returns 0 if there is none. */
unsigned http2_places_cancelled(struct http2_places *places);

#endif
