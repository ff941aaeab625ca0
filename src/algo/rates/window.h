/* window.h: the maths of fixed_window and resetting_bucket, see rates/window.c. */
#ifndef ALGO_RATES_WINDOW_H
#define ALGO_RATES_WINDOW_H

#include "algo/algo.h"

/** Windows of the limit's period, or of its calendar. */
void window_init(struct algo_limit *limit, uint64_t count, bool aligned);

bool window_step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_decision *out);

/* The part that the descriptions of such windows share. */
#define WINDOW_HOOKS .step = window_step, .word = "count", .word_less = 1

#endif
