/*
 * http2_requests.h: numbers the requests of a connection that are not answered yet.
 *
 * A stream ID is too long for struct request_core, so a request gets a short number. The number is
 * not given to another request before it is removed, even if the stream has ended. Requests that
 * the client has cancelled are in a list until the server has learned of each.
 */
#ifndef PROTO_HTTP2_REQUESTS_H
#define PROTO_HTTP2_REQUESTS_H

#include <stdint.h>

/* Zeroed is empty. */
struct http2_requests {
	/* By number, from 1. An entry of the free or the cancelled list has the next number, or 0. */
	int32_t *stream_ids;
	unsigned capacity;
	unsigned first_free, first_cancelled; /* numbers, or 0 */
};

/** Returns the number of a new request; 0 if there is no memory, or no number. */
unsigned http2_requests_add(struct http2_requests *requests, int32_t stream);
/** Frees the number and returns its stream. */
int32_t http2_requests_remove(struct http2_requests *requests, unsigned number);
/** Records that the client wants no answer to this request any more. */
void http2_requests_cancel(struct http2_requests *requests, unsigned number);
/** Removes a cancelled request and returns its number; 0 if there is none. */
unsigned http2_requests_next_cancelled(struct http2_requests *requests);

#endif
