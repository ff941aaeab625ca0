#include "proto/http2/http2_requests.h"

#include <stdlib.h>

#include "proto/request.h"

/* Returns false if there is no memory, or the numbers would be too long. */
static bool grow_requests(struct http2_requests *requests)
{
	unsigned old = requests->capacity, capacity = old ? 2 * old : 64;
	int32_t *streams = capacity <= 1u << REQUEST_STREAM_BITS
	                       ? realloc(requests->streams, capacity * sizeof *streams)
	                       : NULL;

	if (!streams)
		return false;
	for (unsigned i = old ? old : 1; i < capacity; i++)
		streams[i] = (int32_t)(i + 1 < capacity ? i + 1 : 0);
	requests->streams = streams;
	requests->capacity = capacity;
	requests->free = old ? old : 1;
	return true;
}

unsigned http2_requests_add(struct http2_requests *requests, int32_t id)
{
	unsigned number;

	if (!requests->free && !grow_requests(requests))
		return 0;
	number = requests->free;
	requests->free = (unsigned)requests->streams[number];
	requests->streams[number] = id;
	return number;
}

int32_t http2_requests_remove(struct http2_requests *requests, unsigned number)
{
	int32_t id = requests->streams[number];

	requests->streams[number] = (int32_t)requests->free;
	requests->free = number;
	return id;
}

void http2_requests_cancel(struct http2_requests *requests, unsigned number)
{
	requests->streams[number] = (int32_t)requests->cancelled;
	requests->cancelled = number;
}

unsigned http2_requests_next_cancelled(struct http2_requests *requests)
{
	unsigned number = requests->cancelled;

	if (number)
		requests->cancelled = (unsigned)http2_requests_remove(requests, number);
	return number;
}
