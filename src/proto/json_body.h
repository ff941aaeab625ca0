/* json_body.h: reads requests from JSON: bodies of HTTP, and an array of items in a parameter. */
#ifndef PROTO_JSON_BODY_H
#define PROTO_JSON_BODY_H

#include "base/slice.h"
#include "proto/fill.h"

/**
 * Reads an object with limit and key, or attributes, and the other fields of fill_field. Keys and
 * attribute values may be strings, numbers, true or false; their text counts. Returns 0, or a
 * status with a message in fill->error.
 */
int json_body_read(struct fill *fill, struct slice body);

/**
 * Reads throttlecrab's key, max_burst, count_per_period, period and optionally quantity. Returns 0;
 * ESYNTAX if the body is not JSON; ENOTFOUND if a field is missing or of another type; or the error
 * of a value.
 */
int json_body_read_throttle(struct fill *fill, struct slice body);

/**
 * Reads an array of such objects, each with an optional "op", into the request's items. An item
 * with an error is handed to `refuse`, and does not affect the others. Returns 0, or the status of
 * the array as a whole.
 */
int json_body_read_items(struct fill *fill, struct slice body, void (*refuse)(struct fill *item));

/**
 * Reads an array of objects, each with an "Id" and an "Arg", into the request's items: `read` fills
 * in an item from its "Arg". Items with errors, and the result, are as above.
 */
int json_body_read_args(struct fill *fill, struct slice array,
                        int (*read)(struct fill *item, struct slice arg),
                        void (*refuse)(struct fill *item));

#endif
