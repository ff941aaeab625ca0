/* Slips of names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/misspelling.h"

static bool is_near(const char *a, const char *b)
{
	bool near = is_misspelling(slice_of(a), slice_of(b));

	assert_int_equal(near, is_misspelling(slice_of(b), slice_of(a)));
	return near;
}

static void one_slip_is_near_and_two_in_a_longer_name(void **state)
{
	static const char *const near[][2] = {
	    {"pth", "path"},          {"ipp", "ip"},           {"ptah", "path"},
	    {"Path", "path"},         {"bust", "burst"},       {"brust", "burst"},
	    {"burts", "burst"},       {"capcity", "capacity"}, {"raet", "rate"},
	    {"capcitty", "capacity"}, {"PATH", "path"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof near / sizeof *near; i++)
		assert_true(is_near(near[i][0], near[i][1]));
}

static void other_names_and_the_same_are_not(void **state)
{
	static const char *const far[][2] = {
	    {"path", "path"},
	    {"", "ip"},
	    {"i", "ip"},
	    {"user", "uid"},
	    {"host", "path"},
	    {"xyth", "path"},
	    {"ip", "tip2"},
	    {"burst", "bur"},
	    {"burst", "brutsx"},
	    {"abcdefghijklmnopqrstuvwxyz0123456", "abcdefghijklmnopqrstuvwxyz0123457"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof far / sizeof *far; i++)
		assert_false(is_near(far[i][0], far[i][1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_slip_is_near_and_two_in_a_longer_name),
	    cmocka_unit_test(other_names_and_the_same_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
