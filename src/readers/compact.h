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
	bool (*field)(struct slice name);
	const struct slice *names;       /* of the outermost object, as many as ... */
	size_t name_count;               /* ... this, at most 32, and ... */
	uint32_t found;                  /* ... a bit for each that it has */
	struct slice wanted;             /* a name of the outermost object, and ... */
	size_t wanted_begin, wanted_end; /* ... its value in `out`; 0 if there is none */
};

/** Reads one object, and leaves the bytes behind it unread. */
bool compact_object(struct compact *compact);

#endif
