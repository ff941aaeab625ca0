#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"

static void a_terminal_is_shown_no_control_characters(void **state)
{
	static const struct {
		struct slice text;
		const char *shown;
	} cases[] = {
	    {{"", 0}, ""},
	    {SLICE("login k: allowed \\x (ok)"), "login k: allowed \\x (ok)"},
	    {SLICE("gr\xc3\xb6\xc3\x9f"
	           "e \xe2\x82\xac \xf0\x9f\x9a\xb0"),
	     "gr\xc3\xb6\xc3\x9f"
	     "e \xe2\x82\xac \xf0\x9f\x9a\xb0"},
	    {SLICE("a\x1b[2J\r\n\0\x7f\t"), "a\\x1b[2J\\x0d\\x0a\\x00\\x7f\\x09"},
	    {SLICE("\xc2\x9b"
	           "2J \xc2\xa0"),
	     "\\xc2\\x9b2J \xc2\xa0"}, /* the CSI of C1 */
	    {SLICE("\x9b"
	           "2J \xff\xc3"),
	     "\\x9b2J \\xff\\xc3"},
	    /* Characters that change the direction of the text, and their neighbours. */
	    {SLICE("\xe2\x80\xae"
	           "exe\xe2\x80\xac \xe2\x81\xa6x\xe2\x81\xa9"),
	     "\\xe2\\x80\\xaeexe\\xe2\\x80\\xac \\xe2\\x81\\xa6x\\xe2\\x81\\xa9"},
	    {SLICE("\xd8\x9c \xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8"),
	     "\\xd8\\x9c \\xe2\\x80\\x8e\\xe2\\x80\\x8f\\xe2\\x80\\xa8"},
	    {SLICE("\xd8\x9b\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"),
	     "\xd8\x9b\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"},
	    {SLICE("\xc0\x9b \xed\xa0\x80"), "\\xc0\\x9b \\xed\\xa0\\x80"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buffer out = {0};

		buffer_add_printable(&out, cases[i].text);
		buffer_add(&out, "", 1);
		assert_string_equal(out.data, cases[i].shown);
		buffer_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_terminal_is_shown_no_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
