/* Sorts requests that are out of order, late or far ahead, in bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "simulate/input/lines.h"
#include "simulate/input/time_order.h"

static char text[LINES_LENGTH_MAX];

static bool add(struct order *order, uint64_t time_ns, size_t len)
{
	struct record record = {.time_ns = time_ns, .cost = 1, .values = {{text, len}, {NULL, 0}}};

	return order_add(order, &record, 2);
}

static void requests_are_taken_by_time_and_released_by_line(void **state)
{
	struct order *order = order_open();
	unsigned short seed[3] = {1, 2, 3};
	uint64_t last = 0, left = 0, released = 0;
	struct ordered_record *ordered;

	(void)state;
	for (uint64_t i = 0; i < 50000; i++) {
		assert_true(
		    add(order, i * 10 + (uint64_t)nrand48(seed) % 20000, (uint64_t)nrand48(seed) % 700));
		while ((ordered = order_next(order, i == 49999))) {
			assert_true(ordered->time_ns >= last);
			last = ordered->time_ns;
			left++;
			order_done(ordered);
			while ((ordered = order_release(order)))
				assert_int_equal(ordered->number, released++);
		}
	}
	assert_int_equal(left, 50000);
	assert_int_equal(released, 50000);
	assert_int_equal(order_stats(order)->late, 0);
	assert_true(order_stats(order)->sorted > 10000);
	order_close(order);
}

static void a_late_request_counts_at_the_latest_time(void **state)
{
	struct order *order = order_open();
	struct ordered_record *ordered;

	(void)state;
	for (uint64_t i = 0; i < ORDER_WINDOW; i++)
		assert_true(add(order, 1000 + i, 0));
	ordered = order_next(order, false);
	assert_int_equal(ordered->time_ns, 1000);
	assert_null(order_next(order, false));
	assert_int_equal(order_stats(order)->sorted, 0);
	assert_true(add(order, 7, 0));
	assert_int_equal(order_stats(order)->sorted, 1);
	ordered = order_next(order, false);
	assert_int_equal(ordered->number, ORDER_WINDOW);
	assert_int_equal(ordered->time_ns, 1000);
	assert_int_equal(order_stats(order)->late, 1);
	order_close(order);
}

static void the_ring_is_bounded_and_a_request_far_ahead_is_taken_early(void **state)
{
	struct order *order = order_open();
	struct ordered_record *ordered;
	uint64_t n = 1;

	(void)state;
	assert_true(add(order, UINT64_C(1) << 60, 10));
	while (add(order, n, LINES_LENGTH_MAX - 10)) {
		n++;
		assert_true(n < 200);
	}
	ordered = order_evict_oldest(order);
	assert_int_equal(ordered->number, 0);
	assert_int_equal(ordered->time_ns, 0);
	assert_int_equal(order_stats(order)->ahead, 1);
	order_done(ordered);
	assert_ptr_equal(order_release(order), ordered);
	assert_null(order_release(order));
	/* The next in the log is the next in time, too: nothing is ahead of it. */
	ordered = order_evict_oldest(order);
	assert_int_equal(ordered->time_ns, 1);
	assert_int_equal(order_stats(order)->ahead, 1);
	order_done(ordered);
	assert_non_null(order_release(order));
	assert_true(add(order, n, LINES_LENGTH_MAX - 10));
	order_close(order);
}

static void values_are_copied_and_absent_ones_stay_absent(void **state)
{
	struct order *order = order_open();
	struct record record = {
	    .time_ns = 5, .cost = 7, .values = {{"abc", 3}, {NULL, 0}, {"", 0}, {"d", 1}}};
	struct ordered_record *ordered;

	(void)state;
	assert_true(order_add(order, &record, 4));
	ordered = order_next(order, true);
	assert_int_equal(ordered->cost, 7);
	assert_memory_equal(ordered->values[0].data, "abc", 3);
	assert_ptr_not_equal(ordered->values[0].data, record.values[0].data);
	assert_null(ordered->values[1].data);
	assert_non_null(ordered->values[2].data);
	assert_memory_equal(ordered->values[3].data, "d", 1);
	order_close(order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(requests_are_taken_by_time_and_released_by_line),
	    cmocka_unit_test(a_late_request_counts_at_the_latest_time),
	    cmocka_unit_test(the_ring_is_bounded_and_a_request_far_ahead_is_taken_early),
	    cmocka_unit_test(values_are_copied_and_absent_ones_stay_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
