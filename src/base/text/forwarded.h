/*
 * forwarded.h: lists the attributes that a proxy forwards from its visitor's request: `header.NAME`,
 * `cookie.NAME` and `query.NAME`. Rules name them, and the codec of a protocol finds their values.
 */
#ifndef BASE_TEXT_FORWARDED_H
#define BASE_TEXT_FORWARDED_H

#include "base/slice.h"

enum forwarded_from { FORWARDED_FROM_HEADER, FORWARDED_FROM_COOKIE, FORWARDED_FROM_QUERY };

struct forwarded_attribute {
	const char *attribute; /* "header.X-Api-Key" */
	enum forwarded_from in;
	struct slice name; /* "X-Api-Key", the end of `attribute` */
};

/* At most so many in one request, beside its method, path, host and ip. */
#define FORWARDED_MAX 60

struct forwarded_list {
	const struct forwarded_attribute *items; /* each attribute once */
	size_t count;
};

/** Whether `attribute` begins with "header.", "cookie." or "query."; `out` points into it. */
bool forwarded_parse(const char *attribute, struct forwarded_attribute *out);

#endif
