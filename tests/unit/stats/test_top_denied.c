/* The most denied keys, against an exact count. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "stats/top_denied.h"

#define MINUTE (UINT64_C(60) * 1000000000)
#define NOW    (UINT64_C(1000) * MINUTE)

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static void deny(struct top *top, size_t loop, unsigned number, unsigned times, uint64_t now_ns)
{
	char key[16];
	int len = snprintf(key, sizeof key, "k%u", number);

	for (unsigned i = 0; i < times; i++)
		top_count_denial(top, loop, mix(number), "login", (struct slice){key, (size_t)len}, now_ns);
}

static struct buffer render(struct top *top, size_t n, uint64_t now_ns)
{
	struct arena arena = {0};
	struct buffer all = {0}, out = {0};
	struct top_ends ends;

	assert_int_equal(top_render(top, now_ns, &arena, &all, &ends), WEIR_OK);
	buffer_add_slice(&out, top_first((struct slice){all.data, all.len}, &ends, n, &arena));
	buffer_add(&out, "", 1);
	assert_false(out.failed);
	buffer_free(&all);
	arena_free(&arena);
	return out;
}

static void expect(struct top *top, uint64_t now_ns, const char *page)
{
	struct buffer out = render(top, 3, now_ns);

	assert_string_equal(out.data, page);
	buffer_free(&out);
}

struct entry {
	unsigned number;
	unsigned long long denied, error;
};

static size_t list(struct top *top, struct entry *entries, size_t n)
{
	struct buffer out = render(top, n, NOW);
	const char *at = out.data + 1;
	size_t count = 0;
	int len = 0;

	while (sscanf(at, "{\"limit\":\"login\",\"key\":\"k%u\",\"denied\":%llu,\"error\":%llu}%n",
	              &entries[count].number, &entries[count].denied, &entries[count].error,
	              &len) == 3) {
		count++;
		at += len + (at[len] == ',');
	}
	assert_string_equal(at, "]");
	buffer_free(&out);
	return count;
}

static void zipf_keys_are_counted_within_the_bound_and_none_above_it_is_missing(void **state)
{
	enum {
		KEYS = 20000,
		DENIALS = 300000,
		LOOPS = 3,
		LISTED = 100,
		BOUND = DENIALS / TOP_COUNTERS
	};
	static double upto[KEYS];
	static unsigned exact[KEYS];
	struct top *top = top_open(LOOPS);
	struct entry entries[LISTED];
	bool listed[KEYS] = {false};
	uint64_t seed = 20240501;
	double sum = 0;
	size_t count;

	(void)state;
	for (unsigned i = 0; i < KEYS; i++)
		upto[i] = sum += 1.0 / (i + 1);
	for (unsigned i = 0; i < DENIALS; i++) {
		double draw = (double)(mix(seed + i) >> 11) / (double)(UINT64_C(1) << 53) * sum;
		unsigned low = 0, high = KEYS - 1;

		while (low < high) {
			unsigned middle = (low + high) / 2;

			if (upto[middle] > draw)
				high = middle;
			else
				low = middle + 1;
		}
		exact[low]++;
		deny(top, i % LOOPS, low, 1, NOW);
	}
	count = list(top, entries, LISTED);
	assert_int_equal(count, LISTED);
	for (size_t i = 0; i < count; i++) {
		unsigned truth = exact[entries[i].number];

		assert_false(listed[entries[i].number]);
		listed[entries[i].number] = true;
		assert_true(entries[i].denied >= truth);
		assert_true(entries[i].denied - entries[i].error <= truth);
		assert_true(entries[i].error <= BOUND);
		assert_true(i == 0 || entries[i].denied <= entries[i - 1].denied);
	}
	for (unsigned i = 0; i < KEYS; i++)
		assert_true(listed[i] || exact[i] <= BOUND);
	top_close(top);
}

static void an_offender_stays_on_top_of_a_flood_of_others(void **state)
{
	struct top *top = top_open(1);
	struct entry first;

	(void)state;
	for (unsigned i = 1; i < 100000; i++) {
		deny(top, 0, i, 1, NOW);
		if (i % 100 == 0)
			deny(top, 0, 0, 1, NOW);
	}
	assert_int_equal(list(top, &first, 1), 1);
	assert_int_equal(first.number, 0);
	assert_true(first.denied >= 999 && first.denied - first.error <= 999);
	top_close(top);
}

static void counts_halve_each_minute_and_yesterdays_are_gone(void **state)
{
	struct top *top = top_open(2);

	(void)state;
	expect(top, NOW, "[]");
	deny(top, 0, 1, 700, NOW);
	deny(top, 1, 1, 300, NOW);
	deny(top, 1, 2, 250, NOW);
	expect(top, NOW,
	       "[{\"limit\":\"login\",\"key\":\"k1\",\"denied\":1000,\"error\":0},"
	       "{\"limit\":\"login\",\"key\":\"k2\",\"denied\":250,\"error\":0}]");
	deny(top, 0, 3, 600, NOW + MINUTE);
	expect(top, NOW + MINUTE,
	       "[{\"limit\":\"login\",\"key\":\"k3\",\"denied\":600,\"error\":0},"
	       "{\"limit\":\"login\",\"key\":\"k1\",\"denied\":500,\"error\":0},"
	       "{\"limit\":\"login\",\"key\":\"k2\",\"denied\":125,\"error\":0}]");
	expect(top, NOW + 10 * MINUTE,
	       "[{\"limit\":\"login\",\"key\":\"k3\",\"denied\":1,\"error\":0}]");
	expect(top, NOW + 1000 * MINUTE, "[]");
	/* A clock of another thread that is a little behind changes nothing. */
	expect(top, NOW, "[]");
	top_close(top);
}

static void who_comes_after_a_full_day_starts_at_zero(void **state)
{
	struct top *top = top_open(1);

	(void)state;
	for (unsigned i = 0; i < 2 * TOP_COUNTERS; i++)
		deny(top, 0, i, 50, NOW);
	deny(top, 0, 7777, 2, NOW + 1440 * MINUTE);
	expect(top, NOW + 1440 * MINUTE,
	       "[{\"limit\":\"login\",\"key\":\"k7777\",\"denied\":2,\"error\":0}]");
	top_close(top);
}

static void long_and_hostile_keys_are_cut_escaped_and_kept_apart(void **state)
{
	struct top *top = top_open(1);
	char key[1024];

	(void)state;
	memset(key, 'x', sizeof key);
	key[0] = '"';
	top_count_denial(top, 0, 1, "login", (struct slice){key, 1024}, NOW);
	top_count_denial(top, 0, 2, "login", (struct slice){key, 65}, NOW);
	top_count_denial(top, 0, 2, "login", (struct slice){key, 65}, NOW);
	top_count_denial(top, 0, 3, "login", (struct slice){NULL, 0}, NOW);
	top_count_denial(top, 0, 3, "login", (struct slice){NULL, 0}, NOW);
	top_count_denial(top, 0, 3, "login", (struct slice){NULL, 0}, NOW);
#define CUT                                                                                        \
	"{\"limit\":\"login\",\"key\":\"\\\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"  \
	"xxxxxxx…\",\"denied\":"
	expect(top, NOW,
	       "[{\"limit\":\"login\",\"key\":\"\",\"denied\":3,\"error\":0}," CUT "2,\"error\":0}," CUT
	       "1,\"error\":0}]");
	top_close(top);
}

static void only_a_pair_that_has_a_counter_is_known(void **state)
{
	struct top *top = top_open(2);

	(void)state;
	assert_false(top_count_known(top, 0, mix(1), NOW));
	expect(top, NOW, "[]");
	deny(top, 0, 1, 1, NOW);
	assert_false(top_count_known(top, 1, mix(1), NOW)); /* that loop has no counter of it */
	assert_false(top_count_known(top, 0, mix(2), NOW));
	assert_true(top_count_known(top, 0, mix(1), NOW));
	expect(top, NOW, "[{\"limit\":\"login\",\"key\":\"k1\",\"denied\":2,\"error\":0}]");
	/* a minute later two denials count as one */
	assert_true(top_count_known(top, 0, mix(1), NOW + MINUTE));
	expect(top, NOW + MINUTE, "[{\"limit\":\"login\",\"key\":\"k1\",\"denied\":2,\"error\":0}]");
	top_close(top);
}

struct counting {
	struct top *top;
	size_t loop;
};

static void *count_many(void *argument)
{
	struct counting *counting = argument;

	for (unsigned i = 0; i < 20000; i++)
		deny(counting->top, counting->loop, i % 3, 1, NOW);
	return NULL;
}

static void asking_while_loops_count_loses_nothing(void **state)
{
	struct top *top = top_open(2);
	struct counting countings[2] = {{top, 0}, {top, 1}};
	struct entry entries[3];
	pthread_t threads[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_many, &countings[i]), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_true(list(top, entries, 3) <= 3);
	for (size_t i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(list(top, entries, 3), 3);
	assert_int_equal(entries[0].denied + entries[1].denied + entries[2].denied, 40000);
	top_close(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_a_pair_that_has_a_counter_is_known),
	    cmocka_unit_test(zipf_keys_are_counted_within_the_bound_and_none_above_it_is_missing),
	    cmocka_unit_test(an_offender_stays_on_top_of_a_flood_of_others),
	    cmocka_unit_test(counts_halve_each_minute_and_yesterdays_are_gone),
	    cmocka_unit_test(who_comes_after_a_full_day_starts_at_zero),
	    cmocka_unit_test(long_and_hostile_keys_are_cut_escaped_and_kept_apart),
	    cmocka_unit_test(asking_while_loops_count_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
