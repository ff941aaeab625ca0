#include "kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct weir_limit_options all_kinds[KINDS] = {
    {.rate = {5, 1, WEIR_UNIT_MINUTE}, .burst = 10},
    {.rate = {3, 1, WEIR_UNIT_MINUTE}, .burst = 1},
    {.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {5, 1, WEIR_UNIT_MINUTE}, .burst = 3},
    {.algorithm = WEIR_ALGORITHM_PACER, .rate = {5, 1, WEIR_UNIT_MINUTE}, .slack = 3, .max_wait_ns = NS_PER_S},
    {.algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {5, 1, WEIR_UNIT_MINUTE}, .max_wait_ns = NS_PER_S},
    {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {5, 1, WEIR_UNIT_DAY}},
    {.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {5, 1, WEIR_UNIT_MINUTE}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5, 1, WEIR_UNIT_MINUTE}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {5, 1, WEIR_UNIT_MINUTE}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {5, 1, WEIR_UNIT_MINUTE}},
    {.algorithm = WEIR_ALGORITHM_BASE, .base = 3, .rate = {2, 1, WEIR_UNIT_MINUTE}},
    {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5},
};

struct algo_limit limits[KINDS];

struct algo_limit limit_of(struct weir_limit_options options)
{
	struct algo_limit limit;

	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	return limit;
}

void kinds_open(void)
{
	for (size_t i = 0; i < KINDS; i++)
		limits[i] = limit_of(all_kinds[i]);
}

void kinds_close(void)
{
	for (size_t i = 0; i < KINDS; i++)
		algo_limit_free(&limits[i]);
}
