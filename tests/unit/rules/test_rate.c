#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
	assert_rate("5/s", 5, 1, WEIR_SECOND);
	assert_rate("10/100ms", 10, 100, WEIR_MILLISECOND);
	assert_rate("1000/m", 1000, 1, WEIR_MINUTE);
	assert_rate("1/2h", 1, 2, WEIR_HOUR);
	assert_rate("5/d", 5, 1, WEIR_DAY);
	assert_rate("5/w", 5, 1, WEIR_WEEK);
	assert_rate("5/3month", 5, 3, WEIR_MONTH);
	assert_rate("5/year", 5, 1, WEIR_YEAR);
	assert_rate("18446744073709551615/s", UINT64_MAX, 1, WEIR_SECOND);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rates_in_every_unit),
	    cmocka_unit_test(what_is_no_rate_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
