/*
 * leaky_queue.c: describes `leaky_queue` limits: requests start an interval apart, and `capacity`
 * of them may wait; see rates/bucket.c.
 */
#include "algo/rates/bucket.h"

static int init_leaky_queue(struct algo_limit *limit, const struct weir_limit_options *options,
                            struct weir_error *error)
{
	struct bucket_shape shape = {1, options->burst, options->max_wait_ns};

	return bucket_init(limit, options->rate.count, &shape, "capacity", error);
}

const struct algorithm algorithm_leaky_queue = {
    .name = "leaky_queue",
    .id = WEIR_ALGORITHM_LEAKY_QUEUE,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX), ALGO_BURST_ROW("capacity"),
                   ALGO_MAX_WAIT_ROW(ALGO_HORIZON_NS)},
    .sample = "rate: 100/m, capacity: 20",
    .paced = true,
    .init = init_leaky_queue,
    BUCKET_HOOKS,
};
