/* Tests passwords and tokens, also with hashes that other programs have made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "server/access/password.h"

/* Made by `mkpasswd` of Debian's whois, one of each method that is accepted. */
static const char *const made_by_others[] = {
    "$y$j9T$kADYPyxZzAlj7MEq9od1r.$GUjlEO6m1k0oth7nbO5ZNtCFbVIjd8qHPt1tgixIhh/",
    "$gy$j9T$otAPuEWbWeRFNR9G9nYW21$FNb7ZkmH9MgTG62hmsjfwsp3shrRLdvV.l/sv4XOk3/",
    "$7$CU..../.....9ZNk7Xt3OoZ1gKbThVPm1$uFrEWIg1dz9c8aSmLyKsG8LQDw243RAiZcIXWRKF2VB",
};
#define THEIR_PASSWORD "pässwörd: secret"

static void hashes_of_other_programs_are_checked(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof made_by_others / sizeof *made_by_others; i++) {
		assert_int_equal(password_check(made_by_others[i], THEIR_PASSWORD), 1);
		assert_int_equal(password_check(made_by_others[i], "secret"), 0);
		assert_int_equal(password_check(made_by_others[i], ""), 0);
	}
}

static void a_new_hash_is_right_for_its_password_alone(void **state)
{
	char longest[PASSWORD_MAX + 2], hash[PASSWORD_HASH_MAX], other[PASSWORD_HASH_MAX];

	(void)state;
	memset(longest, 'x', sizeof longest);
	longest[PASSWORD_MAX] = '\0';
	assert_int_equal(password_hash(longest, hash), WEIR_OK);
	assert_int_equal(password_hash(longest, other), WEIR_OK);
	assert_string_not_equal(hash, other);
	assert_int_equal(password_check(hash, longest), 1);
	longest[PASSWORD_MAX - 1] = 'y';
	assert_int_equal(password_check(hash, longest), 0);
	longest[PASSWORD_MAX] = 'x';
	longest[PASSWORD_MAX + 1] = '\0';
	assert_int_equal(password_hash(longest, hash), WEIR_ELONG);
	assert_int_equal(password_check(other, longest), 0);
}

/* Their form is one that configurations accept, but libcrypt can't compute them. */
static void a_hash_that_cannot_be_computed_matches_no_password(void **state)
{
	static const char *const impossible[] = {
	    "$y$zzzzz$aaaaaaaaaaaaaaaaaaaaa$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	    "$y$j9T$abc$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	    "*0",
	    "",
	};

	(void)state;
	for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
		assert_int_equal(password_check(impossible[i], "secret"), 0);
		assert_int_equal(password_check(impossible[i], "*0"), 0);
	}
}

static void a_token_differs_each_time_and_its_digest_is_sha_256(void **state)
{
	static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	static const char upper[] = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
	unsigned char digest[TOKEN_DIGEST_MAX], expected[TOKEN_DIGEST_MAX];
	char one[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX];

	(void)state;
	assert_int_equal(token_make(one), WEIR_OK);
	assert_int_equal(token_make(other), WEIR_OK);
	assert_string_not_equal(one, other);
	assert_int_equal(
	    strspn(one, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
	    sizeof TOKEN_PREFIX - 1 + 43);
	token_digest(SLICE("abc"), digest);
	assert_true(token_read_digest(abc, expected));
	assert_memory_equal(digest, expected, sizeof digest);
	memset(expected, 0, sizeof expected);
	assert_true(token_read_digest(upper, expected));
	assert_memory_equal(digest, expected, sizeof digest);
	assert_false(token_read_digest(abc + 1, expected));
	assert_false(token_read_digest(
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0", expected));
	assert_false(token_read_digest(
	    "ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", expected));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hashes_of_other_programs_are_checked),
	    cmocka_unit_test(a_new_hash_is_right_for_its_password_alone),
	    cmocka_unit_test(a_hash_that_cannot_be_computed_matches_no_password),
	    cmocka_unit_test(a_token_differs_each_time_and_its_digest_is_sha_256),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
