#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/number.h"
#include "simulate/timeline.h"

static void nothing_is_lost_from_a_millisecond_to_all_of_time(void **state)
{
	static struct timeline timeline;
	uint64_t now = 1700000000 * NS_PER_S + 1, n = 0, passed = 0, denied = 0;

	(void)state;
	for (uint64_t step = 1; now < INT64_MAX; step = step * 3 / 2 + 1, now += step) {
		timeline_add(&timeline, now, 1, n % 3);
		passed++;
		denied += n++ % 3;
		assert_true(timeline.count <= TIMELINE_MAX);
		assert_true(timeline_start_ns(&timeline) <= 1700000000 * NS_PER_S + 1);
	}
	for (size_t i = 0; i < timeline.count; i++) {
		passed -= timeline.counts[i].passed;
		denied -= timeline.counts[i].denied;
	}
	assert_int_equal(passed, 0);
	assert_int_equal(denied, 0);
}

static void intervals_keep_what_happened_in_them_when_they_widen(void **state)
{
	static struct timeline timeline, wider;
	uint64_t start = 1700000000 * NS_PER_S, width;

	(void)state;
	for (uint64_t second = 0; second < 3600; second++)
		timeline_add(&timeline, start + second * NS_PER_S, second, 1);
	width = timeline_width_ns(&timeline);
	assert_int_equal(width, 10 * NS_PER_S);
	for (size_t i = 0; i < 360; i++) {
		assert_int_equal(timeline.counts[i].passed, 100 * i + 45);
		assert_int_equal(timeline.counts[i].denied, 10);
	}
	timeline_add(&wider, 0, 1, 0);
	timeline_add(&wider, 80000 * NS_PER_S, 1, 0);
	timeline_widen_to(&timeline, &wider);
	assert_int_equal(timeline_width_ns(&timeline), timeline_width_ns(&wider));
	assert_int_equal(timeline_start_ns(&timeline) % timeline_width_ns(&wider), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_lost_from_a_millisecond_to_all_of_time),
	    cmocka_unit_test(intervals_keep_what_happened_in_them_when_they_widen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
