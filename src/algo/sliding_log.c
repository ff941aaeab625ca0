/* sliding_log.c: describes `sliding_log` limits: a log of all requests of the last period. */
#include "algo/algo.h"

static int init_sliding_log(struct algo_limit *limit, const struct weir_limit_options *options,
                            struct weir_error *error)
{
	(void)error;
	limit->log = (struct log_params){options->rate.count, limit->period_ns};
	limit->width = algo_width(options->rate.count + 1);
	return WEIR_OK;
}

const struct algorithm algorithm_sliding_log = {
    .name = "sliding_log",
    .id = WEIR_ALGORITHM_SLIDING_LOG,
    .parameters = {ALGO_RATE_ROW(ALGO_LOG_MAX), ALGO_KEYS_ROW},
    .sample = "rate: 100/m",
    .record = ALGO_RECORD_LOG,
    .init = init_sliding_log,
};
