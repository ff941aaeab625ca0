/*
 * carried.h: attributes that a visitor's request brings along through a proxy: `header.NAME`,
 * `cookie.NAME` and `query.NAME`. Rules name them and a codec finds them; both share this list.
 */
#ifndef BASE_TEXT_CARRIED_H
#define BASE_TEXT_CARRIED_H

#include "base/slice.h"

enum carried_in { CARRIED_HEADER, CARRIED_COOKIE, CARRIED_QUERY };

struct carried {
	const char *attribute; /* "header.X-Api-Key" */
	enum carried_in in;
	struct slice name; /* "X-Api-Key", the end of `attribute` */
};

/* At most so many in one request, beside its method, path, host and ip. */
#define CARRIED_MAX 60

struct carried_list {
	const struct carried *items; /* each attribute once */
	size_t count;
};

/** Whether `attribute` begins with "header.", "cookie." or "query."; `out` points into it. */
bool carried_parse(const char *attribute, struct carried *out);

#endif
