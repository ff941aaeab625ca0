/*
 * resetting_bucket.c: describes `resetting_bucket` limits: a fixed_window that its first request
 * opens, see rates/window.c.
 */
#include "algo/rates/window.h"

static int init_resetting_bucket(struct algo_limit *limit, const struct weir_limit_options *options,
                                 struct weir_error *error)
{
	(void)error;
	window_init(limit, options->rate.count, false);
	return WEIR_OK;
}

const struct algorithm algorithm_resetting_bucket = {
    .name = "resetting_bucket",
    .id = WEIR_ALGORITHM_RESETTING_BUCKET,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX)},
    .sample = "rate: 100/m",
    .init = init_resetting_bucket,
    WINDOW_HOOKS,
};
