/* pacer.c: requests start an interval apart, if they need not wait too long; see bucket.c. */
#include "algo/bucket.h"

static int init(struct algo_limit *limit, const struct weir_limit_options *options,
                struct weir_error *error)
{
	struct bucket_shape shape = {options->slack + 1, BUCKET_WAITING_MAX, options->max_wait_ns};

	return bucket_init(limit, options->rate.count, &shape, "slack", error);
}

const struct algorithm algorithm_pacer = {
    .name = "pacer",
    .id = WEIR_PACER,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX),
                   {"slack", ALGO_NUMBER, ALGO_FIELD(slack), .max = ALGO_COUNT_MAX - 1,
                    .otherwise = 10},
                   ALGO_MAX_WAIT_ROW(ALGO_WAIT_DEFAULT_NS)},
    .sample = "rate: 100/m",
    .paced = true,
    .init = init,
    BUCKET_HOOKS,
};
