/* rate.h: parses and prints rates and durations, such as 5/s and 250ms. */
#ifndef RULES_RATE_H
#define RULES_RATE_H

#include <weir/weir.h>

#include "base/buffer.h"
#include "base/slice.h"

/**
 * COUNT/PERIOD, where PERIOD is an optional number and one of ms s m h d w
 * month year: "5/s", "10/100ms", "5/d". Both numbers are whole and at least 1;
 * whether a limit can have such a rate is checked by algo_limit_init.
 */
bool rate_parse(struct slice text, struct weir_rate *out);

#define RATE_UNITS    "ms s m h d w month year"
#define RATE_TEXT_MAX 48

/** Guesses the rate that a wrong text means, as "5/s" for "5/sec"; false if there is no guess. */
bool rate_meant(struct slice text, char out[RATE_TEXT_MAX]);

#define DURATION_EXPECTED "a number and one of ms s m h d w, such as 1s"

/** NUMBER and one of ms s m h d w: "1s", "250ms", "0s". A year at most. */
bool duration_parse(struct slice text, uint64_t *ns);
/** Appends what duration_parse has read, in the largest unit that it is whole in. */
void duration_add(struct buffer *out, uint64_t ns);

#define TIME_OR_SPAN_EXPECTED "to be a time such as 2026-01-31T10:00:00Z or a span such as 1h"
#define SINCE_EXPECTED        "since " TIME_OR_SPAN_EXPECTED
#define UNTIL_EXPECTED        "until " TIME_OR_SPAN_EXPECTED

/**
 * A time, as timestamp_parse, or a duration that ends at `now_ns`: sets *since_ns to its beginning,
 * in Unix time.
 */
bool since_parse(struct slice text, uint64_t now_ns, uint64_t *since_ns);

/** Appends a rate that rate_parse has read, as it was written but for a period of 1. */
void rate_add(struct buffer *out, const struct weir_rate *rate);

#endif
