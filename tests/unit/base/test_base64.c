/* Base64, by the vectors of RFC 4648 and by texts that are no Base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/base64.h"

static void assert_decoded(const char *text, const char *expected)
{
	uint8_t bytes[16] = {0};
	size_t len = base64_decode(slice_of(text), bytes, sizeof bytes - 1);

	assert_string_equal((const char *)bytes, expected);
	assert_int_equal(len, strlen(expected));
}

static void texts_are_written_with_padding(void **state)
{
	static const struct {
		const char *bytes, *text;
	} pairs[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xff\xee\xff", "/+7/"}};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		char text[8] = {0};

		base64_encode((const uint8_t *)pairs[i].bytes, strlen(pairs[i].bytes), text);
		assert_string_equal(text, pairs[i].text);
	}
}

static void texts_of_the_standard_are_read_with_padding_and_without(void **state)
{
	(void)state;
	assert_decoded("", "");
	assert_decoded("Zg==", "f");
	assert_decoded("Zg", "f");
	assert_decoded("Zm8=", "fo");
	assert_decoded("Zm8", "fo");
	assert_decoded("Zm9v", "foo");
	assert_decoded("Zm9vYg==", "foob");
	assert_decoded("Zm9vYmFy", "foobar");
	assert_decoded("/+7/", "\xff\xee\xff");
}

static void what_is_no_such_text_has_no_bytes(void **state)
{
	static const char *const wrong[] = {"Z", "Zh", "Zm9v=Zg=", "Zg===", "Z g=", "_-7_", "Zm9v\n"};
	uint8_t bytes[3];

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(base64_decode(slice_of(wrong[i]), bytes, sizeof bytes), 0);
	assert_int_equal(base64_decode(SLICE("Zm9vYg"), bytes, sizeof bytes), 0); /* no room */
}

static void urls_have_an_alphabet_of_their_own(void **state)
{
	const uint8_t bytes[] = {255, 238, 255, 1};
	char text[BASE64_LEN(sizeof bytes)];
	uint8_t back[4];

	(void)state;
	assert_int_equal(base64_url_encode(bytes, sizeof bytes, text), sizeof text);
	assert_memory_equal(text, "_-7_AQ", sizeof text);
	assert_int_equal(base64_url_decode((struct slice){text, sizeof text}, back, 4), 4);
	assert_memory_equal(back, bytes, 4);
	assert_int_equal(base64_url_decode(SLICE("/+7/"), back, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts_of_the_standard_are_read_with_padding_and_without),
	    cmocka_unit_test(texts_are_written_with_padding),
	    cmocka_unit_test(what_is_no_such_text_has_no_bytes),
	    cmocka_unit_test(urls_have_an_alphabet_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
