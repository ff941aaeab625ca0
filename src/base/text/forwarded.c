/*
 * forwarded.c: parses the names of attributes that a proxy forwards from its visitor's request,
 * such as `header.X-Api-Key`.
 */
#include "base/text/forwarded.h"

bool forwarded_parse(const char *attribute, struct forwarded_attribute *out)
{
	static const struct slice prefixes[] = {
	    [FORWARDED_FROM_HEADER] = SLICE("header."),
	    [FORWARDED_FROM_COOKIE] = SLICE("cookie."),
	    [FORWARDED_FROM_QUERY] = SLICE("query."),
	};

	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(attribute, prefixes[i].data, prefixes[i].len) == 0) {
			*out = (struct forwarded_attribute){attribute, (enum forwarded_from)i,
			                                    slice_of(attribute + prefixes[i].len)};
			return true;
		}
	return false;
}
