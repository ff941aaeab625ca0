/* The reader of JSON: what it takes, what it refuses, and where. */
#include "base/text/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Reads one text, without its escapes. */
static struct slice read_text(const char *json, bool halves, char *to, const char **expected)
{
	struct json reader = json_of(slice_of(json));
	struct slice text = {NULL, 0};

	reader.allows_lone_surrogates = halves;
	if (json_text(&reader, &text)) {
		assert_int_equal(reader.has_escapes, memchr(text.data, '\\', text.len) != NULL);
		text = (struct slice){to, json_unescape(text, to)};
	}
	*expected = reader.expected;
	return text;
}

static void test_an_escape_becomes_its_character(void **state)
{
	static const struct {
		const char *text, *plain;
	} table[] = {
	    {"\"\"", ""},
	    {"\"a\"", "a"},
	    {" \"\\n1\"", "\n1"},
	    {"\"\\\"\\\\\"", "\"\\"},
	    {"\"\\/x\"", "/x"},
	    {"\"\\u0041B\"", "AB"},
	    {"\"x\\u00e4\\uFFEEy\"", "x\xc3\xa4\xef\xbf\xaey"},
	    {"\"\\ud83d\\ude00.\"", "\xf0\x9f\x98\x80."},
	    {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
	    {"\"0123456789abcdef\\t0123456789abcdef\"", "0123456789abcdef\t0123456789abcdef"},
	};
	char room[64];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const char *expected;
		struct slice text = read_text(table[i].text, false, room, &expected);

		assert_null(expected);
		assert_int_equal(text.len, strlen(table[i].plain));
		assert_memory_equal(text.data, table[i].plain, text.len);
	}
}

static void test_half_a_pair_is_refused_or_replaced(void **state)
{
	static const char *const table[][2] = {
	    {"\"\\ud83d\"", "\xef\xbf\xbd"},
	    {"\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
	                           "A"},
	    {"\"\\ud83dude00\"", "\xef\xbf\xbdude00"},
	    {"\"\\ude00\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd"},
	};
	char room[64];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const char *expected;
		struct slice text = read_text(table[i][0], true, room, &expected);

		assert_null(expected);
		assert_int_equal(text.len, strlen(table[i][1]));
		assert_memory_equal(text.data, table[i][1], text.len);
		read_text(table[i][0], false, room, &expected);
		assert_string_equal(expected, "both halves of a character");
	}
}

static void test_a_word_ends_where_json_ends_it(void **state)
{
	static const struct {
		const char *text;
		size_t len; /* 0 if `text` is refused */
	} table[] = {
	    {"0", 1},    {"-0,", 2},  {"10.25]", 5}, {"1e5 ", 3}, {"1E-07", 5}, {"12a", 0},
	    {"true", 4}, {"nullx", 0}, {"falsE", 0},  {"", 0},     {"-", 0},     {"+1", 0},
	    {"01", 0},   {".5", 0},   {"1.", 0},     {"1e", 0},   {"1e+", 0},   {"\"a\"", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct json json = json_of(slice_of(table[i].text));
		struct slice word = {NULL, 0};

		assert_int_equal(json_word(&json, &word), table[i].len > 0);
		assert_int_equal(word.len, table[i].len);
	}
}

static void test_what_is_no_json_is_refused_where_it_is_wrong(void **state)
{
	static const struct {
		const char *text;
		unsigned line, column; /* 0 if `text` is JSON */
		const char *expected;
	} table[] = {
	    {"{}", 0, 0, ""},
	    {" [ ] \r\n", 0, 0, ""},
	    {"{\"a\":[1,{\"b\":null}],\"c\":\"\\u0000\"}", 0, 0, ""},
	    {"7", 0, 0, ""},
	    {"", 1, 1, "a value of JSON"},
	    {"{", 1, 2, "a field's name in quotes"},
	    {"[", 1, 2, "a value of JSON"},
	    {"{\"a\":1,}", 1, 8, "a field's name in quotes"},
	    {"[1,]", 1, 4, "a value of JSON"},
	    {"[,1]", 1, 2, "a value of JSON"},
	    {"{\"a\" 1}", 1, 6, "a colon"},
	    {"{\"a\":}", 1, 6, "a value of JSON"},
	    {"[1\n2]", 2, 1, "a comma or the end of the list"},
	    {"[[1}", 1, 4, "a comma or the end of the list"},
	    {"{\"\xc3\xa4\":1]", 1, 7, "a comma or the end of the object"},
	    {"{\"a\":\"b", 1, 8, "the end of a text in quotes"},
	    {"[\"a\nb\"]", 1, 4, "no control character in a text"},
	    {"[\"\\x\"]", 1, 4, "an escape of JSON"},
	    {"[\"\\u12g4\"]", 1, 4, "an escape of JSON"},
	    {"{} x", 1, 4, "nothing behind the object or list"},
	    {"nan", 1, 1, "a value of JSON"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct slice text = slice_of(table[i].text);
		struct json json = json_of(text);
		unsigned line, column;

		assert_int_equal(json_skip(&json) && json_end(&json), table[i].line == 0);
		if (table[i].line == 0)
			continue;
		json_place(text, json.at, &line, &column);
		if (line != table[i].line || column != table[i].column ||
		    strcmp(json.expected, table[i].expected) != 0)
			fail_msg("%s: %u:%u: %s", table[i].text, line, column, json.expected);
	}
}

static void test_nesting_is_bounded(void **state)
{
	char text[2 * JSON_DEPTH_MAX + 2];
	struct json json;

	(void)state;
	memset(text, '[', sizeof text / 2);
	memset(text + sizeof text / 2, ']', sizeof text / 2);
	json = json_of((struct slice){text, sizeof text});
	assert_false(json_skip(&json));
	assert_int_equal(json.at - text, JSON_DEPTH_MAX);
	json = json_of((struct slice){text + 1, sizeof text - 2});
	assert_true(json_skip(&json));
	assert_true(json_end(&json));
}

static void test_members_are_gone_through_in_order(void **state)
{
	struct json json = json_of(SLICE(" {\"a\" : 1 , \"b\":[2,{}] ,\"c\":\"d\"}"));
	struct slice name;
	char seen[8] = "";

	(void)state;
	assert_false(json_open(&json, '['));
	assert_null(json.expected);
	assert_true(json_open(&json, '{'));
	while (json_more(&json, '}') && json_name(&json, &name)) {
		strncat(seen, name.data, name.len);
		assert_true(json_skip(&json));
	}
	assert_null(json.expected);
	assert_true(json_end(&json));
	assert_string_equal(seen, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_an_escape_becomes_its_character),
	    cmocka_unit_test(test_half_a_pair_is_refused_or_replaced),
	    cmocka_unit_test(test_a_word_ends_where_json_ends_it),
	    cmocka_unit_test(test_what_is_no_json_is_refused_where_it_is_wrong),
	    cmocka_unit_test(test_nesting_is_bounded),
	    cmocka_unit_test(test_members_are_gone_through_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
