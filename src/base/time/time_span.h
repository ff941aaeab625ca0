/* time_span.h: writes a span of time for people, in its two largest units. */
#ifndef BASE_TIME_TIME_SPAN_H
#define BASE_TIME_TIME_SPAN_H

#include <stdint.h>

#include "base/buffer.h"

/** Appends a span such as 2 d 5 h, 3 h 20 min or 0 min 9 s. Smaller units are left out. */
void time_span_add(struct buffer *out, uint64_t s);

/**
 * Appends the time until something is due: below a minute in milliseconds, otherwise as a span that
 * is rounded up, so that nobody comes early.
 */
void time_span_add_wait(struct buffer *out, uint64_t ms);

#endif
