#include "proto/http2/http2_ids.h"

bool http2_ids_see(struct http2_ids *ids, int32_t id)
{
	if (id <= ids->newest)
		return id <= ids->before || id >= ids->behind;
	if (id - ids->newest > 2) {
		ids->before = ids->newest;
		ids->behind = id;
	}
	ids->newest = id;
	return true;
}
