#include "proto/http2/http2_places.h"

#include <stdlib.h>

#include "proto/request.h"

/* Returns false if there is no memory, or too many. */
static bool add_places(struct http2_places *places)
{
	unsigned old = places->room, room = old ? 2 * old : 64;
	int32_t *streams =
	    room <= 1u << REQUEST_STREAM_BITS ? realloc(places->streams, room * sizeof *streams) : NULL;

	if (!streams)
		return false;
	for (unsigned i = old ? old : 1; i < room; i++)
		streams[i] = (int32_t)(i + 1 < room ? i + 1 : 0);
	places->streams = streams;
	places->room = room;
	places->free = old ? old : 1;
	return true;
}

unsigned http2_places_take(struct http2_places *places, int32_t id)
{
	unsigned place;

	if (!places->free && !add_places(places))
		return 0;
	place = places->free;
	places->free = (unsigned)places->streams[place];
	places->streams[place] = id;
	return place;
}

int32_t http2_places_leave(struct http2_places *places, unsigned place)
{
	int32_t id = places->streams[place];

	places->streams[place] = (int32_t)places->free;
	places->free = place;
	return id;
}

void http2_places_cancel(struct http2_places *places, unsigned place)
{
	places->streams[place] = (int32_t)places->cancelled;
	places->cancelled = place;
}

unsigned http2_places_cancelled(struct http2_places *places)
{
	unsigned place = places->cancelled;

	if (place)
		places->cancelled = (unsigned)http2_places_leave(places, place);
	return place;
}
