/* figure.h: writes durations and shares for people, right-aligned in a column of `width`. */
#ifndef SIMULATE_FIGURE_H
#define SIMULATE_FIGURE_H

#include "base/buffer.h"

/** Writes a duration such as 150 us, 2.5 s or 3 m, and "-" for 0. */
void figure_add_duration(struct buffer *out, int width, uint64_t ns);

/**
 * Writes a share such as 17%, 4.5% or 0.2%: with the digits that matter near none and near all, so
 * that only a share of nothing is 0% and only all is 100%.
 */
void figure_add_percent(struct buffer *out, int width, double part, double whole);

#endif
