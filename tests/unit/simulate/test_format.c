/* Parses lines of each format: fields, times, escapes and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "simulate/input/format.h"

#define T "14/Nov/2023:22:13:20 +0000"

static const struct fields fields = {
    {SLICE("ip"), SLICE("user"), SLICE("path"), SLICE("user_agent")}, 4};

/* A line, and its values; or the column and the words of the error. */
static const struct {
	const char *format, *line;
	const char *values[4];
	unsigned column;
	const char *expected;
} lines[] = {
    {"combined",
     "1.2.3.4 - ann [" T "] \"GET /a?b HTTP/1.1\" 200 5 \"-\" \"x\"",
     {"1.2.3.4", "ann", "/a", "x"}},
    {"combined",
     "1.2.3.4 - ann b [" T "] \"GET /a HTTP/1.1\" 200 5",
     {"1.2.3.4", "ann b", "/a", NULL}},
    {"combined",
     "1.2.3.4 - a[b [x\\x22] [01/Jan/2020 [" T "] \"GET /a HTTP/1.1\" 200 5",
     {"1.2.3.4", "a[b [x\"] [01/Jan/2020", "/a", NULL}},
    {"combined", "::1 - - [" T "] \"-\" 400 0 \"-\" \"-\"", {"::1", NULL, NULL, NULL}},
    {"combined", "::1 - - [" T "] \"\" 400 0 \"-\" \"-\" 0.5 \"y\"", {"::1", NULL, NULL, NULL}},
    {"combined",
     "a - - [" T "] \"GET /\\x22\\\\ HTTP/1.1\" 200 - \"a\\\"b\" \"c\\\"\\x4\"",
     {"a", NULL, "/\"\\", "c\"x4"}},
    {"combined",
     "a - - [" T "] \"GET //%6c/x/../\\x2e/%2e%2e?b HTTP/1.1\" 200 5",
     {"a", NULL, "/", NULL}},
    {"combined", "a - - [" T "] \"GET %6c/../x HTTP/1.1\" 200 5", {"a", NULL, "l/../x", NULL}},
    {"combined", "a - - [" T "] \"GET ?x HTTP/1.1\" 200 5", {"a", NULL, "", NULL}},
    {"combined", "a - - [" T "] \"GET", {NULL}, 40, "a request in quotes"},
    {"combined", "a - - [14/Foo/2023:22:13:20 +0000] \"\"", {NULL}, 8, "a time such as"},
    {"combined", "a - - \"GET / HTTP/1.1\"", {NULL}, 23, "a time in brackets"},
    {"combined", "a - - [" T "] \"GET / HTTP/1.1\" x", {NULL}, 53, "a number or -"},
    {"combined", "a", {NULL}, 1, "an address and a blank"},
    {"jsonl",
     "{\"time\":1,\"ip\":\"a\",\"user\":5,\"path\":null,\"user_agent\":true}",
     {"a", "5", NULL, "true"}},
    {"jsonl", "\t{\"time\":170e-2}", {NULL, NULL, NULL, NULL}},
    {"jsonl", " {} ", {NULL}, 5, "a field \"time\""},
    {"jsonl",
     "{\"time\":\"1\",\"ip\":\"\\u0041\\/\\n\\u00e9\"}",
     {"A/\n\xc3\xa9", NULL, NULL, NULL}},
    {"jsonl",
     "{\"time\":1,\"ip\":\"\\ud83d\\ude00\",\"user\":\"\\ud800x\"}",
     {"\xf0\x9f\x98\x80", "\xef\xbf\xbdx", NULL, NULL}},
    {"jsonl", "{\"time\":1,\"path\":{\"ip\":[\"}\",1]},\"ip\":\"b\"}", {"b", NULL, NULL, NULL}},
    {"jsonl", "{\"time\":1,\"ip\":\"\\uffee\"}", {"\xef\xbf\xae", NULL, NULL, NULL}},
    {"jsonl",
     "{\"time\":1,\"ip\":\"\\ud83d\\u0041\"}",
     {"\xef\xbf\xbd"
      "A",
      NULL, NULL, NULL}},
    {"jsonl", "{\"time\":1,\"ip\":\"a\",\"ip\":\"b\"}", {NULL}, 26, "each field once"},
    {"jsonl", "{\"time\":1,\"ip\":\"a", {NULL}, 18, "the end of a text in quotes"},
    {"jsonl", "{\"time\":1,\"ip\":[1", {NULL}, 18, "a comma or the end of the list"},
    {"jsonl", "{\"time\":1} x", {NULL}, 12, "nothing behind the object"},
    {"jsonl", "{\"time\":1,}", {NULL}, 11, "a field's name in quotes"},
    {"jsonl", "{\"time\":nan}", {NULL}, 9, "a value of JSON"},
    {"jsonl", "{\"time\":1,\"cost\":-1}", {NULL}, 18, "a cost"},
};

static void lines_become_requests_or_errors_with_a_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		const struct format *format = format_named(lines[i].format);
		struct slice line = {strdup(lines[i].line), strlen(lines[i].line)};
		struct weir_error error = {0};
		struct record record = {0};
		struct columns columns;

		if (!lines[i].expected)
			assert_ptr_equal(format_guess(line), format);
		format_columns(format, &fields, &columns);
		if (lines[i].expected) {
			assert_int_not_equal(format->parse(&columns, line, &record, &error), WEIR_OK);
			if (error.column != lines[i].column || !strstr(error.message, lines[i].expected))
				fail_msg("%s: column %u: %s", lines[i].line, error.column, error.message);
		} else if (format->parse(&columns, line, &record, &error) != WEIR_OK) {
			fail_msg("%s: column %u: %s", lines[i].line, error.column, error.message);
		}
		for (size_t j = 0; !lines[i].expected && j < fields.count; j++) {
			struct slice value = record.values[j];
			const char *expected = lines[i].values[j];

			if (!expected != !value.data || (expected && !slice_equal(value, slice_of(expected))))
				fail_msg("%s: value %zu: %.*s", lines[i].line, j, (int)value.len,
				         value.data ? value.data : "");
		}
		free((char *)line.data);
	}
}

static void the_end_of_a_plain_run_is_found_at_every_offset(void **state)
{
	static const struct {
		const char *text, *becomes; /* NULL if it is refused */
	} ends[] = {
	    {"\\\"", "\""}, {"\\\\", "\\"}, {"\x1f", NULL}, {"\xa2", "\xa2"}, {" !#[]", " !#[]"}};
	struct columns columns;

	(void)state;
	format_columns(format_named("jsonl"), &fields, &columns);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		for (int before = 0; before < 20; before++)
			for (int behind = 0; behind < 20; behind++) {
				struct weir_error error = {0};
				struct record record = {0};
				char line[128], value[64];
				int len =
				    snprintf(line, sizeof line, "{\"time\":1,\"ip\":\"%.*s%s%.*s\"}", before,
				             "aaaaaaaaaaaaaaaaaaaa", ends[i].text, behind, "bbbbbbbbbbbbbbbbbbbb");
				int status =
				    format_jsonl(&columns, (struct slice){line, (size_t)len}, &record, &error);

				assert_int_equal(status, ends[i].becomes ? WEIR_OK : WEIR_ESYNTAX);
				if (!ends[i].becomes) {
					assert_int_equal(error.column, 17 + before);
					continue;
				}
				snprintf(value, sizeof value, "%.*s%s%.*s", before, "aaaaaaaaaaaaaaaaaaaa",
				         ends[i].becomes, behind, "bbbbbbbbbbbbbbbbbbbb");
				assert_true(slice_equal(record.values[0], slice_of(value)));
			}
}

static void columns_of_a_csv_are_found_by_name_and_quotes_are_undone(void **state)
{
	const struct format *format = format_named("csv");
	char header[] = "x,\"time\",user,ip", row[] = "1,5,\"a\"\"b,\",", more[] = "1,2,3,4,5",
	     open[] = "1,2,\"x";
	struct weir_error error = {0};
	struct columns columns;
	struct record record = {0};

	(void)state;
	format_columns(format, &fields, &columns);
	assert_int_equal(format->header(&columns, slice_of(header), &error), WEIR_OK);
	assert_int_equal(format->parse(&columns, slice_of(row), &record, &error), WEIR_OK);
	assert_true(slice_equal(record.values[1], SLICE("a\"b,")));
	assert_true(record.values[0].data && record.values[0].len == 0);
	assert_null(record.values[2].data);
	assert_int_equal(record.time_ns, UINT64_C(5000000000));
	assert_int_not_equal(format->parse(&columns, slice_of(more), &record, &error), WEIR_OK);
	assert_int_equal(error.column, 9);
	assert_int_not_equal(format->parse(&columns, slice_of(open), &record, &error), WEIR_OK);
	assert_int_equal(error.column, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_become_requests_or_errors_with_a_place),
	    cmocka_unit_test(the_end_of_a_plain_run_is_found_at_every_offset),
	    cmocka_unit_test(columns_of_a_csv_are_found_by_name_and_quotes_are_undone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
