#include "base/text/carried.h"

bool carried_parse(const char *attribute, struct carried *out)
{
	static const struct slice prefixes[] = {
	    [CARRIED_HEADER] = SLICE("header."),
	    [CARRIED_COOKIE] = SLICE("cookie."),
	    [CARRIED_QUERY] = SLICE("query."),
	};

	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(attribute, prefixes[i].data, prefixes[i].len) == 0) {
			*out = (struct carried){attribute, (enum carried_in)i,
			                        slice_of(attribute + prefixes[i].len)};
			return true;
		}
	return false;
}
