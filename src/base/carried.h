/*
 * carried.h: attributes that a visitor's request brings along behind a proxy:
 * `header.NAME`, `cookie.NAME` and `query.NAME`.
 *
 * Rules name them, a codec finds them; this is the list that goes from the one
 * to the other.
 */
#ifndef BASE_CARRIED_H
#define BASE_CARRIED_H

#include "base/slice.h"

enum carried_in { CARRIED_HEADER, CARRIED_COOKIE, CARRIED_QUERY };

struct carried {
	const char *attribute; /* "header.X-Api-Key" */
	enum carried_in in;
	struct slice name; /* "X-Api-Key", the end of `attribute` */
};

/* So many fit into one request, beside its method, path, host and ip. */
#define CARRIED_MAX 60

struct carried_list {
	const struct carried *items; /* each attribute once */
	size_t count;
};

/** Whether `attribute` begins with "header.", "cookie." or "query."; `out` points into it. */
bool carried_parse(const char *attribute, struct carried *out);

#endif
