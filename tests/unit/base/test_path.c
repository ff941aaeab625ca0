/* One spelling for all that mean the same path. */
#include "base/text/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

typedef int speller(struct arena *arena, struct slice path, struct slice *out);

static void assert_spelled(speller *spell, struct slice path, const char *expected)
{
	struct arena arena = {0};
	struct slice out;
	char *text;

	assert_int_equal(spell(&arena, path, &out), 0);
	text = arena_copy(&arena, out);
	assert_string_equal(text, expected);
	assert_int_equal(out.len, strlen(expected));
	arena_free(&arena);
}

static void test_dots_and_double_slashes_go(void **context)
{
	static const char *const table[][2] = {
	    {"/login", "/login"},           {"//login", "/login"},     {"/./login", "/login"},
	    {"/a/../login", "/login"},      {"/../login", "/login"},   {"/login/", "/login/"},
	    {"/login//", "/login/"},        {"/login/.", "/login/"},   {"/login/x/..", "/login/"},
	    {"/login/...", "/login/..."},   {"/.login", "/.login"},    {"/a/..;x/login", "/a/..;x/login"},
	    {"/Login;x", "/Login;x"},       {"login", "/login"},       {"", "/"},
	};

	(void)context;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		char text[32];
		size_t len;

		assert_spelled(path_normalize, slice_of(table[i][0]), table[i][1]);
		if (table[i][0][0] != '/')
			continue;
		strcpy(text, table[i][0]);
		len = path_normalize_here(text, strlen(text));
		assert_int_equal(len, strlen(table[i][1]));
		assert_memory_equal(text, table[i][1], len);
	}
}

static void test_escapes_are_undone_once(void **context)
{
	static const char *const table[][2] = {
	    {"/%6cogin", "/login"}, {"/%6Cogin", "/login"}, {"/a%2Fb", "/a/b"}, {"/%252e", "/%2e"},
	    {"/100%", "/100%"},     {"/%zz%4", "/%zz%4"},   {"/a+b", "/a+b"},   {"", ""},
	};

	(void)context;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		char text[32];
		size_t len;

		strcpy(text, table[i][0]);
		len = path_decode((struct slice){text, strlen(text)}, text);
		assert_int_equal(len, strlen(table[i][1]));
		assert_memory_equal(text, table[i][1], len);
	}
}

static void test_variants_fold_to_one_spelling(void **context)
{
	static const char *const variants[] = {
	    "/login",    "/login/",       "/login//",          "/LOGIN",       "/Login/",
	    "/login;",   "/login;x=1;y",  "/login;x/",         "/;x/login",    "//login",
	    "/./login",  "/a/../login",   "/a/..;x=1/login",   "/.;/login",    "/login/;x",
	    "/login/.",  "/login/..;/login", "login",
	};
	static const char *const others[][2] = {
	    {"/", "/"},           {"//", "/"},          {"/;x", "/"},          {"", ""},
	    {"/login.", "/login."}, {"/login ", "/login "}, {"/log/in", "/log/in"}, {"/loginx", "/loginx"},
	    {"/a\\login", "/a\\login"}, {"/LOGIN\xc3\x89", "/login\xc3\x89"}, {"/@[`{", "/@[`{"},
	};

	(void)context;
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
		assert_spelled(path_fold, slice_of(variants[i]), "/login");
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_spelled(path_fold, slice_of(others[i][0]), others[i][1]);
}

static void test_what_is_spelled_well_is_not_copied(void **context)
{
	static const char text[] = "/a/b.html/";
	struct arena arena = {0};
	struct slice out;

	(void)context;
	assert_int_equal(path_normalize(&arena, SLICE(text), &out), 0);
	assert_ptr_equal(out.data, text);
	assert_int_equal(path_fold(&arena, SLICE(text), &out), 0);
	assert_ptr_equal(out.data, text);
	assert_int_equal(arena.used, 0);
}

static void test_a_nul_is_a_byte_as_any_other(void **context)
{
	static const char text[] = "/A\0/../b";
	struct arena arena = {0};
	struct slice out;

	(void)context;
	assert_int_equal(path_fold(&arena, (struct slice){text, 3}, &out), 0);
	assert_memory_equal(out.data, "/a\0", 3);
	assert_int_equal(out.len, 3);
	assert_spelled(path_fold, SLICE(text), "/b");
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_dots_and_double_slashes_go),
	    cmocka_unit_test(test_escapes_are_undone_once),
	    cmocka_unit_test(test_variants_fold_to_one_spelling),
	    cmocka_unit_test(test_what_is_spelled_well_is_not_copied),
	    cmocka_unit_test(test_a_nul_is_a_byte_as_any_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
