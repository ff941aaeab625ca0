/* compact.h: reads JSON strictly and writes it without blanks. */
#ifndef READERS_COMPACT_H
#define READERS_COMPACT_H

#include "base/buffer.h"
#include "base/text/json.h"

#define COMPACT_DEPTH_MAX  16  /* objects and lists in each other */
#define COMPACT_FIELDS_MAX 256 /* of an object */
#define COMPACT_NAME_MAX   256 /* bytes of a field's */

/* "expected" of a failure: the outermost object may not have that field. */
#define COMPACT_NO_FIELD ""

struct compact {
	struct json json;  /* the unread rest; after a failure, its position and the expected text */
	struct buffer out; /* the caller's to bound and to free */
	unsigned depth;
	/** Optional: whether the outermost object may have a field of that name. */
	bool (*may_have_field)(struct slice name);
	const struct slice *counted_names; /* names of which found_names gets a bit each, */
	size_t counted_name_count;         /* at most 32 */
	uint32_t found_names;              /* those that the outermost object has */
	struct slice located_name;         /* a field of the outermost object */
	size_t located_begin, located_end; /* its value in `out`; 0 if there is none */
};

/** Reads one object, and leaves the bytes behind it unread. */
bool compact_object(struct compact *compact);

#endif
