/* Texts of stores, as people write and mistake them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/store_url.h"

static void assert_slice(struct slice found, const char *expected)
{
	assert_true(slice_equal(found, slice_of(expected)));
}

static void a_login_ends_with_the_last_at(void **state)
{
	static const struct {
		const char *text, *scheme, *login, *rest; /* login: NULL: none */
	} cases[] = {
	    {"redis://h:1/2", "redis://", NULL, "h:1/2"},
	    {"redis://u:p@h", "redis://", "u:p", "h"},
	    {"redis://u:p@/@x@h?y", "redis://", "u:p@/@x", "h?y"},
	    {"rediss-cluster://@h", "rediss-cluster://", "", "h"},
	    {"u:p@h", "", "u:p", "h"},
	    {"file:redis://u:p@h", "", "file:redis://u:p", "h"},
	    {"://h", "", NULL, "://h"},
	    {"", "", NULL, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct store_url_parts place = store_url_split(cases[i].text);

		assert_slice(place.scheme, cases[i].scheme);
		assert_slice(place.rest, cases[i].rest);
		assert_int_equal(place.login.data != NULL, cases[i].login != NULL);
		if (cases[i].login)
			assert_slice(place.login, cases[i].login);
	}
}

static void a_url_is_stripped_of_its_secrets_alone(void **state)
{
	static const char *const cases[][2] = {
	    {"redis://u:p@h:1/2", "redis://h:1/2"},
	    {"rediss://:p@h?ca=x&key=y", "rediss://h?ca=x&key=y"},
	    {"redis+sentinel://u:p@h/m?sentinel_user=u&sentinel_password=p", "redis+sentinel://h/m"},
	    {"rediss+sentinel://h/m?sentinel_password=p&ca=x", "rediss+sentinel://h/m?ca=x"},
	    {"rediss+sentinel://h/m?ca=x&sentinel_password=p&key=y",
	     "rediss+sentinel://h/m?ca=x&key=y"},
	    {"memory", "memory"},
	    {"", ""},
	};
	char shown[100];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		store_url_strip(cases[i][0], shown);
		assert_string_equal(shown, cases[i][1]);
	}
}

static void what_may_be_a_password_is_not_shown(void **state)
{
	static const char *const cases[][2] = {
	    {"http://u:p@h:1/x", "http://…@h:1/x"},
	    {"http://u:p", "http://u:…"},
	    {"u:p", "u:…"},
	    {"h?password=p", "h?…"},
	    {"u@h?p", "…@h?…"},
	    {"file:", "file:"},
	    {"sqlite", "sqlite"},
	    {"", ""},
	};
	char shown[STORE_URL_SHOWN_MAX], text[1000], expected[STORE_URL_SHOWN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		store_url_redact(cases[i][0], shown);
		assert_string_equal(shown, cases[i][1]);
	}
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	store_url_redact(text, shown);
	snprintf(expected, sizeof expected, "%.64s…", text);
	assert_string_equal(shown, expected);
}

static void a_path_that_is_likely_a_url_is_found(void **state)
{
	static const char *const urls[] = {"redis://h",    "/redis:/u:p@h", "REDIS:h",
	                                   "a/rediss+x:h", "x://h",         "redis/redis-cluster:h"};
	static const char *const paths[] = {"/var/lib/redis/weir",   "state", "",
	                                    "/run/user@1000/weir:1", "redis", "/redis.d/a:b"};

	(void)state;
	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
		assert_true(store_url_is_likely(urls[i]));
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		assert_false(store_url_is_likely(paths[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_login_ends_with_the_last_at),
	    cmocka_unit_test(a_url_is_stripped_of_its_secrets_alone),
	    cmocka_unit_test(what_may_be_a_password_is_not_shown),
	    cmocka_unit_test(a_path_that_is_likely_a_url_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
