/* json_body.h: a request's body in JSON. */
#ifndef PROTO_JSON_BODY_H
#define PROTO_JSON_BODY_H

#include "base/slice.h"
#include "proto/fill.h"

/**
 * An object with limit and key, or attributes, and what else fill_field knows.
 * Keys and attribute values may be strings, numbers, true or false, and count
 * as their text. 0, or a status with words in fill->error.
 */
int json_body_read(struct fill *fill, struct slice body);

/**
 * throttlecrab's: key, max_burst, count_per_period, period and perhaps quantity. 0, ESYNTAX (no
 * JSON), ENOTFOUND (a field is missing or of another type), else of a value; with words.
 */
int json_body_read_throttle(struct fill *fill, struct slice body);

/**
 * An array of such objects, each with an optional "op", into the request's
 * items. A bad one is handed to `refuse`, with its error, and disturbs no other.
 * 0, or the status of the array as a whole.
 */
int json_body_read_items(struct fill *fill, struct slice body, void (*refuse)(struct fill *item));

/**
 * An array of objects, each with an "Id" and an "Arg", into the request's items: `read` fills one
 * in from its "Arg". A bad one, and the result, as above.
 */
int json_body_read_args(struct fill *fill, struct slice array,
                        int (*read)(struct fill *item, struct slice arg),
                        void (*refuse)(struct fill *item));

#endif
