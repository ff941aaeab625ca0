/*
 * sliding_counter.c: describes `sliding_counter` limits: slots of one period each, of which the
 * earlier counts by the share that the sliding period still covers.
 */
#include "algo/rates/sliding.h"

static int init_sliding_counter(struct algo_limit *limit, const struct weir_limit_options *options,
                                struct weir_error *error)
{
	(void)error;
	limit->slots = (struct slots_params){
	    .count = options->rate.count,
	    .period_ns = 2 * limit->period_ns, /* of both slots */
	    .slot_ns = limit->period_ns,
	    .slots = 2,
	    .slot_is_exact = true, /* a slot is a period, which needs no rounding */
	    .weighted = true,
	};
	sliding_init(limit);
	return WEIR_OK;
}

const struct algorithm algorithm_sliding_counter = {
    .name = "sliding_counter",
    .id = WEIR_ALGORITHM_SLIDING_COUNTER,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX), ALGO_KEYS_ROW},
    .sample = "rate: 100/m",
    .record = ALGO_RECORD_SLOTS,
    .init = init_sliding_counter,
    .before_takeover = sliding_before_takeover,
};
