/*
 * http2_requests.c: gives each unanswered request of an HTTP/2 connection a short number, by which
 * its answer finds the stream. The entries of free numbers form a list, and so do those of requests
 * that are cancelled and not yet reported.
 */
#include "proto/http2/http2_requests.h"

#include <stdlib.h>

#include "proto/request.h"

/* Returns false if there is no memory, or the numbers would be too long. */
static bool grow_requests(struct http2_requests *requests)
{
	unsigned capacity = requests->capacity ? 2 * requests->capacity : 64;
	unsigned first_new = requests->capacity ? requests->capacity : 1; /* 0 is no number */
	int32_t *stream_ids = capacity <= 1u << REQUEST_STREAM_BITS
	                          ? realloc(requests->stream_ids, capacity * sizeof *stream_ids)
	                          : NULL;

	if (!stream_ids)
		return false;
	for (unsigned i = first_new; i < capacity; i++)
		stream_ids[i] = (int32_t)(i + 1 < capacity ? i + 1 : 0);
	requests->stream_ids = stream_ids;
	requests->capacity = capacity;
	requests->first_free = first_new;
	return true;
}

/* Returns the number of the request on stream `id`, or 0 if there is none to give. */
unsigned http2_requests_add(struct http2_requests *requests, int32_t id)
{
	unsigned number;

	if (!requests->first_free && !grow_requests(requests))
		return 0;
	number = requests->first_free;
	requests->first_free = (unsigned)requests->stream_ids[number];
	requests->stream_ids[number] = id;
	return number;
}

/* Frees the number, and returns the ID of its stream. */
int32_t http2_requests_remove(struct http2_requests *requests, unsigned number)
{
	int32_t id = requests->stream_ids[number];

	requests->stream_ids[number] = (int32_t)requests->first_free;
	requests->first_free = number;
	return id;
}

/* Moves the number to the list of cancelled requests. */
void http2_requests_cancel(struct http2_requests *requests, unsigned number)
{
	requests->stream_ids[number] = (int32_t)requests->first_cancelled;
	requests->first_cancelled = number;
}

unsigned http2_requests_next_cancelled(struct http2_requests *requests)
{
	unsigned number = requests->first_cancelled;

	if (number) /* its entry has the next cancelled number instead of a stream */
		requests->first_cancelled = (unsigned)http2_requests_remove(requests, number);
	return number;
}
