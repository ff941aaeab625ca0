/* Tests which user a login belongs to, and which limits users may use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/rules.h>

#include "server/access/users.h"

#define TOKEN_A    "df9d216f695873ebe1f8c9bf84f6b0a427478801d3a04aff0409c52d2d536bed"
#define TOKEN_B    "5818b0ef6a81c3d8e09d004c324e7640ec4b54a4c43b4ddc395b112ac26dd5a8"
#define OTHER_HASH "$y$j75$ponmlkjihgfedcba$82PD8SyhY9AprIyK42emcuYyDU3aZqnofXVIzZTQEkC"
#define HASH       "$y$j75$abcdefghijklmnop$vZlXu1XtxOBWRxjOpQqONp1WYfMO0dN.H4xeSMU2ZvC"

/* Tokens "weir_a" and "weir_b"; password "secret", with parameters that make it fast. */
#define TEXT                                                                                       \
	"limits:\n"                                                                                    \
	"  login: { algorithm: token_bucket, rate: 1/s }\n"                                            \
	"  api-read: { algorithm: token_bucket, rate: 1/s }\n"                                         \
	"  api-write: { algorithm: token_bucket, rate: 1/s }\n"                                        \
	"users:\n"                                                                                     \
	"  - { name: a, token: \"" TOKEN_A "\", may: [ask], limits: [\"*-read\", THROTTLE] }\n"        \
	"  - { name: b, token: \"" TOKEN_B "\", may: [change, admin] }\n"                              \
	"  - { name: p, password: \"" HASH "\", may: [ask] }\n"                                        \
	"  - { name: c, certificate: c.example.com, may: [ask] }\n"                                    \
	"  - { name: u, unix: root, may: [ask] }\n"

struct fixture {
	weir_config *config;
	weir_table *table;
	weir_engine *engine;
	struct users *users;
};

static void open_users(struct fixture *f, const char *text, const struct users *before)
{
	struct weir_error error;

	if (weir_config_read_yaml(text, strlen(text), NULL, &f->config, &error) != 0)
		fail_msg("%s", error.message);
	assert_int_equal(weir_table_open(NULL, &f->table, NULL), 0);
	assert_int_equal(weir_engine_open(f->config, f->table, &f->engine, NULL), 0);
	assert_int_equal(users_open(&f->users, f->config, f->engine, before, &error), 0);
}

static void close_users(struct fixture *f)
{
	users_close(f->users);
	weir_engine_close(f->engine);
	weir_table_close(f->table);
	weir_config_close(f->config);
}

static struct request_login login_of(const char *user, const char *secret)
{
	return (struct request_login){user ? slice_of(user) : (struct slice){NULL, 0},
	                              slice_of(secret)};
}

/* Returns the result of a login, and the name of the user whose hash or token decides it. */
static enum users_login prove(struct users *users, const char *name, const char *secret,
                              const char **found, bool *exists)
{
	struct request_login login = login_of(name, secret);
	struct hash_key mark;
	struct user *user;
	enum users_login result;

	assert_true(users_fingerprint(users, &login, &mark));
	result = users_check_login(users, &login, mark, &user, exists);
	*found = user ? user->rule->name : NULL;
	return result;
}

static void a_login_is_found_by_its_token_or_its_name(void **state)
{
	static const struct {
		const char *name, *secret;
		enum users_login login;
		const char *found;
		bool exists;
	} cases[] = {
	    {NULL, "weir_a", USERS_KNOWN, "a", false},
	    {"", "weir_b", USERS_KNOWN, "b", false},
	    {"default", "weir_b", USERS_KNOWN, "b", false},
	    {"a", "weir_a", USERS_KNOWN, "a", false},
	    {"a", "weir_b", USERS_UNVERIFIED, "p", false}, /* takes as long as a password */
	    {"nobody", "weir_a", USERS_UNVERIFIED, "p", false},
	    {"c", "c.example.com", USERS_UNVERIFIED, "p", false},
	    {"p", "secret", USERS_UNVERIFIED, "p", true},
	    {NULL, "secret", USERS_WRONG, NULL, false},
	    {NULL, "", USERS_WRONG, NULL, false},
	};
	struct fixture f;

	(void)state;
	open_users(&f, TEXT, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *found;
		bool exists;

		assert_int_equal(prove(f.users, cases[i].name, cases[i].secret, &found, &exists),
		                 cases[i].login);
		assert_int_equal(exists, cases[i].exists);
		if (cases[i].found)
			assert_string_equal(found, cases[i].found);
		else
			assert_null(found);
	}
	assert_string_equal(users_find_certificate(f.users, "c.example.com")->rule->name, "c");
	assert_null(users_find_certificate(f.users, "root"));
	assert_string_equal(users_find_account(f.users, 0)->rule->name, "u");
	assert_null(users_find_account(f.users, 1));
	close_users(&f);
}

/* Only the fingerprint of the right password is compared; another secret has another one. */
static void a_password_that_was_right_is_known_until_its_hash_changes(void **state)
{
	struct request_login right = login_of("p", "secret");
	struct fixture f, same, other;
	struct hash_key mark;
	struct user *user;
	const char *found;
	bool exists;

	(void)state;
	open_users(&f, TEXT, NULL);
	assert_true(users_fingerprint(f.users, &right, &mark));
	assert_int_equal(users_check_login(f.users, &right, mark, &user, &exists), USERS_UNVERIFIED);
	user_remember(user, mark);
	assert_int_equal(prove(f.users, "p", "secret", &found, &exists), USERS_KNOWN);
	assert_int_equal(prove(f.users, "p", "secret1", &found, &exists), USERS_UNVERIFIED);
	assert_int_equal(prove(f.users, "b", "secret", &found, &exists), USERS_UNVERIFIED);
	open_users(&same, TEXT, f.users);
	assert_int_equal(prove(same.users, "p", "secret", &found, &exists), USERS_KNOWN);
	assert_non_null(users_find(same.users, f.users->items[0].id));
	open_users(&other, "users:\n  - { name: p, password: \"" OTHER_HASH "\", may: [ask] }\n",
	           f.users);
	assert_int_equal(prove(other.users, "p", "secret", &found, &exists), USERS_UNVERIFIED);
	assert_null(users_find(other.users, f.users->items[2].id));
	close_users(&other);
	close_users(&same);
	close_users(&f);
}

static void a_password_without_a_name_is_known_as_that_of_default(void **state)
{
	static const char *const names[] = {"", "default"};
	struct fixture f;

	(void)state;
	open_users(&f, "users:\n  - { name: default, password: \"" HASH "\", may: [ask] }\n", NULL);
	for (size_t i = 0; i < 2; i++) {
		struct request_login right = login_of(names[i], "secret"),
		                     other = login_of(names[1 - i], "secret");
		struct hash_key mark;
		struct user *user;
		bool exists;

		assert_true(users_fingerprint(f.users, &right, &mark));
		users_check_login(f.users, &right, mark, &user, &exists);
		user_remember(user, mark);
		assert_true(users_fingerprint(f.users, &other, &mark));
		assert_int_equal(users_check_login(f.users, &right, mark, &user, &exists), USERS_KNOWN);
		assert_int_equal(users_check_login(f.users, &other, mark, &user, &exists), USERS_KNOWN);
	}
	close_users(&f);
}

/* Proofs that are well formed, but can't belong to any user. */
static void proofs_that_prove_nothing_are_refused(void **state)
{
	static const struct {
		const char *users, *message; /* the message is about the second user */
	} cases[] = {
	    {"- { name: a, password: \"" HASH "\", may: [ask] }\n"
	     "- { name: b, password: "
	     "\"$y$zzz$ponmlkjihgfedcba$82PD8SyhY9AprIyK42emcuYyDU3aZqnofXVIzZTQEkC\", "
	     "may: [ask] }",
	     "password: expected a hash that libcrypt can compute"},
	    {"- { name: a, unix: root, may: [ask] }\n- { name: b, unix: \"0\", may: [ask] }",
	     "unix: expected another account than user 'a' has"},
	    {"- { name: a, unix: root, may: [ask] }\n- { name: b, unix: no-such-user, may: [ask] }",
	     "unix: expected a user of this system, found 'no-such-user'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture f;
		struct weir_error error = {0};
		char text[512];

		open_users(&f, TEXT, NULL);
		users_close(f.users);
		weir_config_close(f.config);
		snprintf(text, sizeof text, "users:\n%s\n", cases[i].users);
		assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &f.config, &error), 0);
		assert_int_equal(users_open(&f.users, f.config, f.engine, NULL, &error), WEIR_EINVAL);
		assert_null(f.users);
		assert_int_equal(error.line, 3);
		assert_int_equal(error.column, 11);
		if (!strstr(error.message, cases[i].message))
			fail_msg("%s", error.message);
		close_users(&f);
	}
}

/* A reload computes new hashes, and refuses one like a start does. */
static void a_hash_of_a_reload_is_tried_if_it_is_new(void **state)
{
	static const char impossible[] =
	    "users:\n  - { name: p, password: \"" HASH "\", may: [ask] }\n"
	    "  - { name: q, password: "
	    "\"$y$zzz$ponmlkjihgfedcba$82PD8SyhY9AprIyK42emcuYyDU3aZqnofXVIzZTQEkC\", "
	    "may: [ask] }\n";
	struct weir_error error;
	weir_config *config;
	struct users *users;
	struct fixture f;

	(void)state;
	open_users(&f, TEXT, NULL);
	assert_int_equal(weir_config_read_yaml(impossible, strlen(impossible), NULL, &config, &error),
	                 0);
	assert_int_equal(users_open(&users, config, f.engine, f.users, &error), WEIR_EINVAL);
	assert_null(users);
	assert_int_equal(error.line, 3);
	weir_config_close(config);
	close_users(&f);
}

/* A connection stays logged in as the user with an id. */
static void another_name_or_proof_is_another_user(void **state)
{
	static const char *const others[] = {
	    "users:\n  - { name: c2, certificate: c.example.com, may: [ask] }\n",
	    "users:\n  - { name: c, certificate: c2.example.com, may: [ask] }\n",
	    "users:\n  - { name: a, certificate: \"" TOKEN_A "\", may: [ask] }\n",
	};
	struct fixture f;

	(void)state;
	open_users(&f, TEXT, NULL);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct fixture other;

		open_users(&other, others[i], f.users);
		for (size_t j = 0; j < f.users->count; j++)
			assert_null(users_find(other.users, f.users->items[j].id));
		close_users(&other);
	}
	close_users(&f);
}

/* The first four would be the same text if their parts were joined. */
static void other_logins_have_other_fingerprints(void **state)
{
	static const char *const logins[][2] = {{"ab", "c"}, {"a", "bc"}, {"", "abc"},
	                                        {"abc", ""}, {"b", "c"},  {"ab", "d"}};
	struct hash_key marks[sizeof logins / sizeof *logins];
	struct fixture f;

	(void)state;
	open_users(&f, TEXT, NULL);
	for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
		struct request_login login = login_of(logins[i][0], logins[i][1]);

		assert_true(users_fingerprint(f.users, &login, &marks[i]));
		for (size_t j = 0; j < i; j++)
			assert_false(hash_key_equal(marks[i], marks[j]));
	}
	close_users(&f);
}

/* All bytes of a token's digest are compared. */
static void a_digest_that_differs_in_one_byte_matches_no_token(void **state)
{
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < TOKEN_DIGEST_MAX; i++) {
		char text[] = "users:\n  - { name: a, may: [ask], token: \"" TOKEN_A "\" }\n";
		char *digit = strstr(text, TOKEN_A) + 2 * i;
		const char *found;
		bool exists;

		*digit = *digit == '0' ? '1' : '0';
		open_users(&f, text, NULL);
		assert_int_equal(prove(f.users, NULL, "weir_a", &found, &exists), USERS_WRONG);
		close_users(&f);
	}
}

/* libcrypt would read no further than the right password. */
static void a_nul_in_a_password_is_wrong(void **state)
{
	struct fixture f;
	struct request_login login = {SLICE("p"), SLICE("secret\0more")};
	struct hash_key mark;
	struct user *user;
	bool exists;

	(void)state;
	open_users(&f, TEXT, NULL);
	assert_true(users_fingerprint(f.users, &login, &mark));
	assert_int_equal(users_check_login(f.users, &login, mark, &user, &exists), USERS_WRONG);
	close_users(&f);
}

/* Either name of the commands stands for limits that come with requests. */
static void each_name_of_the_commands_is_a_pattern_for_limits(void **state)
{
	static const char *const names[] = {"CL.THROTTLE", "THROTTLE"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fixture f;
		char text[128];

		snprintf(text, sizeof text,
		         "users:\n  - { name: c, certificate: c, may: [ask], limits: [%s] }\n", names[i]);
		open_users(&f, text, NULL);
		assert_true(user_may_use(&f.users->items[0], 0));
		close_users(&f);
	}
}

static void patterns_select_the_limits_of_a_user(void **state)
{
	struct fixture f;

	(void)state;
	open_users(&f, TEXT, NULL);
	for (size_t i = 0; i < 4; i++) { /* the last one stands for CL.THROTTLE and THROTTLE */
		const char *name = i < 3 ? engine_limit_at(f.engine, i)->name : "THROTTLE";

		assert_int_equal(user_may_use(&f.users->items[0], i),
		                 strcmp(name, "api-read") == 0 || strcmp(name, "THROTTLE") == 0);
		assert_true(user_may_use(&f.users->items[1], i));
	}
	close_users(&f);
}

static void permissions_are_those_that_are_named(void **state)
{
	static const int expected[][4] = {
	    /* free, ask, change, admin */
	    {WEIR_OK, WEIR_EAUTH, WEIR_EAUTH, WEIR_EAUTH}, /* nobody */
	    {WEIR_OK, WEIR_OK, WEIR_EPERM, WEIR_EPERM},
	    {WEIR_OK, WEIR_EPERM, WEIR_OK, WEIR_OK},
	};
	struct weir_error error;
	struct fixture f;

	(void)state;
	open_users(&f, TEXT, NULL);
	for (size_t i = 0; i < 3; i++)
		for (enum request_class class = REQUEST_FREE; class <= REQUEST_ADMIN; class ++)
			assert_int_equal(user_check(i ? &f.users->items[i - 1] : NULL, class, &error),
			                 expected[i][class]);
	close_users(&f);
}

static void a_login_that_is_too_long_is_wrong(void **state)
{
	static char longest[PASSWORD_MAX + 2];
	struct request_login login;
	struct hash_key mark;
	struct fixture f;

	(void)state;
	memset(longest, 'x', PASSWORD_MAX + 1);
	open_users(&f, TEXT, NULL);
	login = login_of("p", longest);
	assert_false(users_fingerprint(f.users, &login, &mark));
	login = login_of(longest, "x");
	assert_false(users_fingerprint(f.users, &login, &mark));
	login = login_of("p", longest + 1);
	assert_true(users_fingerprint(f.users, &login, &mark));
	close_users(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_login_is_found_by_its_token_or_its_name),
	    cmocka_unit_test(a_password_that_was_right_is_known_until_its_hash_changes),
	    cmocka_unit_test(a_password_without_a_name_is_known_as_that_of_default),
	    cmocka_unit_test(proofs_that_prove_nothing_are_refused),
	    cmocka_unit_test(a_hash_of_a_reload_is_tried_if_it_is_new),
	    cmocka_unit_test(another_name_or_proof_is_another_user),
	    cmocka_unit_test(other_logins_have_other_fingerprints),
	    cmocka_unit_test(a_digest_that_differs_in_one_byte_matches_no_token),
	    cmocka_unit_test(a_nul_in_a_password_is_wrong),
	    cmocka_unit_test(patterns_select_the_limits_of_a_user),
	    cmocka_unit_test(each_name_of_the_commands_is_a_pattern_for_limits),
	    cmocka_unit_test(permissions_are_those_that_are_named),
	    cmocka_unit_test(a_login_that_is_too_long_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
