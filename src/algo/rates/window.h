/* window.h: decides fixed_window and resetting_bucket limits, see rates/window.c. */
#ifndef ALGO_RATES_WINDOW_H
#define ALGO_RATES_WINDOW_H

#include "algo/algo.h"

/** Makes the limit one of windows of its period, or of its calendar (`aligned`). */
void window_init(struct algo_limit *limit, uint64_t count, bool aligned);

bool window_step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_decision *out);

/* The hooks that both share, see algorithm.h. */
#define WINDOW_HOOKS .step = window_step, .word = "count", .word_less = 1

#endif
