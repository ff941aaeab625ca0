/*
 * Tests that the n newest of many ends are those that a sort of all ends finds: for ends that grow,
 * fall, are random, gather around a few times or are equal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "records/newest.h"

#define MOST (2 * ALGO_WIDTH_MOST)

static uint64_t ends[MOST], sorted[MOST];
static uint64_t seed;

static uint64_t draw(void)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return seed >> 33;
}

static uint64_t growing(size_t i)
{
	return i + 1;
}

static uint64_t falling(size_t i)
{
	return MOST - i;
}

static uint64_t drawn(size_t i)
{
	(void)i;
	return draw() + 1;
}

static uint64_t alike(size_t i)
{
	(void)i;
	return 7;
}

static uint64_t gathered(size_t i)
{
	(void)i;
	return 1 + (UINT64_C(1) << draw() % 40) + draw() % 3;
}

static uint64_t in_turn(size_t i)
{
	return 1 + i % 16;
}

static int later_first(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one < other) - (one > other);
}

/* Searches after a first pass that has prepared for up to `most`. */
static void search_of(size_t count, uint64_t most, uint64_t n)
{
	struct newest newest;
	uint64_t taken = 0;

	newest_begin(&newest, most);
	for (size_t i = 0; i < count; i++)
		newest_add_end(&newest, ends[i]);
	if (newest_needs_count(&newest, n)) {
		for (size_t i = 0; i < count; i++)
			newest_count_end(&newest, ends[i]);
		assert_true(newest_end_count(&newest));
	}
	for (size_t i = 0; i < count; i++)
		if (newest_includes(&newest, ends[i])) {
			newest_count_release(&newest, ends[i]);
			assert_true(n >= count || ends[i] >= sorted[n - 1]);
			taken++;
		}
	assert_int_equal(taken, n < count ? n : count);
}

static void search(size_t count, uint64_t n)
{
	search_of(count, n, n);
	search_of(count, n + draw() % (2 * count), n);
	search_of(count, UINT64_MAX, n);
}

static void the_newest_are_found(void **state)
{
	static uint64_t (*const orders[])(size_t) = {growing, falling, drawn, alike, gathered, in_turn};
	static const size_t counts[] = {1, 2, 100, 511, 512, 513, 1000, 10000, MOST};

	(void)state;
	for (size_t order = 0; order < sizeof orders / sizeof *orders; order++)
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
			size_t count = counts[c];

			for (size_t i = 0; i < count; i++)
				sorted[i] = ends[i] = orders[order](i);
			qsort(sorted, count, sizeof *sorted, later_first);
			for (uint64_t n = 1; n <= count + 1; n += 1 + n / 3)
				search(count, n);
			for (unsigned i = 0; i < 20; i++)
				search(count, 1 + draw() % count);
			search(count, count - 1 ? count - 1 : 1);
		}
}

/* Records that come between the passes make the search begin anew: it never keeps more than it can.
 */
static void ends_that_change_meanwhile_are_noticed(void **state)
{
	struct newest newest;

	(void)state;
	newest_begin(&newest, 5000);
	for (size_t i = 0; i < 10000; i++)
		newest_add_end(&newest, i + 1);
	assert_true(newest_needs_count(&newest, 5000));
	for (size_t i = 0; i < 10000; i++)
		newest_count_end(&newest, 20000);
	assert_false(newest_end_count(&newest));
	newest_begin(&newest, 5000);
	for (size_t i = 0; i < 10000; i++)
		newest_add_end(&newest, i + 1);
	assert_true(newest_needs_count(&newest, 5000));
	for (size_t i = 0; i < 10000; i++)
		newest_count_end(&newest, 5001);
	assert_false(newest_end_count(&newest));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_newest_are_found),
	    cmocka_unit_test(ends_that_change_meanwhile_are_noticed),
	};
	const char *chosen = getenv("WEIR_TEST_SEED");

	seed = chosen ? strtoull(chosen, NULL, 10) : 1;
	printf("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("records/newest", tests, NULL, NULL);
}
