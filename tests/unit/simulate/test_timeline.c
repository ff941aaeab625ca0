/* Counts over time while intervals are merged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/number.h"
#include "simulate/report/timeline.h"

static void nothing_is_lost_from_a_millisecond_to_all_of_time(void **state)
{
	static struct timeline timeline;
	uint64_t now = 1700000000 * NS_PER_S + 1, n = 0, asked = 0, passed = 0, denied = 0;

	(void)state;
	for (uint64_t step = 1; now < INT64_MAX; step = step * 3 / 2 + 1, now += step) {
		timeline_add(&timeline, now,
		             (struct timeline_counts){.asked = 2, .passed = 1, .denied = n % 3});
		asked += 2;
		passed++;
		denied += n++ % 3;
		assert_true(timeline.count <= TIMELINE_MAX);
		assert_true(timeline_start_ns(&timeline) <= 1700000000 * NS_PER_S + 1);
	}
	for (size_t i = 0; i < timeline.count; i++) {
		asked -= timeline.counts[i].asked;
		passed -= timeline.counts[i].passed;
		denied -= timeline.counts[i].denied;
	}
	timeline_widen_until(&timeline, 1); /* the greatest width does not hold all of time */
	assert_in_range(timeline.count, 2, 1000);
	assert_int_equal(asked, 0);
	assert_int_equal(passed, 0);
	assert_int_equal(denied, 0);
}

static void merged_intervals_keep_their_counts(void **state)
{
	static struct timeline timeline, wider;
	uint64_t start = 1700000000 * NS_PER_S, width;

	(void)state;
	for (uint64_t second = 0; second < 3600; second++)
		timeline_add(&timeline, start + second * NS_PER_S,
		             (struct timeline_counts){.passed = second, .denied = 1});
	assert_int_equal(timeline_width_ns(&timeline), NS_PER_S);
	timeline_widen_until(&timeline, 1000);
	width = timeline_width_ns(&timeline);
	assert_int_equal(width, 10 * NS_PER_S);
	assert_int_equal(timeline.count, 360);
	for (size_t i = 0; i < 360; i++) {
		assert_int_equal(timeline.counts[i].passed, 100 * i + 45);
		assert_int_equal(timeline.counts[i].denied, 10);
	}
	timeline_add(&wider, 0, (struct timeline_counts){.asked = 1, .passed = 1});
	timeline_add(&wider, 800000 * NS_PER_S, (struct timeline_counts){.asked = 1, .passed = 1});
	timeline_widen_to(&timeline, &wider);
	assert_int_equal(timeline_width_ns(&timeline), timeline_width_ns(&wider));
	assert_int_equal(timeline_start_ns(&timeline) % timeline_width_ns(&wider), 0);
}

static void all_intervals_are_used_before_they_widen(void **state)
{
	static struct timeline full, wider;
	uint64_t start = 1700000000 * NS_PER_S, end = start + TIMELINE_MAX * NS_PER_MS;

	(void)state;
	timeline_add(&full, start, (struct timeline_counts){.asked = 1});
	timeline_add(&full, end - 1, (struct timeline_counts){.asked = 1});
	assert_int_equal(full.count, TIMELINE_MAX);
	wider = full;
	timeline_add(&wider, end, (struct timeline_counts){.asked = 1});
	assert_int_equal(timeline_width_ns(&wider), 2 * NS_PER_MS);
	assert_int_equal(wider.count, TIMELINE_MAX / 2 + 1);
	timeline_widen_to(&full, &wider);
	assert_int_equal(full.count, TIMELINE_MAX / 2);
}

static void what_passes_later_may_be_told_before_what_is_asked_meanwhile(void **state)
{
	static struct timeline timeline;
	uint64_t start = 1700000000 * NS_PER_S;

	(void)state;
	timeline_add(&timeline, start, (struct timeline_counts){.asked = 1});
	timeline_add(&timeline, start + 3000 * NS_PER_S, (struct timeline_counts){.passed = 1});
	timeline_add(&timeline, start, (struct timeline_counts){.asked = 1, .denied = 1});
	timeline_widen_until(&timeline, 301);
	assert_int_equal(timeline_start_ns(&timeline), start);
	assert_int_equal(timeline.counts[0].asked, 2);
	assert_int_equal(timeline.counts[0].denied, 1);
	assert_int_equal(timeline.counts[timeline.count - 1].passed, 1);
	assert_int_equal(timeline.count, 301);
}

static void a_stretch_of_time_is_in_the_intervals_that_it_crosses(void **state)
{
	static struct timeline timeline, beside;
	uint64_t start = 1700000000 * NS_PER_S;

	(void)state;
	timeline_add(&beside, start - NS_PER_S, (struct timeline_counts){.asked = 1});
	timeline_add(&timeline, start, (struct timeline_counts){0});
	timeline_add_phase(&timeline, start + 1, start + 1, TIMELINE_OPEN);
	timeline_add_phase(&timeline, start + 2 * NS_PER_MS + 5, start + 4 * NS_PER_MS + 3,
	                   TIMELINE_RAMP);
	timeline_add_phase(&timeline, start + 900 * NS_PER_MS, start + 1900 * NS_PER_MS, TIMELINE_OPEN);
	assert_int_equal(timeline.count, 1900);
	timeline_widen_until(&timeline, 1000);
	assert_int_equal(timeline_width_ns(&timeline), 2 * NS_PER_MS);
	assert_int_equal(timeline.counts[1].phase_ns[TIMELINE_RAMP], 2 * NS_PER_MS - 5);
	assert_int_equal(timeline.counts[2].phase_ns[TIMELINE_RAMP], 3);
	assert_int_equal(timeline.counts[449].phase_ns[TIMELINE_OPEN], 0);
	assert_int_equal(timeline.counts[450].phase_ns[TIMELINE_OPEN], 2 * NS_PER_MS);
	assert_int_equal(timeline.counts[949].phase_ns[TIMELINE_OPEN], 2 * NS_PER_MS);
	assert_int_equal(timeline.count, 950);
	timeline_widen_to(&beside, &timeline);
	assert_int_equal(timeline_in_interval_of(&timeline, &beside, 0).phase_ns[TIMELINE_OPEN], 0);
	assert_int_equal(timeline_in_interval_of(&timeline, &beside, 501).phase_ns[TIMELINE_RAMP],
	                 2 * NS_PER_MS - 5);
	assert_int_equal(timeline_in_interval_of(&timeline, &beside, 5000).phase_ns[TIMELINE_RAMP], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stretch_of_time_is_in_the_intervals_that_it_crosses),
	    cmocka_unit_test(nothing_is_lost_from_a_millisecond_to_all_of_time),
	    cmocka_unit_test(merged_intervals_keep_their_counts),
	    cmocka_unit_test(all_intervals_are_used_before_they_widen),
	    cmocka_unit_test(what_passes_later_may_be_told_before_what_is_asked_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
