/*
 * http2_skipped.c: remembers which streams an HTTP/2 client has skipped, and may not open any more:
 * stream IDs must increase.
 */
#include "proto/http2/http2_skipped.h"

/* Returns false if the header of stream `id` opens it too late. Clients use odd IDs only. */
bool http2_skipped_open(struct http2_skipped *skipped, int32_t id)
{
	bool is_not_new = id <= skipped->newest, skips_streams = id - skipped->newest > 2;

	if (is_not_new)
		return id <= skipped->gap_after || id >= skipped->gap_before;
	if (skips_streams) {
		skipped->gap_after = skipped->newest;
		skipped->gap_before = id;
	}
	skipped->newest = id;
	return true;
}
