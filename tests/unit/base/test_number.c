#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/number.h"

static void assert_text(uint64_t value)
{
	char expected[21], found[21];

	snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
	*format_u64(found, value) = '\0';
	assert_string_equal(found, expected);
}

static void numbers_of_every_length_have_their_digits(void **state)
{
	uint64_t power = 1;

	(void)state;
	for (int n = 0; n < 20; n++, power *= 10)
		for (int i = -1; i <= 1; i++)
			assert_text(power + (uint64_t)i);
	for (uint64_t i = 0; i < 10000; i++)
		assert_text(i);
	assert_text(UINT64_MAX);
	assert_text(UINT64_MAX / 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_of_every_length_have_their_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
