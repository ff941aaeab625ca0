/* reply.h: what Redis answers. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum redis_type {
	REDIS_NIL,
	REDIS_INTEGER,
	REDIS_TEXT,
	REDIS_ERROR, /* `text` says why */
	REDIS_ARRAY,
};

struct redis_reply {
	enum redis_type type;
	int64_t integer;
	struct slice text;
	const struct redis_reply *items;
	size_t count; /* of `items` */
};

#endif
