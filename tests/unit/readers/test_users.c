/* `users:`: what is read and printed, what is refused where, and that no message shows a secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <weir/rules.h>

#include "base/buffer.h"
#include "readers/yaml/print.h"

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define TOKEN  "token: " DIGEST
/* As `mkpasswd` of Debian's whois makes them. */
#define YESCRYPT                                                                                   \
	"$y$j9T$kADYPyxZzAlj7MEq9od1r.$GUjlEO6m1k0oth7nbO5ZNtCFbVIjd8qHPt1tgixIhh/"
#define GOST                                                                                       \
	"$gy$j9T$otAPuEWbWeRFNR9G9nYW21$FNb7ZkmH9MgTG62hmsjfwsp3shrRLdvV.l/sv4XOk3/"
#define SCRYPT                                                                                     \
	"$7$CU..../.....9ZNk7Xt3OoZ1gKbThVPm1$uFrEWIg1dz9c8aSmLyKsG8LQDw243RAiZcIXWRKF2VB"
#define SHA512                                                                                     \
	"$6$Z.b8r5vLeWBZBsQU$HD01F6Jt1m43t0HD01F6Jt1m43t0HD01F6Jt1m43t0HD01F6Jt1m43t0HD01F6Jt1m43t0"   \
	"HD01F6Jt1m43t0ab"
#define SECRET "hunter2"
/* Parts of hashes that are damaged. The last one is too long by a byte, with what stands around it. */
#define NO_DOLLAR "j9T.kADYPyxZzAlj7MEq9od1r."
#define SETTING   "$y$j9T$kADYPyxZzAlj7MEq9od1r.$"
#define LAST_42   "GUjlEO6m1k0oth7nbO5ZNtCFbVIjd8qHPt1tgixIhh"
#define LAST_43   LAST_42 "/"
#define LONG_SALT  LAST_43 LAST_43 LAST_43 LAST_43 LAST_43 LAST_43 LAST_43 "0123456789abcdefghijklmnopqrstuvwxy"

#define LIMITS "limits: { login: { algorithm: token_bucket, rate: 5/s } }\n"

static weir_config *read_text(const char *text)
{
	struct weir_error error;
	weir_config *config = NULL;

	if (weir_config_read_yaml(text, strlen(text), NULL, &config, &error) != WEIR_OK)
		fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
	return config;
}

static void assert_user(const struct rules_user *user, const char *name, enum rules_proof proof,
                        const char *secret, unsigned may)
{
	assert_string_equal(user->name, name);
	assert_int_equal(user->proof, proof);
	assert_string_equal(user->secret, secret);
	assert_int_equal(user->may, may);
}

static void assert_all(const weir_config *config)
{
	const struct rules_user *users = config->users;

	assert_int_equal(config->user_count, 6);
	assert_user(&users[0], "shop", RULES_TOKEN, DIGEST, RULES_MAY_ASK);
	assert_user(&users[1], "ops", RULES_PASSWORD, YESCRYPT,
	            RULES_MAY_ASK | RULES_MAY_CHANGE | RULES_MAY_ADMIN);
	assert_user(&users[2], "gost", RULES_PASSWORD, GOST, RULES_MAY_CHANGE);
	assert_user(&users[3], "scrypt", RULES_PASSWORD, SCRYPT, RULES_MAY_ADMIN);
	assert_user(&users[4], "edge", RULES_CERTIFICATE, "edge.example.com", RULES_MAY_ASK);
	assert_user(&users[5], "local", RULES_UNIX, "www-data", RULES_MAY_ASK | RULES_MAY_ADMIN);
	assert_int_equal(users[0].limit_count, 3);
	assert_string_equal(users[0].limits[0].text, "login");
	assert_string_equal(users[0].limits[1].text, "*o*n");
	assert_string_equal(users[0].limits[2].text, "CL.THROTTLE");
	assert_int_equal(users[1].limit_count, 0);
}

/* The users stand before the limits that they name. */
static const char all_kinds[] =
    "users:\n"
    "  - { name: shop, " TOKEN ", may: [ask], limits: [login, \"*o*n\", CL.THROTTLE] }\n"
    "  - { name: ops, password: \"" YESCRYPT "\", may: [admin, ask, change] }\n"
    "  - { name: gost, password: " GOST ", may: [change] }\n"
    "  - { name: scrypt, password: " SCRYPT ", may: [admin] }\n"
    "  - { name: edge, certificate: edge.example.com, may: [ask] }\n"
    "  - { name: local, unix: www-data, may: [ask, admin] }\n" LIMITS;

static void every_kind_of_user_is_read(void **state)
{
	weir_config *config = read_text(all_kinds);

	(void)state;
	assert_all(config);
	assert_int_equal(config->remarks.count, 0);
	assert_int_equal(config->users[1].line, 3);
	assert_int_equal(config->users[1].column, 13);
	weir_config_close(config);
}

static void what_is_printed_reads_as_the_same_users(void **state)
{
	weir_config *config = read_text(all_kinds), *defaults = weir_private_config_new(), *again;
	struct buffer text = {0};

	(void)state;
	yaml_print(config, defaults, &text);
	buffer_printf(&text, "%c", 0);
	again = read_text(text.data);
	assert_all(again);
	buffer_free(&text);
	weir_config_close(again);
	weir_config_close(defaults);
	weir_config_close(config);
}

static void a_pattern_without_a_limit_is_a_warning(void **state)
{
	weir_config *config =
	    read_text(LIMITS "users:\n"
	                     "  - { name: a, unix: \"0\", may: [ask], limits: [\"log*\", \"api*\"] }\n");

	(void)state;
	assert_int_equal(config->remarks.count, 1);
	assert_int_equal(config->remarks.first->content.line, 3);
	assert_int_equal(config->remarks.first->content.column, 56);
	assert_non_null(strstr(config->remarks.first->content.text, "'api*'"));
	weir_config_close(config);
}

struct bad {
	const char *yaml;
	unsigned line, column;
	const char *message; /* a part of it */
};

static void assert_refused(const struct bad *bad)
{
	struct weir_error error = {0};
	weir_config *config = NULL;
	int status = weir_config_read_yaml(bad->yaml, strlen(bad->yaml), NULL, &config, &error);

	if (status == WEIR_OK || config || error.line != bad->line || error.column != bad->column ||
	    !strstr(error.message, bad->message) || strstr(error.message, SECRET) ||
	    strstr(error.message, "$") || strstr(error.message, "9f86"))
		fail_msg("%s\n%d at %u:%u %s\nwanted %u:%u %s", bad->yaml, status, error.line,
		         error.column, error.message, bad->line, bad->column, bad->message);
}

#define ASSERT_REFUSED(cases)                                                                      \
	for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                   \
	assert_refused(&(cases)[i])

static void mistakes_are_told_by_their_place(void **state)
{
	static const struct bad cases[] = {
	    {"users: []", 1, 8, "at least one user"},
	    {"users: {}", 1, 8, "a list of users"},
	    {"users:", 1, 7, "a list of users"},
	    {"users: [shop]", 1, 9, "a user such as"},
	    {"users: [{ " TOKEN ", may: [ask] }]", 1, 9, "expected name in a user, found none"},
	    {"users: [{ name: '', " TOKEN ", may: [ask] }]", 1, 17, "a name of 1 to 64 bytes"},
	    {"users: [{ name: 'a:b', " TOKEN ", may: [ask] }]", 1, 17, "without blanks and colons"},
	    {"users: [{ name: 'a b', " TOKEN ", may: [ask] }]", 1, 17, "without blanks and colons"},
	    {"users: [{ name: \"a\\x01\", " TOKEN ", may: [ask] }]", 1, 17, "without control characters"},
	    {"users: [{ name: a, may: [ask] }]", 1, 9,
	     "one of token, password, certificate and unix in a user, found none"},
	    {"users: [{ name: a, tokn: x, may: [ask] }]", 1, 20, "did you mean \"token\"?"},
	    {"users: [{ name: a, " TOKEN ", unix: me, may: [ask] }]", 1, 9, "found several"},
	    {"users: [{ name: a, " TOKEN "}]", 1, 9, "expected may in a user, found none"},
	    {"users: [{ name: a, " TOKEN ", may: ask }]", 1, 98, "a list such as [ask, change, admin]"},
	    {"users: [{ name: a, " TOKEN ", may: [] }]", 1, 98, "at least one right"},
	    {"users: [{ name: a, " TOKEN ", may: [ask, fly] }]", 1, 104, "ask, change, admin, found"},
	    {"users: [{ name: a, " TOKEN ", may: [ask], limits: [] }]", 1, 113, "at least one limit"},
	    {"users: [{ name: a, " TOKEN ", may: [ask], limit: [b] }]", 1, 105, "did you mean \"limits\"?"},
	    {"users:\n- { name: a, unix: u, may: [ask] }\n- { name: a, unix: v, may: [ask] }", 3, 11,
	     "each user once, found \"a\" again: the first is in line 2"},
	    {"users:\n- { name: a, unix: u, may: [ask] }\n- { name: b, unix: u, may: [ask] }", 3, 3,
	     "another unix than user 'a' has"},
	    {"users:\n- { name: a, " TOKEN ", may: [ask] }\n- { name: b, token: 9F86D081884C7D659A2FEAA0"
	     "C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08, may: [ask] }",
	     3, 3, "another token than user 'a' has"},
	};

	(void)state;
	ASSERT_REFUSED(cases);
}

#define PASSWORD_OF(text) "users: [{ name: a, password: " text ", may: [ask] }]"
#define TOKEN_OF(text)    "users: [{ name: a, token: " text ", may: [ask] }]"

/* The pattern may stand for the limit whose name is mistaken, so nothing is said of it. */
static void a_limit_without_a_name_is_the_only_mistake(void **state)
{
	static const struct bad cases[] = {
	    {"limits: { '': { algorithm: token_bucket, rate: 5/s } }\n"
	     "users: [{ name: a, unix: u, may: [ask], limits: [\"log*\"] }]",
	     1, 11, "a name of 1 to 64 bytes"},
	};

	(void)state;
	ASSERT_REFUSED(cases);
}

static void no_message_shows_a_secret(void **state)
{
	static const struct bad cases[] = {
	    {PASSWORD_OF(SECRET), 1, 30, "the hash of a password, as `weir passwd` prints it"},
	    {PASSWORD_OF("[" SECRET "]"), 1, 30, "the hash of a password"},
	    {PASSWORD_OF("!" SECRET), 1, 30, "expected no tag"},
	    {PASSWORD_OF("*" SECRET " "), 1, 30, "expected values written out"},
	    {PASSWORD_OF(SHA512), 1, 30, "found a hash of another method"},
	    {PASSWORD_OF("$y$" SECRET), 1, 30, "the hash of a password"},
	    {PASSWORD_OF("\"" YESCRYPT "!\""), 1, 30, "found a hash of another method, or a damaged one"},
	    {PASSWORD_OF("\"" SETTING LAST_42 "!\""), 1, 30, "found a hash of another method, or a damaged"},
	    {PASSWORD_OF("\"" SETTING LAST_42 "\\0\""), 1, 30, "found a hash of another method, or a damag"},
	    {PASSWORD_OF("$y$" NO_DOLLAR "." LAST_43), 1, 30, "found a hash of another method, or a damaged"},
	    {PASSWORD_OF("$y$$" LAST_43), 1, 30, "found a hash of another method, or a damaged one"},
	    {PASSWORD_OF("$y$j9T$" LONG_SALT "$" LAST_43), 1, 30, "found a hash of another method, or a dama"},
	    {PASSWORD_OF(DIGEST), 1, 30, "found the hash of a token"},
	    {TOKEN_OF(YESCRYPT), 1, 27, "found the hash of a password"},
	    {TOKEN_OF(SECRET), 1, 27, "the SHA-256 of a token in 64 hexadecimal digits"},
	    {TOKEN_OF(DIGEST "0"), 1, 27, "the SHA-256 of a token"},
	    {TOKEN_OF(DIGEST "g"), 1, 27, "the SHA-256 of a token"},
	    {TOKEN_OF("weir_" SECRET), 1, 27, "as `weir passwd --token` prints it, found a token itself"},
	    {TOKEN_OF("!" SECRET), 1, 27, "expected no tag"},
	};

	(void)state;
	ASSERT_REFUSED(cases);
}

/* Their salts differ as a rule; but a password says who somebody is beside a name only. */
static void two_users_may_have_the_same_password(void **state)
{
	weir_config *config = read_text("users:\n- { name: a, password: " SCRYPT ", may: [ask] }\n"
	                                "- { name: b, password: " SCRYPT ", may: [ask] }\n");

	(void)state;
	assert_int_equal(config->user_count, 2);
	weir_config_close(config);
}

static void at_most_a_thousand_users_are_read(void **state)
{
	struct buffer text = {0};
	weir_config *config;

	(void)state;
	buffer_add_text(&text, "users:\n");
	for (int i = 0; i < 1000; i++)
		buffer_printf(&text, "- { name: u%d, unix: a%d, may: [ask] }\n", i, i);
	buffer_printf(&text, "%c", 0);
	config = read_text(text.data);
	assert_int_equal(config->user_count, 1000);
	weir_config_close(config);
	text.len--;
	buffer_printf(&text, "- { name: v, unix: b, may: [ask] }\n%c", 0);
	assert_refused(&(struct bad){text.data, 2, 1, "at most 1000 users, found 1001"});
	buffer_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind_of_user_is_read),
	    cmocka_unit_test(what_is_printed_reads_as_the_same_users),
	    cmocka_unit_test(a_pattern_without_a_limit_is_a_warning),
	    cmocka_unit_test(mistakes_are_told_by_their_place),
	    cmocka_unit_test(a_limit_without_a_name_is_the_only_mistake),
	    cmocka_unit_test(no_message_shows_a_secret),
	    cmocka_unit_test(two_users_may_have_the_same_password),
	    cmocka_unit_test(at_most_a_thousand_users_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
