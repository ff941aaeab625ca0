/*
 * concurrency.c: describes `concurrency` limits: at most `max` requests are in flight, each with an
 * entry of the key that it releases at its end, or that its lease ends.
 */
#include "algo/algo.h"

static int init_concurrency(struct algo_limit *limit, const struct weir_limit_options *options,
                            struct weir_error *error)
{
	(void)error;
	limit->leases = (struct leases_params){options->max, options->lease_ns};
	limit->quota = options->max;
	limit->window_ns = options->lease_ns;
	limit->width = algo_width(options->max);
	return WEIR_OK;
}

const struct algorithm algorithm_concurrency = {
    .name = "concurrency",
    .id = WEIR_ALGORITHM_CONCURRENCY,
    .parameters = {ALGO_MAX_WAIT_ROW(ALGO_WAIT_DEFAULT_NS),
                   {"max", ALGO_NUMBER, ALGO_FIELD(max), .required = true, .min = 1,
                    .max = ALGO_PERMITS_MAX},
                   {"queue", ALGO_NUMBER, ALGO_FIELD(queue), .max = 1000000},
                   {"lease", ALGO_TIME, ALGO_FIELD(lease_ns), .min = 1, .max = ALGO_PERIOD_MAX_NS,
                    .default_value = 30 * NS_PER_S},
                   ALGO_RETRY_ROW,
                   ALGO_KEYS_ROW},
    .record = ALGO_RECORD_LEASES,
    .unreported = "its places come back only when the lease ends",
    .retry_is_estimate = true,
    .init = init_concurrency,
};
