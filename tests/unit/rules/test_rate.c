#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/number.h"
#include "rules/rate.h"

static void assert_rate(const char *text, uint64_t count, uint64_t period, enum weir_unit unit)
{
	struct weir_rate rate;

	if (!rate_parse(slice_of(text), &rate))
		fail_msg("%s is a rate", text);
	assert_int_equal(rate.count, count);
	assert_int_equal(rate.period, period);
	assert_int_equal(rate.unit, unit);
}

static void rates_in_every_unit(void **state)
{
	(void)state;
	assert_rate("5/s", 5, 1, WEIR_UNIT_SECOND);
	assert_rate("10/100ms", 10, 100, WEIR_UNIT_MILLISECOND);
	assert_rate("1000/m", 1000, 1, WEIR_UNIT_MINUTE);
	assert_rate("1/2h", 1, 2, WEIR_UNIT_HOUR);
	assert_rate("5/d", 5, 1, WEIR_UNIT_DAY);
	assert_rate("5/w", 5, 1, WEIR_UNIT_WEEK);
	assert_rate("5/3month", 5, 3, WEIR_UNIT_MONTH);
	assert_rate("5/year", 5, 1, WEIR_UNIT_YEAR);
	assert_rate("18446744073709551615/s", UINT64_MAX, 1, WEIR_UNIT_SECOND);
}

static void what_is_no_rate_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "5",
	    "5/",
	    "/s",
	    "/",
	    "0/s",
	    "5/0s",
	    "-5/s",
	    "5/-1s",
	    "5.5/s",
	    "5/1.5s",
	    "5 /s",
	    "5/ s",
	    "5/s ",
	    "5/S",
	    "5/sec",
	    "5/mo",
	    "5/s/s",
	    "+5/s",
	    "5e3/s",
	    "5/1",
	    "5/1ns",
	    "５/s",
	    "18446744073709551616/s",
	    "5/18446744073709551616s",
	};
	struct weir_rate rate;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (rate_parse(slice_of(bad[i]), &rate))
			fail_msg("\"%s\" is no rate", bad[i]);
	assert_false(rate_parse(SLICE("5/s\0"), &rate));
	assert_false(rate_parse((struct slice){NULL, 0}, &rate));
}

static void durations_are_a_number_and_a_unit_of_fixed_length(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
	    {"1ms", NS_PER_MS},
	    {"1s", NS_PER_S},
	    {"90m", 5400 * NS_PER_S},
	    {"366d", 366 * NS_PER_DAY},
	};
	static const char *const bad[] = {"", "1", "s", "-1s", "1.5s", "1 s", "1sec", "1month",
	                                  "367d", "99999999999999999999s"};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(duration_parse(slice_of(good[i].text), &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (duration_parse(slice_of(bad[i]), &ns))
			fail_msg("\"%s\" is no duration", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rates_in_every_unit),
	    cmocka_unit_test(what_is_no_rate_is_refused),
	    cmocka_unit_test(durations_are_a_number_and_a_unit_of_fixed_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
