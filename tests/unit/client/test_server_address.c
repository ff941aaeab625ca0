/* Reads the addresses of servers that users write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/server_address.h"

static const struct example {
	const char *text;
	const char *address; /* NULL if the text is refused */
	const char *host, *field;
	bool is_http, is_https;
} examples[] = {
    {"127.0.0.1:80", "127.0.0.1:80", "127.0.0.1", "127.0.0.1:80", false, false},
    {"localhost:80", "127.0.0.1:80", "localhost", "localhost:80", false, false},
    {"[::1]:80", "[::1]:80", "::1", "[::1]:80", false, false},
    {"unix:/run/x", "unix:/run/x", "127.0.0.1", "localhost", false, false},
    {"http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080", true, false},
    {"http://127.0.0.1:8080/", "127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080", true, false},
    {"http://127.0.0.1", "127.0.0.1:80", "127.0.0.1", "127.0.0.1:80", true, false},
    {"https://127.0.0.1", "127.0.0.1:443", "127.0.0.1", "127.0.0.1:443", true, true},
    {"https://[::1]", "[::1]:443", "::1", "[::1]:443", true, true},
    {"https://[::1]:8443", "[::1]:8443", "::1", "[::1]:8443", true, true},
    {"HTTP://127.0.0.1", NULL, NULL, NULL, false, false},
    {"http://", NULL, NULL, NULL, false, false},
    {"http:///", NULL, NULL, NULL, false, false},
    {"http://a:b@127.0.0.1:1", NULL, NULL, NULL, false, false},
    {"http://127.0.0.1:1/x", NULL, NULL, NULL, false, false},
    {"http://127.0.0.1:1#x", NULL, NULL, NULL, false, false},
    {"http://127.0.0.1:x", NULL, NULL, NULL, false, false},
    {"http://bad name:1", NULL, NULL, NULL, false, false},
    {"http://unix:/run/x", NULL, NULL, NULL, false, false},
    {"unix:relative", NULL, NULL, NULL, false, false},
    {"127.0.0.1", NULL, NULL, NULL, false, false},
    {"", NULL, NULL, NULL, false, false},
};

static void an_address_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		const struct example *example = &examples[i];
		struct weir_error error = {0};
		struct server_address found;
		char text[NET_ADDRESS_TEXT_MAX];
		int status = server_address_parse(slice_of(example->text), &found, &error);

		assert_int_equal(status, example->address ? WEIR_OK : WEIR_EINVAL);
		if (!example->address) {
			assert_non_null(strstr(error.message, "expected"));
			continue;
		}
		net_address_format(&found.addresses[0], text);
		assert_string_equal(text, example->address);
		assert_string_equal(found.host, example->host);
		assert_string_equal(found.field, example->field);
		assert_int_equal(found.address_count, 1);
		assert_int_equal(found.is_http, example->is_http);
		assert_int_equal(found.is_https, example->is_https);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(an_address_is_read)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
