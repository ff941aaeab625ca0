/* Tests that a permit's text is read as it was written, under the same secret alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/requests/permit_text.h"

static const struct hash_key secret = {1, 2}, other = {1, 3};

static struct weir_permits of(size_t n, uint64_t id)
{
	struct weir_permits permits = {.id = id, .cost = 3, .count = n};

	for (size_t i = 0; i < n; i++)
		permits.charges[i] = (struct weir_charge){7, 0xabcdef + i, UINT64_MAX - i};
	return permits;
}

static const struct engine_names no_names;

static bool is_read(const char *text, size_t len)
{
	struct weir_permits found;
	struct engine_names names;
	struct arena arena = {0};
	bool is = permit_text_read((struct slice){text, len}, &secret, &arena, &found, &names);

	arena_free(&arena);
	return is;
}

static void a_written_permit_is_read(void **state)
{
	struct arena arena = {0};

	(void)state;
	for (size_t n = 1; n <= WEIR_PERMITS_MAX; n++) {
		struct weir_permits permits = of(n, n * 99), found;
		struct engine_names names;
		struct slice text = permit_text_write(&permits, &no_names, &secret, &arena);

		assert_non_null(text.data);
		assert_int_equal(text.len, ((4 + 3 * n) * 64 + 5) / 6);
		assert_true(permit_text_read(text, &secret, &arena, &found, &names));
		assert_memory_equal(&found, &permits, sizeof permits);
		assert_memory_equal(&names, &no_names, sizeof names);
		assert_false(permit_text_read(text, &other, &arena, &found, &names));
	}
	arena_free(&arena);
}

/*
 * No name, an empty name, and lengths that need their second byte. Names beyond the space are
 * omitted.
 */
static void names_of_keys_are_read_as_they_were_written(void **state)
{
	static const size_t lengths[] = {0, 1, 255, 256, 3000, PERMIT_NAMES_MAX - 3000 - 512 + 1, 0, 7};
	size_t n = sizeof lengths / sizeof *lengths;
	struct weir_permits permits = of(n, 99), found;
	struct engine_names names = {0}, read;
	struct arena arena = {0};
	char key[PERMIT_NAMES_MAX];
	struct slice text;

	(void)state;
	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (char)(i * 7);
	for (size_t i = 0; i < n; i++)
		names.key_names[i] = (struct slice){i == 6 ? NULL : key + i, lengths[i]};
	text = permit_text_write(&permits, &names, &secret, &arena);
	assert_true(permit_text_read(text, &secret, &arena, &found, &read));
	assert_false(permit_text_read(text, &other, &arena, &found, &read));
	assert_true(permit_text_read(text, &secret, &arena, &found, &read));
	assert_memory_equal(&found, &permits, sizeof permits);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(read.key_names[i].data != NULL, i != 5 && i != 6);
		assert_true(i == 5 || slice_equal(read.key_names[i], names.key_names[i]));
	}
	arena_free(&arena);
}

/* Changes every character to every other, and tries every prefix and every additional character. */
static void a_forged_permit_is_refused(void **state)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ ";
	struct weir_permits permits = of(2, 5);
	struct arena arena = {0};
	struct slice text;
	char copy[200];

	(void)state;
	text = permit_text_write(&permits, &no_names, &secret, &arena);
	for (size_t i = 0; i < text.len; i++) {
		for (const char *digit = digits; *digit; digit++) {
			memcpy(copy, text.data, text.len);
			if (copy[i] == *digit)
				continue;
			copy[i] = *digit;
			assert_false(is_read(copy, text.len));
		}
		assert_false(is_read(text.data, i));
	}
	for (const char *digit = digits; *digit; digit++) {
		memcpy(copy, text.data, text.len);
		copy[text.len] = *digit;
		assert_false(is_read(copy, text.len + 1));
	}
	arena_free(&arena);
}

static void a_text_of_any_length_is_not_overrun(void **state)
{
	char text[8000];

	(void)state;
	memset(text, 'A', sizeof text);
	for (size_t len = 0; len <= sizeof text; len += len < 2000 ? 1 : 100)
		assert_false(is_read(text, len));
}

/* No word in the texts may show that two permits have the same key. */
static void permits_of_one_key_have_nothing_in_common(void **state)
{
	struct weir_permits permits = of(2, 1);
	struct arena arena = {0};
	struct slice a, b;
	unsigned same = 0;

	(void)state;
	permits.charges[1] = permits.charges[0];
	a = permit_text_write(&permits, &no_names, &secret, &arena);
	permits.id = 2;
	b = permit_text_write(&permits, &no_names, &secret, &arena);
	for (size_t i = 0; i < a.len; i++)
		same += a.data[i] == b.data[i];
	assert_in_range(same, 0, 12); /* of 107 characters, one in 64 is equal by chance */
	assert_memory_not_equal(a.data + 43, a.data + 43 + 32, 31);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_written_permit_is_read),
	    cmocka_unit_test(names_of_keys_are_read_as_they_were_written),
	    cmocka_unit_test(a_forged_permit_is_refused),
	    cmocka_unit_test(a_text_of_any_length_is_not_overrun),
	    cmocka_unit_test(permits_of_one_key_have_nothing_in_common),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
