/* The text of a permit: read by who wrote it, as it was written, and by nobody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/permit_text.h"

static const struct hash_key secret = {1, 2}, other = {1, 3};

static void fill(struct engine_taken *taken, size_t n, uint64_t permit)
{
	for (size_t i = 0; i < n; i++)
		taken[i] = (struct engine_taken){7, 0xabcdef + i, UINT64_MAX - i, 3, permit};
}

static void what_is_written_is_read(void **state)
{
	struct arena arena = {0};

	(void)state;
	for (size_t n = 1; n <= PERMIT_TEXT_CHARGES; n++) {
		struct engine_taken taken[PERMIT_TEXT_CHARGES], found[PERMIT_TEXT_CHARGES];
		struct slice text;

		fill(taken, n, n * 99);
		text = permit_text_write(taken, n, &secret, &arena);
		assert_non_null(text.data);
		assert_int_equal(text.len, ((3 + 4 * n) * 64 + 5) / 6);
		assert_int_equal(permit_text_read(text, &secret, found), n);
		assert_memory_equal(found, taken, n * sizeof *taken);
		assert_int_equal(permit_text_read(text, &other, found), 0);
	}
	arena_free(&arena);
}

/* Every character changed to every other, every prefix, every character more. */
static void forged_permit(void **state)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ ";
	struct engine_taken taken[2], found[PERMIT_TEXT_CHARGES];
	struct arena arena = {0};
	struct slice text;
	char copy[200];

	(void)state;
	fill(taken, 2, 5);
	text = permit_text_write(taken, 2, &secret, &arena);
	for (size_t i = 0; i < text.len; i++) {
		for (const char *digit = digits; *digit; digit++) {
			memcpy(copy, text.data, text.len);
			if (copy[i] == *digit)
				continue;
			copy[i] = *digit;
			assert_int_equal(permit_text_read((struct slice){copy, text.len}, &secret, found), 0);
		}
		assert_int_equal(permit_text_read((struct slice){text.data, i}, &secret, found), 0);
	}
	for (const char *digit = digits; *digit; digit++) {
		memcpy(copy, text.data, text.len);
		copy[text.len] = *digit;
		assert_int_equal(permit_text_read((struct slice){copy, text.len + 1}, &secret, found), 0);
	}
	arena_free(&arena);
}

static void a_text_of_any_length_is_only_looked_at(void **state)
{
	struct engine_taken found[PERMIT_TEXT_CHARGES];
	char text[2000];

	(void)state;
	memset(text, 'A', sizeof text);
	for (size_t len = 0; len <= sizeof text; len++)
		assert_int_equal(permit_text_read((struct slice){text, len}, &secret, found), 0);
}

/* Permits of one key must not tell that they are, by any word that they share. */
static void permits_of_one_key_have_nothing_in_common(void **state)
{
	struct engine_taken taken[2];
	struct arena arena = {0};
	struct slice a, b;
	unsigned same = 0;

	(void)state;
	fill(taken, 2, 1);
	taken[1] = taken[0];
	a = permit_text_write(taken, 2, &secret, &arena);
	fill(taken, 2, 2);
	taken[1] = taken[0];
	b = permit_text_write(taken, 2, &secret, &arena);
	for (size_t i = 0; i < a.len; i++)
		same += a.data[i] == b.data[i];
	assert_in_range(same, 0, 12); /* of 118 one in 64 is, by chance */
	assert_memory_not_equal(a.data + 32, a.data + 32 + 43, 32);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(forged_permit),
	    cmocka_unit_test(a_text_of_any_length_is_only_looked_at),
	    cmocka_unit_test(permits_of_one_key_have_nothing_in_common),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
