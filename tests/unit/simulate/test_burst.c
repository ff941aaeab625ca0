/* Compares the most that a key got in a period with a sum over all its grants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "simulate/report/burst.h"

#define KEYS     5
#define REQUESTS 4000

struct grant {
	unsigned key;
	uint64_t at_ns, granted;
};

static uint64_t sum_of(const struct grant *grants, size_t n, uint64_t period_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (grants[i].key == grants[n - 1].key && grants[i].at_ns + period_ns > grants[n - 1].at_ns)
			sum += grants[i].granted;
	return sum;
}

static void sums_are_exact_for_keys_with_less_than_a_log_full(void **state)
{
	static struct grant grants[REQUESTS];
	unsigned short seed[3] = {7, 8, 9};
	struct burst *burst = burst_open(1000, 1000);
	uint64_t now = 1000000;

	(void)state;
	for (size_t i = 0; i < REQUESTS; i++) {
		now += (uint64_t)nrand48(seed) % 4 ? 0 : (uint64_t)nrand48(seed) % 40;
		if (nrand48(seed) % 500 == 0)
			now += 1000;
		grants[i] =
		    (struct grant){(unsigned)nrand48(seed) % KEYS, now, (uint64_t)nrand48(seed) % 3 + 1};
		assert_int_equal(burst_add(burst, grants[i].key * 77, now, grants[i].granted, 0),
		                 sum_of(grants, i + 1, 1000));
	}
	assert_int_equal(burst_stats(burst).keys, KEYS);
	assert_int_equal(burst_stats(burst).estimated, 0);
	burst_close(burst);
}

static void sums_above_the_least_asked_for_are_exact_and_others_are_not_above_it(void **state)
{
	static struct grant grants[REQUESTS];
	unsigned short seed[3] = {1, 2, 3};
	struct burst *burst = burst_open(1000, 1000);
	uint64_t now = 1000000;

	(void)state;
	for (size_t i = 0; i < REQUESTS; i++) {
		uint64_t least = (uint64_t)nrand48(seed) % 120, exact, sum;

		now += (uint64_t)nrand48(seed) % 100;
		grants[i] = (struct grant){1 + (unsigned)nrand48(seed) % KEYS, now, 1 + i % 3};
		exact = sum_of(grants, i + 1, 1000);
		sum = burst_add(burst, grants[i].key, now, grants[i].granted, least);
		if (exact > least)
			assert_int_equal(sum, exact);
		else
			assert_true(sum <= least);
	}
	burst_close(burst);
}

static void a_full_log_is_never_too_low_and_too_high_by_a_slot_at_most(void **state)
{
	const uint64_t period = 1000000, slot = period / (BURST_LOG_MAX - 2) + 1;
	struct burst *burst = burst_open(period, 1000);
	uint64_t now = 5000000;

	(void)state;
	/* One in each 100 ns: 10,000 in a period. */
	for (uint64_t i = 1; i <= 60000; i++) {
		uint64_t exact = i < 10000 ? i : 10000, sum = burst_add(burst, 3, now, 1, 0);

		assert_true(sum >= exact);
		assert_true(sum <= exact + slot / 100 + 2);
		now += 100;
	}
	assert_int_equal(burst_stats(burst).estimated, 1);
	assert_int_equal(burst_add(burst, 3, now + period, 1, 0), 1);
	burst_close(burst);
}

static void logs_that_have_taken_their_memory_go_on_in_slots(void **state)
{
	struct burst *burst = burst_open(1000000, 10);
	uint64_t last = 0;

	(void)state;
	for (uint64_t i = 0; i < 500; i++)
		for (uint64_t key = 1; key <= 10; key++)
			last = burst_add(burst, key, 1000 + i, 1, 0);
	assert_int_equal(last, 500);
	assert_true(burst_stats(burst).estimated > 0);
	burst_close(burst);
}

static void grants_at_one_instant_and_denials_use_no_memory(void **state)
{
	struct burst *burst = burst_open(1000000, 10);

	(void)state;
	for (uint64_t i = 1; i <= 2 * BURST_LOG_MAX; i++) {
		assert_int_equal(burst_add(burst, 1, 1000, 1, 0), i);
		assert_int_equal(burst_add(burst, 2, 1000 + i, 0, 0), 0);
	}
	assert_int_equal(burst_stats(burst).estimated, 0);
	burst_close(burst);
}

static void keys_past_the_most_are_counted_and_disturb_nobody(void **state)
{
	struct burst *burst = burst_open(1000, 5000);

	(void)state;
	for (uint64_t round = 1; round <= 2; round++)
		for (uint64_t key = 1; key <= 6000; key++)
			assert_int_equal(burst_add(burst, key, 100 + round, 1, 0), key <= 5000 ? round : 0);
	assert_int_equal(burst_stats(burst).keys, 5000);
	assert_int_equal(burst_stats(burst).untracked, 2000);
	burst_close(burst);
}

static void an_earlier_grant_of_a_key_counts_at_its_latest_time(void **state)
{
	struct burst *burst = burst_open(1000, 10);

	(void)state;
	assert_int_equal(burst_add(burst, 1, 9000, 1, 0), 1);
	assert_int_equal(burst_add(burst, 1, 9500, 1, 0), 2);
	assert_int_equal(burst_add(burst, 2, 5000, 1, 0), 1);
	assert_int_equal(burst_add(burst, 1, 5000, 1, 0), 3);
	assert_int_equal(burst_add(burst, 1, 9999, 1, 0), 4);
	assert_int_equal(burst_add(burst, 1, 10000, 1, 0), 4);
	burst_close(burst);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums_are_exact_for_keys_with_less_than_a_log_full),
	    cmocka_unit_test(sums_above_the_least_asked_for_are_exact_and_others_are_not_above_it),
	    cmocka_unit_test(a_full_log_is_never_too_low_and_too_high_by_a_slot_at_most),
	    cmocka_unit_test(logs_that_have_taken_their_memory_go_on_in_slots),
	    cmocka_unit_test(grants_at_one_instant_and_denials_use_no_memory),
	    cmocka_unit_test(keys_past_the_most_are_counted_and_disturb_nobody),
	    cmocka_unit_test(an_earlier_grant_of_a_key_counts_at_its_latest_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
