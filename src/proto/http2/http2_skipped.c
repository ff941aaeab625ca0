/*
 * http2_skipped.c: remembers the newest gap in the stream IDs of an HTTP/2 client. IDs must
 * increase, so the client may not open a skipped stream any more. Older gaps are forgotten: then a
 * stream of theirs counts as one that has ended.
 */
#include "proto/http2/http2_skipped.h"

/* Returns false if the header of stream `id` opens it too late. Clients use odd IDs only. */
bool http2_skipped_open(struct http2_skipped *skipped, int32_t id)
{
	bool is_not_new = id <= skipped->newest, skips_streams = id - skipped->newest > 2;

	if (is_not_new) /* outside the gap, it is the trailer of a stream that was opened */
		return id <= skipped->gap_after || id >= skipped->gap_before;
	if (skips_streams) {
		skipped->gap_after = skipped->newest;
		skipped->gap_before = id;
	}
	skipped->newest = id;
	return true;
}
