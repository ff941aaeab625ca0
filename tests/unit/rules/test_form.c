/* The forms of values, and their meanings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "rules/form.h"

static enum form read_text(const char *text, bool is_ip, struct rules_value *out)
{
	const char *expected = NULL;
	enum form form;

	*out = (struct rules_value){.test = RULES_EQUAL, .text = slice_of(text)};
	form = form_read(out, is_ip, &expected);
	assert_int_equal(form == FORM_WRONG, expected != NULL);
	assert_int_equal(form == FORM_READ, out->test != RULES_EQUAL);
	return form;
}

static void ranges_of_numbers_are_read(void **state)
{
	static const struct {
		const char *text;
		int64_t first, last;
	} cases[] = {
	    {"1-5", 1, 5},
	    {"5-5", 5, 5},
	    {"-5--1", -5, -1},
	    {"-9223372036854775808-9223372036854775807", INT64_MIN, INT64_MAX},
	};
	struct rules_value value;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(read_text(cases[i].text, false, &value), FORM_READ);
		assert_int_equal(value.test, RULES_NUMBERS);
		assert_int_equal(value.numbers.first, cases[i].first);
		assert_int_equal(value.numbers.last, cases[i].last);
	}
}

static void bounds_are_read(void **state)
{
	struct rules_value value;

	(void)state;
	assert_true(form_above(SLICE("5"), &value));
	assert_int_equal(value.numbers.first, 6);
	assert_int_equal(value.numbers.last, INT64_MAX);
	assert_true(form_below(SLICE("-5"), &value));
	assert_int_equal(value.numbers.first, INT64_MIN);
	assert_int_equal(value.numbers.last, -6);
	assert_false(form_above(SLICE("9223372036854775807"), &value));
	assert_false(form_below(SLICE("-9223372036854775808"), &value));
	assert_false(form_above(SLICE("=5"), &value));
	assert_false(form_below(SLICE(""), &value));
}

static void addresses_are_read(void **state)
{
	static const struct {
		const char *text;
		enum rules_test test;
	} cases[] = {
	    {"10.0.0.0/8", RULES_IP_RANGE},    {"10.0.24.*", RULES_IP_RANGE},
	    {"*.*.*.*", RULES_IP_RANGE},       {"192.168.0.1-192.168.0.255", RULES_IP_RANGE},
	    {"2001:db8::/32", RULES_IP_RANGE}, {"::1-::5", RULES_IP_RANGE},
	    {"10.*.0.*", RULES_IP_PATTERN},    {"*.0.0.1", RULES_IP_PATTERN},
	};
	struct rules_value value;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(read_text(cases[i].text, false, &value), FORM_READ);
		assert_int_equal(value.test, cases[i].test);
	}
	read_text("10.*.0.*", false, &value);
	assert_memory_equal(value.pattern.bytes, "\x0a\0\0\0", 4);
	assert_memory_equal(value.pattern.mask, "\xff\0\xff\0", 4);
	/* One address is a text but where the attribute is an address. */
	assert_int_equal(read_text("10.0.0.1", false, &value), FORM_TEXT);
	assert_int_equal(read_text("10.0.0.1", true, &value), FORM_READ);
	assert_int_equal(read_text("::1", true, &value), FORM_READ);
}

static void all_else_is_text(void **state)
{
	static const char *const cases[] = {
	    "",         "add-comment", "1-",          "-1", "-",
	    "1-5-7",    "1.5-2.5",     "a-b",         "+1", "1 - 5",
	    "10.*.0",   "10.*.0.*.",   "10.*.0.1*",   "*",  "256.*.*.1",
	    "01.*.0.*", "10.*.0.256",  "10.0.0.0/x", "a*", "1,2",
	};
	struct rules_value value;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(read_text(cases[i], true, &value), FORM_TEXT);
}

static void impossible_ranges_are_told(void **state)
{
	static const char *const cases[] = {"5-1",
	                                    "1-9223372036854775808",
	                                    "-9223372036854775809-1",
	                                    "10.0.0.9-10.0.0.1",
	                                    "10.0.0.0/33",
	                                    "10.0.0.1-::1",
	                                    "::5-::1"};
	struct rules_value value;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(read_text(cases[i], false, &value), FORM_WRONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ranges_of_numbers_are_read), cmocka_unit_test(bounds_are_read),
	    cmocka_unit_test(addresses_are_read),         cmocka_unit_test(all_else_is_text),
	    cmocka_unit_test(impossible_ranges_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
