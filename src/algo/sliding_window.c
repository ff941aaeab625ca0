/*
 * sliding_window.c: describes `sliding_window` limits: the last period is split into slots, whose
 * counts add up.
 */
#include "algo/rates/sliding.h"

static int init_sliding_window(struct algo_limit *limit, const struct weir_limit_options *options,
                               struct weir_error *error)
{
	/* Slots shorter than a nanosecond would tell no more, and their numbers would overflow. */
	uint32_t slots = (uint32_t)u64_min(options->slots, limit->period_ns);

	(void)error;
	limit->slots = (struct slots_params){
	    .count = options->rate.count,
	    .period_ns = limit->period_ns,
	    .slot_ns = limit->period_ns / slots,
	    .slots = slots,
	    .slot_is_exact = limit->period_ns % slots == 0,
	};
	sliding_init(limit);
	return WEIR_OK;
}

const struct algorithm algorithm_sliding_window = {
    .name = "sliding_window",
    .id = WEIR_ALGORITHM_SLIDING_WINDOW,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX),
                   {"slots", ALGO_NUMBER, ALGO_FIELD(slots), .min = 1, .max = ALGO_SLOTS_MAX,
                    .default_value = 10},
                   ALGO_KEYS_ROW},
    .sample = "rate: 100/m",
    .record = ALGO_RECORD_SLOTS,
    .init = init_sliding_window,
    .before_takeover = sliding_before_takeover,
};
