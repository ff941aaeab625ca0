/* Searches for the smallest number that fits, for every answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simulate/smallest.h"

/* The rounds that it takes to find the smallest number that fits; `from` on, all do. */
static unsigned find(uint64_t from, uint64_t max, uint64_t *found)
{
	struct smallest search = {.max = max};
	uint64_t numbers[SMALLEST_AT_ONCE];
	unsigned rounds = 0;
	size_t n;

	while ((n = smallest_next(&search, numbers)) > 0) {
		for (size_t i = 0; i < n; i++) {
			assert_true(numbers[i] >= 1 && numbers[i] <= max);
			assert_true(i == 0 || numbers[i] > numbers[i - 1]);
			assert_true(numbers[i] > search.largest_unfit);
			smallest_report(&search, numbers[i], numbers[i] >= from);
		}
		assert_true(++rounds < 100);
	}
	*found = search.smallest_fit;
	return rounds;
}

static void the_smallest_that_fits_is_found(void **state)
{
	uint64_t found;

	(void)state;
	for (uint64_t from = 1; from <= 3000; from++) {
		find(from, 3000, &found);
		assert_int_equal(found, from);
	}
	for (uint64_t max = 1; max <= 300; max++) {
		find(max, max, &found);
		assert_int_equal(found, max);
		find(max + 1, max, &found);
		assert_int_equal(found, 0);
	}
	for (uint64_t from = 1; from <= UINT64_C(1) << 32; from = from * 3 + 1) {
		assert_true(find(from, UINT64_C(1) << 32, &found) <= 13);
		assert_int_equal(found, from);
	}
}

/* Only even numbers fit: the search is fooled, and yet the number below its answer does not fit. */
static void without_an_order_the_number_below_does_not_fit(void **state)
{
	struct smallest search = {.max = 10000};
	uint64_t numbers[SMALLEST_AT_ONCE];
	size_t n;

	(void)state;
	while ((n = smallest_next(&search, numbers)) > 0)
		for (size_t i = 0; i < n; i++)
			smallest_report(&search, numbers[i], numbers[i] > 500 && numbers[i] % 2 == 0);
	assert_true(search.smallest_fit > 500 && search.smallest_fit % 2 == 0);
	assert_int_equal(search.largest_unfit, search.smallest_fit - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_smallest_that_fits_is_found),
	    cmocka_unit_test(without_an_order_the_number_below_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
