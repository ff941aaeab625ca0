#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/number.h"

static void assert_text(uint64_t value)
{
	char expected[21], found[21], *end;

	snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
	memset(found, '#', sizeof found);
	end = format_u64(found, value);
	assert_int_equal(*end, '#'); /* it writes no byte beyond */
	*end = '\0';
	assert_string_equal(found, expected);
}

static void numbers_of_every_length_have_their_digits(void **state)
{
	uint64_t power = 1;

	(void)state;
	for (int n = 0; n < 20; n++, power *= 10)
		for (int i = -1; i <= 1; i++)
			assert_text(power + (uint64_t)i);
	for (uint64_t i = 0; i < 10000; i++) {
		assert_text(i);
		assert_text(i * 10007);
		assert_text(i * UINT64_C(0x9e3779b97f4a7c15) >> i % 64);
	}
	assert_text(UINT64_MAX);
	assert_text(UINT64_MAX / 7);
}

static void shares_are_read_exactly_and_written_back_as_short_as_they_can_be(void **state)
{
	static const struct {
		const char *text;
		double share;
		const char *shown; /* NULL if `text` is refused */
	} cases[] = {
	    {"0", 0, "0"},
	    {"0.0", 0, "0"},
	    {"1", 1, "1"},
	    {"1.000", 1, "1"},
	    {"0.1", 0.1, "0.1"},
	    {"0.001", 0.001, "0.001"},
	    {"0.30000000000000004", 0.1 + 0.2, "0.30000000000000004"},
	    {"1e-05", 1e-5, "0.00001"},
	    {"2.5E-1", 0.25, "0.25"},
	    {"0.25000000000000000000000000", 0.25, "0.25"},
	    {"3e-4000000000", 0, "0"},
	    {"1.0000001", 0, NULL},
	    {"-0.1", 0, NULL},
	    {"", 0, NULL},
	    {".5", 0, NULL},
	    {"5.", 0, NULL},
	    {"0.5x", 0, NULL},
	    {"0,5", 0, NULL},
	    {"1e5", 0, NULL},
	    {"1e-", 0, NULL},
	    {"nan", 0, NULL},
	    {"0.5.5", 0, NULL},
	    {"10000000000000000000000", 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char shown[DECIMAL_TEXT_MAX];
		double share;

		assert_int_equal(parse_share(slice_of(cases[i].text), &share), cases[i].shown != NULL);
		if (!cases[i].shown)
			continue;
		assert_true(share == cases[i].share);
		format_decimal(shown, share);
		assert_string_equal(shown, cases[i].shown);
	}
}

static void decimals_are_written_as_short_as_they_can_be_too(void **state)
{
	static const struct {
		const char *text;
		double value;
		const char *shown;
	} cases[] = {
	    {"3", 3, "3"},
	    {"1.5", 1.5, "1.5"},
	    {"2.50", 2.5, "2.5"},
	    {"1.001", 1.001, "1.001"},
	    {"1.1", 1.1, "1.1"},
	    {"12.05", 12.05, "12.05"},
	    {"9999.999", 9999.999, "9999.999"},
	    {"250e-2", 2.5, "2.5"},
	    {"99999999999999984", 99999999999999984.0, "99999999999999984"},
	};
	double value;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char shown[DECIMAL_TEXT_MAX];

		assert_true(parse_decimal(slice_of(cases[i].text), &value));
		assert_true(value == cases[i].value);
		format_decimal(shown, value);
		assert_string_equal(shown, cases[i].shown);
	}
	assert_false(parse_decimal(slice_of("-3"), &value));
	assert_false(parse_decimal(slice_of("1000000000000000000000"), &value));
}

static void a_text_without_bytes_is_no_number(void **state)
{
	uint64_t natural;
	int64_t integer;
	double decimal;

	(void)state;
	assert_false(parse_u64((struct slice){NULL, 0}, &natural));
	assert_false(parse_i64((struct slice){NULL, 0}, &integer));
	assert_false(parse_decimal((struct slice){NULL, 0}, &decimal));
	assert_false(parse_i64(SLICE("-"), &integer));
	assert_true(parse_i64(SLICE("-7"), &integer));
	assert_int_equal(integer, -7);
}

static void hexadecimal_digits_may_be_capitals(void **state)
{
	char lower[16];

	(void)state;
	assert_true(hex_is_valid(SLICE("0123456789abcdef"), 16));
	assert_true(hex_is_valid(SLICE("ABCDEFabcdef0099"), 16));
	assert_false(hex_is_valid(SLICE("0123456789abcdef"), 15));
	assert_false(hex_is_valid(SLICE("0123456789abcdef"), 17));
	assert_false(hex_is_valid(SLICE("0123456789abcdeg"), 16));
	assert_false(hex_is_valid(SLICE("0123456789abcde\0"), 16));
	assert_false(hex_is_valid((struct slice){NULL, 0}, 16));
	assert_true(slice_equal(hex_lower(SLICE("#A1b2C3D4"), lower), SLICE("#a1b2c3d4")));
}

static void test_sizes_are_said_as_people_do(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *up, *down;
	} sizes[] = {
	    {0, "0 bytes", "0 bytes"},        {999, "999 bytes", "999 bytes"},
	    {1000, "1.0 kB", "1.0 kB"},       {1001, "1.1 kB", "1.0 kB"},
	    {9999, "10 kB", "9.9 kB"},        {264500001, "265 MB", "264 MB"},
	    {1500000000, "1.5 GB", "1.5 GB"}, {999999999, "1000 MB", "999 MB"},
	    {UINT64_MAX, "19 EB", "18 EB"},
	};
	char text[SIZE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		format_size(text, sizes[i].bytes, true);
		assert_string_equal(text, sizes[i].up);
		format_size(text, sizes[i].bytes, false);
		assert_string_equal(text, sizes[i].down);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sizes_are_said_as_people_do),
	    cmocka_unit_test(shares_are_read_exactly_and_written_back_as_short_as_they_can_be),
	    cmocka_unit_test(decimals_are_written_as_short_as_they_can_be_too),
	    cmocka_unit_test(a_text_without_bytes_is_no_number),
	    cmocka_unit_test(hexadecimal_digits_may_be_capitals),
	    cmocka_unit_test(numbers_of_every_length_have_their_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
