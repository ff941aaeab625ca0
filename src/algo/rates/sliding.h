/* sliding.h: what sliding_window and sliding_counter share as limits with slots. */
#ifndef ALGO_RATES_SLIDING_H
#define ALGO_RATES_SLIDING_H

#include "algo/algo.h"

/** Derives what follows from limit->slots. */
void sliding_init(struct algo_limit *limit);

/** For struct algorithm. */
void sliding_before_takeover(const struct algo_limit *limit, struct algo_limit *next);

#endif
