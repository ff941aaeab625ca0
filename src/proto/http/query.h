/*
 * query.h: splits and decodes the query and the path of a URL.
 *
 * Decoded text may contain any byte. It is `text` itself if nothing was encoded, otherwise a copy
 * in the arena.
 */
#ifndef PROTO_QUERY_H
#define PROTO_QUERY_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/slice.h"

/** Removes the next non-empty "name=value" from *rest, without decoding it. False at the end. */
bool query_next(struct slice *rest, struct slice *name, struct slice *value);

/** Whether query_decode would change the text. */
bool query_is_coded(struct slice text);

/** Decodes %XX and '+'. 0, ESYNTAX (an invalid escape such as "%zz"), ENOMEM. */
int query_decode(struct arena *arena, struct slice text, struct slice *out);

/** The same, but leaves an invalid escape as it is. 0 or ENOMEM. */
int query_decode_form(struct arena *arena, struct slice text, struct slice *out);

/** Decodes %XX; leaves an invalid escape as it is, like browsers. 0 or ENOMEM. */
int query_decode_path(struct arena *arena, struct slice text, struct slice *out);

/** Decodes a path once and normalizes it, see path.h: %2e and %2f count as "." and "/". 0 or
 * ENOMEM. */
int query_normalize_path(struct arena *arena, struct slice path, struct slice *out);

#endif
