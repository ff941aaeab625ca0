/* Builds requests from templates, and fills in their keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "load/template.h"

static void check_filled(struct template *template, uint64_t key, const char *expected)
{
	template_fill(template, template->bytes.data, key);
	assert_int_equal(template->bytes.len, strlen(expected));
	assert_memory_equal(template->bytes.data, expected, template->bytes.len);
}

static void a_command_becomes_words_with_the_key_in_each_place(void **state)
{
	struct template template;

	(void)state;
	assert_int_equal(template_resp(&template, "  SET a:{key}\t{key}{key} x", 4, 3, NULL), WEIR_OK);
	check_filled(&template, 999,
	             "*4\r\n$3\r\nSET\r\n$6\r\na:0999\r\n$8\r\n09990999\r\n$1\r\nx\r\n");
	/* Nothing of the key before stays. */
	check_filled(&template, 7, "*4\r\n$3\r\nSET\r\n$6\r\na:0007\r\n$8\r\n00070007\r\n$1\r\nx\r\n");
	template_free(&template);
}

static void a_path_becomes_a_request(void **state)
{
	struct template template;

	(void)state;
	assert_int_equal(template_http(&template, "/a?k={key}", "Host: h:1\r\n", 2, 2, NULL), WEIR_OK);
	check_filled(&template, 42, "GET /a?k=42 HTTP/1.1\r\nHost: h:1\r\n\r\n");
	template_free(&template);
}

static void a_request_needs_no_key(void **state)
{
	struct template template;

	(void)state;
	assert_int_equal(template_resp(&template, "PING", 6, 6, NULL), WEIR_OK);
	check_filled(&template, 42, "*1\r\n$4\r\nPING\r\n");
	template_free(&template);
}

static void an_invalid_template_is_refused(void **state)
{
	static char huge[TEMPLATE_SIZE_MAX + 1];
	struct template template;
	struct weir_error error;

	(void)state;
	memset(huge, 'x', sizeof huge - 1);
	assert_int_equal(template_resp(&template, " \t", 1, 1, &error), WEIR_EINVAL);
	assert_int_equal(template_resp(&template, huge, 1, 1, &error), WEIR_EINVAL);
	assert_int_equal(
	    template_resp(&template, "{key}{key}{key}{key}{key}{key}{key}{key}{key}", 1, 1, &error),
	    WEIR_EINVAL);
	assert_string_equal(error.message, "expected {key} at most 8 times, found 9");
	assert_int_equal(template_http(&template, "a", "h", 1, 1, &error), WEIR_EINVAL);
	assert_int_equal(template_http(&template, "/a b", "h", 1, 1, &error), WEIR_EINVAL);
	assert_int_equal(template_http(&template, "/\r\nX: y", "h", 1, 1, &error), WEIR_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_command_becomes_words_with_the_key_in_each_place),
	    cmocka_unit_test(a_path_becomes_a_request),
	    cmocka_unit_test(a_request_needs_no_key),
	    cmocka_unit_test(an_invalid_template_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
