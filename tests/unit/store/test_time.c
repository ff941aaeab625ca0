/* Cells count time modulo 2^60 ns: no part of that cycle may read differently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/limiter.h>

#define STEP (UINT64_C(1) << 56)
#define END  (UINT64_C(1) << 61)

static void a_key_never_seen_is_idle_at_every_time(void **state)
{
	struct weir_limit_options options = {.rate = {5}, .burst = 10};
	weir_limit *limit;

	(void)state;
	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
	for (uint64_t now = STEP; now < END; now += STEP) {
		struct weir_decision d;
		weir_limiter *limiter;
		weir_table *table;

		assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
		assert_int_equal(weir_acquire(table, limit, (struct weir_key){"a", 1}, 1, now, &d),
		                 WEIR_OK);
		assert_true(d.allowed);
		assert_int_equal(d.remaining, 9);
		assert_int_equal(weir_acquire(table, limit, (struct weir_key){"a", 1}, 1, now, &d),
		                 WEIR_OK);
		assert_int_equal(d.remaining, 8);
		weir_table_close(table);
		assert_int_equal(weir_limiter_open(&options, &limiter, NULL), WEIR_OK);
		assert_int_equal(weir_limiter_acquire(limiter, 1, now, &d), WEIR_OK);
		assert_int_equal(d.remaining, 9);
		weir_limiter_close(limiter);
	}
	weir_limit_close(limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_never_seen_is_idle_at_every_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
