/*
 * pacer.c: describes `pacer` limits: requests start an interval apart, unless that makes one wait
 * too long; see rates/bucket.c.
 */
#include "algo/rates/bucket.h"

static int init_pacer(struct algo_limit *limit, const struct weir_limit_options *options,
                      struct weir_error *error)
{
	struct bucket_shape shape = {options->slack + 1, BUCKET_WAITING_MAX, options->max_wait_ns};

	return bucket_init(limit, options->rate.count, &shape, "slack", error);
}

/* Divides slack + 1, the number of turns that pass at once. */
static void divide_pacer(struct weir_limit_options *own, const struct weir_limit_options *whole,
                         uint64_t nodes)
{
	uint64_t turns = (whole->slack + 1) / nodes;

	own->slack = turns > 1 ? turns - 1 : WEIR_ZERO;
}

const struct algorithm algorithm_pacer = {
    .name = "pacer",
    .id = WEIR_ALGORITHM_PACER,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX),
                   {"slack", ALGO_NUMBER, ALGO_FIELD(slack), .max = ALGO_COUNT_MAX - 1,
                    .default_value = 10},
                   ALGO_MAX_WAIT_ROW(ALGO_WAIT_DEFAULT_NS)},
    .sample = "rate: 100/m",
    .paced = true,
    .init = init_pacer,
    .divide = divide_pacer,
    BUCKET_HOOKS,
};
