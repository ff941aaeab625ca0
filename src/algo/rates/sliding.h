/* sliding.h: completes limits with slots: sliding_window and sliding_counter. */
#ifndef ALGO_RATES_SLIDING_H
#define ALGO_RATES_SLIDING_H

#include "algo/algo.h"

/** Sets the fields that follow from limit->slots. */
void sliding_init(struct algo_limit *limit);

/** The hook before_takeover, see algorithm.h. */
void sliding_before_takeover(const struct algo_limit *limit, struct algo_limit *next);

#endif
