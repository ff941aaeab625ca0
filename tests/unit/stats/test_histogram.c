#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stats/histogram.h"

#define SAMPLES 20000

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void quantiles_are_within_one_percent_of_the_exact_ones(void **state)
{
	static const double qs[] = {1e-9, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
	static uint64_t values[SAMPLES];
	static struct histogram halves[2], histogram;
	unsigned short seed[3] = {1, 2, 3};

	(void)state;
	for (size_t i = 0; i < SAMPLES; i++) {
		/* Every magnitude, so that every shape of bucket is met. */
		values[i] = (((uint64_t)nrand48(seed) << 33) ^ (uint64_t)nrand48(seed)) >>
		            nrand48(seed) % 64;
		histogram_count(&halves[i % 2], values[i], 1);
	}
	histogram_add(&histogram, &halves[0]);
	histogram_add(&histogram, &halves[1]);
	qsort(values, SAMPLES, sizeof *values, ascending);
	assert_int_equal(histogram.count, SAMPLES);
	for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
		size_t rank = (size_t)(qs[i] * SAMPLES + 0.999999999);
		uint64_t exact = values[rank > 0 ? rank - 1 : 0];
		uint64_t found = histogram_quantile(&histogram, qs[i]);
		uint64_t off = found > exact ? found - exact : exact - found;

		if (off > exact / 100)
			fail_msg("quantile %g: expected %llu, found %llu", qs[i], (unsigned long long)exact,
			         (unsigned long long)found);
	}
	assert_int_equal(histogram_quantile(&histogram, 1), values[SAMPLES - 1]);
}

static void buckets_are_in_order_and_hold_their_floor(void **state)
{
	static struct histogram histogram;

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++)
		for (int64_t off = -1; off <= 1; off++) {
			uint64_t value = (UINT64_C(1) << bit) + (uint64_t)off;
			uint64_t floor = histogram_floor(value);

			assert_in_range(histogram_bucket(value), 0, HISTOGRAM_BUCKETS - 1);
			assert_true(floor <= value && value - floor <= value / 128);
			assert_int_equal(histogram_bucket(floor), histogram_bucket(value));
			assert_true(floor == 0 || histogram_bucket(floor - 1) + 1 == histogram_bucket(floor));
		}
	histogram_count(&histogram, UINT64_MAX, 1);
	assert_int_equal(histogram_quantile(&histogram, 0.5), UINT64_MAX);
}

static void what_is_above_a_value_is_counted(void **state)
{
	static struct histogram histogram;

	(void)state;
	histogram_count(&histogram, 100, 5);
	histogram_count(&histogram, 1000000, 7);
	histogram_count(&histogram, 1100000, 11);
	assert_int_equal(histogram_above(&histogram, 99), 23);
	assert_int_equal(histogram_above(&histogram, 100), 18);
	assert_int_equal(histogram_above(&histogram, 1000000), 11);
	assert_int_equal(histogram_above(&histogram, 1100000), 0);
}

static void an_empty_one_is_all_zero(void **state)
{
	static struct histogram histogram;

	(void)state;
	assert_int_equal(histogram_quantile(&histogram, 0.5), 0);
	assert_int_equal(histogram_above(&histogram, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quantiles_are_within_one_percent_of_the_exact_ones),
	    cmocka_unit_test(buckets_are_in_order_and_hold_their_floor),
	    cmocka_unit_test(what_is_above_a_value_is_counted),
	    cmocka_unit_test(an_empty_one_is_all_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
