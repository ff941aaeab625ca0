/* Escapes and numbers, as each reader of JSON takes them. */
#include "base/text/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_an_escape_becomes_its_character(void **state)
{
	static const struct {
		const char *text, *character;
		size_t left; /* bytes behind it */
	} table[] = {
	    {"n1", "\n", 1},           {"\"", "\"", 0},
	    {"/x", "/", 1},            {"u0041B", "A", 1},
	    {"u00e4", "\xc3\xa4", 0},  {"uFFEE", "\xef\xbf\xae", 0},
	    {"ud83d\\ude00.", "\xf0\x9f\x98\x80", 1}, {"udbff\\udfff", "\xf4\x8f\xbf\xbf", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct slice rest = slice_of(table[i].text);
		char character[4], *end = character;

		assert_int_equal(json_read_escape(&rest, &end), JSON_ESCAPE_GOOD);
		assert_int_equal(end - character, strlen(table[i].character));
		assert_memory_equal(character, table[i].character, (size_t)(end - character));
		assert_int_equal(rest.len, table[i].left);
	}
}

static void test_half_a_pair_is_told_from_a_pair(void **state)
{
	static const char *const table[] = {"ud83d", "ud83d\\u0041", "ud83dude00", "ude00\\ud83d", "ud83d\\ude0"};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct slice rest = slice_of(table[i]);
		char character[4], *end = character;

		assert_int_equal(json_read_escape(&rest, &end), JSON_ESCAPE_HALF);
		assert_int_equal(end - character, 3);
		assert_memory_equal(character, "\xef\xbf\xbd", 3);
		assert_int_equal(rest.len, strlen(table[i]) - 5); /* the other half stays */
	}
}

static void test_what_is_no_escape_stays(void **state)
{
	static const char *const table[] = {"", "x", "u", "u12", "u12g4", "U0041", "'"};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct slice rest = slice_of(table[i]);
		char character[4], *end = character;

		assert_int_equal(json_read_escape(&rest, &end), JSON_ESCAPE_BAD);
		assert_ptr_equal(end, character);
		assert_ptr_equal(rest.data, table[i]);
	}
}

static void test_a_number_ends_where_json_ends_it(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} table[] = {
	    {"0", 1},     {"-0,", 2},   {"10.25]", 5}, {"1e5 ", 3}, {"1E-07", 5}, {"12a", 2}, {"", 0},
	    {"-", 0},     {"+1", 0},    {"01", 0},     {".5", 0},   {"1.", 0},    {"1e", 0},  {"1e+", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		assert_int_equal(json_number_len(slice_of(table[i].text)), table[i].len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_an_escape_becomes_its_character),
	    cmocka_unit_test(test_half_a_pair_is_told_from_a_pair),
	    cmocka_unit_test(test_what_is_no_escape_stays),
	    cmocka_unit_test(test_a_number_ends_where_json_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
