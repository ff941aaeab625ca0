#include "proto/http2/http2_skipped.h"

bool http2_skipped_open(struct http2_skipped *skipped, int32_t id)
{
	if (id <= skipped->newest)
		return id <= skipped->before || id >= skipped->behind;
	if (id - skipped->newest > 2) {
		skipped->before = skipped->newest;
		skipped->behind = id;
	}
	skipped->newest = id;
	return true;
}
