/*
 * base.c: describes `base` limits: the first units of a day are free, all others count in a window
 * that the first of them opens.
 */
#include "algo/algo.h"
#include "base/error.h"

/*
 * The first base - 1 units of a day are free: a window counts from the unit `base` on. The quota,
 * the most units that can be granted at one instant, is all free units and those of one window.
 */
static int init_base(struct algo_limit *limit, const struct weir_limit_options *options,
                     struct weir_error *error)
{
	uint64_t count = options->rate.count, most = ALGO_COUNT_MAX - count + 1;

	if (options->base > most)
		return error_set(error, WEIR_ERANGE, "base: expected 1 to %llu, found %llu",
		                 (unsigned long long)most, (unsigned long long)options->base);
	limit->day = (struct day_params){
	    .free = options->base - 1, .count = count, .period_ns = limit->period_ns};
	limit->quota = options->base - 1 + count;
	limit->window_ns = NS_PER_DAY;   /* users see the day, in which the free units count */
	limit->width = ALGO_WIDTH_LEAST; /* cells of a key's record */
	return algo_use_calendar(limit, options, 1, WEIR_UNIT_DAY, error);
}

const struct algorithm algorithm_base = {
    .name = "base",
    .id = WEIR_ALGORITHM_BASE,
    .parameters = {{"base", ALGO_NUMBER, ALGO_FIELD(base), .required = true, .min = 1,
                    .max = ALGO_COUNT_MAX},
                   ALGO_RATE_ROW(ALGO_COUNT_MAX),
                   ALGO_TIMEZONE_ROW(),
                   ALGO_KEYS_ROW},
    .sample = "base: 50, rate: 100/m",
    .record = ALGO_RECORD_DAY,
    .init = init_base,
};
