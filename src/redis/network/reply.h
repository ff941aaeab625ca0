/* reply.h: declares a reply of Redis: a text, a number, an error, nothing, or an array of replies.
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include <stdbool.h>
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

/** Whether an error's text begins with this code: one word or more, as whole words. */
static inline bool redis_error_is(struct slice text, const char *code)
{
	return slice_skip(&text, slice_of(code)) && (text.len == 0 || *text.data == ' ');
}

#endif
