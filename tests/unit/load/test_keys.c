/* Draws keys by each distribution, and compares their frequencies with the formula. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "load/keys.h"

#define DRAWS 400000
#define CELLS 50

/*
 * Draws from `count` keys of weight k^-s against their exact shares: the first
 * CELLS - 1 keys each, all others together. The bound is the 99.99% quantile of
 * chi-square with CELLS - 1 degrees of freedom, by Wilson and Hilferty.
 */
static void check_shares(const struct keys_options *options, double s)
{
	static double weights[CELLS];
	static uint64_t seen[CELLS];
	double total = 0, chi = 0, degrees = CELLS - 1;
	double bound = degrees * pow(1 - 2 / (9 * degrees) + 3.719 * sqrt(2 / (9 * degrees)), 3);
	struct keys keys;

	memset(weights, 0, sizeof weights);
	memset(seen, 0, sizeof seen);
	for (uint64_t k = 0; k < options->count; k++) {
		double weight = pow((double)k + 1, -s);

		weights[k < CELLS ? k : CELLS - 1] += weight;
		total += weight;
	}
	keys_start(&keys, options, 20240229, 1, 3);
	for (size_t i = 0; i < DRAWS; i++) {
		uint64_t k = keys_next(&keys);

		assert_true(k < options->count);
		seen[k < CELLS ? k : CELLS - 1]++;
	}
	for (size_t i = 0; i < CELLS; i++) {
		double expected = DRAWS * weights[i] / total;

		chi += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
	}
	if (chi > bound)
		fail_msg("exponent %g: chi-square %g is above %g", s, chi, bound);
}

static void zipf_follows_the_exact_distribution(void **state)
{
	static const double exponents[] = {0.5, 0.99, 1, 1.1, 2};

	(void)state;
	for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++)
		check_shares(&(struct keys_options){1000, KEYS_ZIPF, exponents[i]}, exponents[i]);
	check_shares(&(struct keys_options){1000000, KEYS_ZIPF, 1.1}, 1.1);
}

static void uniform_is_uniform(void **state)
{
	(void)state;
	check_shares(&(struct keys_options){.count = 60}, 0);
}

static void zipf_stays_in_range_at_its_extremes(void **state)
{
	static const struct keys_options options[] = {{1, KEYS_ZIPF, 1},
	                                              {2, KEYS_ZIPF, 100},
	                                              {KEYS_MAX, KEYS_ZIPF, 0.01},
	                                              {KEYS_MAX, KEYS_ZIPF, 1}};
	struct keys keys;

	(void)state;
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		keys_start(&keys, &options[i], 1, 0, 1);
		for (int j = 0; j < 1000; j++)
			assert_true(keys_next(&keys) < options[i].count);
	}
}

static void sequential_parts_cover_all_keys_once_and_begin_again(void **state)
{
	const struct keys_options options = {.count = 10, .kind = KEYS_SEQUENTIAL};
	struct keys keys;

	(void)state;
	for (size_t part = 0; part < 3; part++) {
		keys_start(&keys, &options, 7, part, 3);
		for (uint64_t i = 10 * part / 3; i < 10 * (part + 1) / 3; i++)
			assert_int_equal(keys_next(&keys), i);
	}
	assert_int_equal(keys_next(&keys), 0);
}

static void a_seed_reproduces_its_keys_and_parts_have_different_ones(void **state)
{
	const struct keys_options options = {.count = KEYS_MAX};
	struct keys first, again, other;

	(void)state;
	keys_start(&first, &options, 5, 0, 2);
	keys_start(&again, &options, 5, 0, 2);
	keys_start(&other, &options, 5, 1, 2);
	for (int i = 0; i < 100; i++) {
		uint64_t key = keys_next(&first);

		assert_int_equal(keys_next(&again), key);
		assert_int_not_equal(keys_next(&other), key);
	}
}

static void distributions_are_read_and_others_refused(void **state)
{
	static const char *const bad[] = {"",        "zipf",     "zipf:",    "zipf:0",
	                                  "zipf:-1", "zipf:x",   "zipf:nan", "zipf:inf",
	                                  "zipf:1x", "zipf:101", "gauss",    "single1"};
	struct keys_options options = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(keys_parse_distribution(SLICE("single"), &options, NULL), WEIR_OK);
	assert_int_equal(options.kind, KEYS_SINGLE);
	assert_int_equal(keys_parse_distribution(SLICE("zipf:1.25"), &options, NULL), WEIR_OK);
	assert_int_equal(options.kind, KEYS_ZIPF);
	assert_true(options.exponent == 1.25);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(keys_parse_distribution(slice_of(bad[i]), &options, &error), WEIR_EINVAL);
		assert_non_null(strstr(error.message, "expected uniform"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(zipf_follows_the_exact_distribution),
	    cmocka_unit_test(uniform_is_uniform),
	    cmocka_unit_test(zipf_stays_in_range_at_its_extremes),
	    cmocka_unit_test(sequential_parts_cover_all_keys_once_and_begin_again),
	    cmocka_unit_test(a_seed_reproduces_its_keys_and_parts_have_different_ones),
	    cmocka_unit_test(distributions_are_read_and_others_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
