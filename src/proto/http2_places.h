/*
 * http2_places.h: short numbers for the requests of a connection that are not answered.
 *
 * A stream's own number is too long for a request's head. A place is not another request's
 * before it is left, even if its stream has ended.
 */
#ifndef PROTO_HTTP2_PLACES_H
#define PROTO_HTTP2_PLACES_H

#include <stdint.h>

/* Zero: empty. */
struct http2_places {
	int32_t *streams; /* by place, from 1; a free place holds the next one, or 0 */
	unsigned room, free;
};

/** 0: no memory, or too many. */
unsigned http2_places_take(struct http2_places *places, int32_t stream);
/** Returns its stream. */
int32_t http2_places_leave(struct http2_places *places, unsigned place);

#endif
