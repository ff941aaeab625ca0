/*
 * leaky_bucket.c: describes `leaky_bucket` limits: the same as token_bucket, described by the level
 * of the bucket; see rates/bucket.c.
 */
#include "algo/rates/bucket.h"

static int init_leaky_bucket(struct algo_limit *limit, const struct weir_limit_options *options,
                             struct weir_error *error)
{
	return bucket_init(limit, options->rate.count, &(struct bucket_shape){options->burst, 0, 0},
	                   "capacity", error);
}

const struct algorithm algorithm_leaky_bucket = {
    .name = "leaky_bucket",
    .id = WEIR_ALGORITHM_LEAKY_BUCKET,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX), ALGO_BURST_ROW("capacity")},
    .sample = "rate: 100/m, capacity: 20",
    .init = init_leaky_bucket,
    BUCKET_HOOKS,
};
