/*
 * query.h: what URLs encode. Decoded text may hold any byte; it is `text`
 * itself when nothing was encoded, else in the arena.
 */
#ifndef PROTO_QUERY_H
#define PROTO_QUERY_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/slice.h"

/** Takes the next "name=value" that is not empty from *rest, undecoded; false at its end. */
bool query_next(struct slice *rest, struct slice *name, struct slice *value);

/** Whether it has what query_decode undoes. */
bool query_is_coded(struct slice text);

/** Undoes %XX and '+'. 0, ESYNTAX (an escape that is none: "%zz"), ENOMEM. */
int query_decode(struct arena *arena, struct slice text, struct slice *out);

/** The same; an escape that is none stands for itself. 0 or ENOMEM. */
int query_decode_form(struct arena *arena, struct slice text, struct slice *out);

/** Undoes %XX; an escape that is none stands for itself, as in browsers. 0 or ENOMEM. */
int query_decode_path(struct arena *arena, struct slice text, struct slice *out);

/** Decodes a path once and normalizes it, see path.h: %2e and %2f are "." and "/". 0 or ENOMEM. */
int query_normalize(struct arena *arena, struct slice path, struct slice *out);

#endif
