/*
 * timestamp.h: parses and prints times, such as RFC 3339, as nanoseconds since 1970.
 *
 * Reads digit by digit, never through a float, and cuts off digits finer than a
 * nanosecond. Refuses times before 1970 or after 2262.
 */
#ifndef BASE_TIME_TIMESTAMP_H
#define BASE_TIME_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

#define TIMESTAMP_MAX_NS ((uint64_t)INT64_MAX)

/** Unix seconds ("1700000000.25", "1.70000000025e9") or RFC 3339 ("2023-11-14T22:13:20.25Z"). */
bool timestamp_parse(struct slice text, uint64_t *out_ns);

/** As nginx and Apache write it: "14/Nov/2023:22:13:20 +0000". */
bool timestamp_parse_log(struct slice text, uint64_t *out_ns);

/** Appends Unix seconds, exactly: "1700000000.25". */
void timestamp_add_seconds(struct buffer *out, uint64_t time_ns);

/** Appends "2023-11-14T22:13:20Z"; fractions are cut off. */
void timestamp_add_date(struct buffer *out, uint64_t time_ns);

#endif
