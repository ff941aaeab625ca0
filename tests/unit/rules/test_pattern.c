/* Patterns of names, against the plainest way to say what they mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rules/match/pattern.h"

/* By its definition, in time that grows with the number of ways to split the name. */
static bool expected(const char *pattern, const char *name)
{
	if (*pattern == '*')
		return expected(pattern + 1, name) || (*name && expected(pattern, name + 1));
	return *pattern == *name && (!*name || expected(pattern + 1, name + 1));
}

/* Text number `n` over the letters; false: there is none of at most `max` letters. */
static bool text_at(unsigned n, const char *letters, size_t max, char *out)
{
	size_t count = strlen(letters), len = 0;

	for (; n > 0 && len < max; n = (n - 1) / (unsigned)count)
		out[len++] = letters[(n - 1) % count];
	out[len] = '\0';
	return n == 0;
}

static void all_short_patterns_mean_what_their_definition_says(void **state)
{
	char pattern[6], name[6];
	unsigned matched = 0;

	(void)state;
	for (unsigned i = 0; text_at(i, "ab*", 5, pattern); i++)
		for (unsigned j = 0; text_at(j, "ab", 5, name); j++) {
			bool found = pattern_matches(pattern, name);

			matched += found;
			if (found != expected(pattern, name))
				fail_msg("pattern '%s', name '%s': %d", pattern, name, found);
		}
	assert_true(matched > 1000);
}

/* One that went back to each star would take longer than the machine lasts. */
static void many_stars_take_no_more_than_square_time(void **state)
{
	char pattern[65], name[65];

	(void)state;
	for (int i = 0; i < 64; i++) {
		pattern[i] = i % 2 ? 'a' : '*';
		name[i] = 'a';
	}
	pattern[63] = 'b';
	pattern[64] = name[64] = '\0';
	assert_false(pattern_matches(pattern, name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_short_patterns_mean_what_their_definition_says),
	    cmocka_unit_test(many_stars_take_no_more_than_square_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
