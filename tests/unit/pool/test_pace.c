/* Turns in virtual time: exact over millions, and what becomes of those nobody took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/number.h"
#include "pool/pace.h"

#define NOW UINT64_C(5000000000)

static struct pace pace_of(struct weir_rate rate)
{
	struct pace pace;

	assert_int_equal(pace_init(&pace, &rate, NULL), WEIR_OK);
	pace_resume(&pace, NOW);
	return pace;
}

static void take_in_time(struct pace *pace, unsigned turns)
{
	for (unsigned i = 0; i < turns; i++)
		pace_advance(pace, pace->start_ns);
}

static void test_turns_do_not_drift_whatever_the_fraction(void **context)
{
	static const struct {
		struct weir_rate rate;
		unsigned turns;
		uint64_t ns;
	} cases[] = {
	    {{3}, 3000000, 1000000 * NS_PER_S},
	    {{10000}, 20000, 2 * NS_PER_S},
	    {{7, 11, WEIR_UNIT_NANOSECOND}, 7000000, 11000000},
	    {{30, 1, WEIR_UNIT_NANOSECOND}, 3000000, 100000},
	    {{1, 365, WEIR_UNIT_DAY}, 3, 3 * 365 * NS_PER_DAY},
	};

	(void)context;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pace pace = pace_of(cases[i].rate);

		take_in_time(&pace, cases[i].turns);
		assert_int_equal(pace.start_ns - NOW, cases[i].ns);
		assert_int_equal(pace.rest, 0);
		assert_int_equal(pace.missed, 0);
	}
}

static void test_turns_taken_a_little_late_are_caught_up(void **context)
{
	struct pace pace = pace_of((struct weir_rate){1000});

	(void)context;
	for (unsigned i = 0; i < 1000; i++)
		pace_advance(&pace, pace.start_ns + i % 100 * NS_PER_MS);
	assert_int_equal(pace.start_ns, NOW + NS_PER_S);
	assert_int_equal(pace.missed, 0);
}

static void test_what_is_caught_up_after_a_stall_is_bounded(void **context)
{
	struct pace pace = pace_of((struct weir_rate){1000});
	uint64_t later_ns = NOW + 3600 * NS_PER_S;
	unsigned at_once = 0;

	(void)context;
	for (; pace.start_ns <= later_ns; at_once++)
		pace_advance(&pace, later_ns);
	assert_int_equal(at_once, PACE_CATCH_UP_NS / NS_PER_MS + 1);
	assert_int_equal(pace.missed, 3600 * 1000 - PACE_CATCH_UP_NS / NS_PER_MS);
}

/* "the first call after long idleness", "slack saved without bound". */
static void test_idleness_saves_up_nothing(void **context)
{
	struct pace pace = pace_of((struct weir_rate){1000});

	(void)context;
	take_in_time(&pace, 1);
	pace_resume(&pace, NOW + 3600 * NS_PER_S);
	assert_int_equal(pace.start_ns, NOW + 3600 * NS_PER_S);
	take_in_time(&pace, 1);
	assert_int_equal(pace.start_ns, NOW + 3600 * NS_PER_S + NS_PER_MS);
}

static void test_a_bucket_emptied_for_a_moment_does_not_bring_the_next_turn_forward(void **context)
{
	struct pace pace = pace_of((struct weir_rate){3});

	(void)context;
	take_in_time(&pace, 1);
	pace_resume(&pace, NOW + 5);
	take_in_time(&pace, 2);
	assert_int_equal(pace.start_ns, NOW + NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_turns_do_not_drift_whatever_the_fraction),
	    cmocka_unit_test(test_turns_taken_a_little_late_are_caught_up),
	    cmocka_unit_test(test_what_is_caught_up_after_a_stall_is_bounded),
	    cmocka_unit_test(test_idleness_saves_up_nothing),
	    cmocka_unit_test(test_a_bucket_emptied_for_a_moment_does_not_bring_the_next_turn_forward),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
