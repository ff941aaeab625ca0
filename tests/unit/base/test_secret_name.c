/* Names of attributes whose values may be secrets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/secret_name.h"

static void headers_cookies_and_parameters_are_secret(void **state)
{
	static const char *const names[] = {"header.accept", "header.X-Api-Key", "cookie.a", "query.q"};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_true(secret_name_is(names[i]));
}

static void names_of_secrets_are_known_in_any_writing(void **state)
{
	static const char *const names[] = {
	    "api_key",  "apikey",       "x-api-key", "API.KEY",    "userApiKey", "authorization",
	    "password", "access_token", "Token",     "session_id", "cookie",     "client-secret",
	};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_true(secret_name_is(names[i]));
}

static void other_names_are_not(void **state)
{
	static const char *const names[] = {"path", "ip",  "user", "host", "method",  "tenant",
	                                    "plan", "key", "api",  "",     "headers", "_-."};
	static char long_name[1000];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_false(secret_name_is(names[i]));
	memset(long_name, 'a', sizeof long_name - 1);
	assert_false(secret_name_is(long_name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(headers_cookies_and_parameters_are_secret),
	    cmocka_unit_test(names_of_secrets_are_known_in_any_writing),
	    cmocka_unit_test(other_names_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
