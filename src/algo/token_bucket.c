/*
 * token_bucket.c: describes `token_bucket` limits: a burst passes at once, then one request for
 * each new token; see rates/bucket.c.
 */
#include "algo/rates/bucket.h"

static int init_token_bucket(struct algo_limit *limit, const struct weir_limit_options *options,
                             struct weir_error *error)
{
	return bucket_init(limit, options->rate.count, &(struct bucket_shape){options->burst, 0, 0},
	                   "burst", error);
}

const struct algorithm algorithm_token_bucket = {
    .name = "token_bucket",
    .id = WEIR_ALGORITHM_TOKEN_BUCKET,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX), ALGO_BURST_ROW("burst")},
    .sample = "rate: 100/m",
    .init = init_token_bucket,
    BUCKET_HOOKS,
};
