#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../failing.h"
#include "base/map.h"

#define KEYS 64

struct value {
	uint64_t key;
	unsigned number;
};

static uint32_t draw(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

static void an_empty_map_has_no_value(void **state)
{
	struct map map = MAP_OF(struct value, 10);
	size_t at = 0;

	(void)state;
	assert_null(map_find(&map, 1));
	assert_null(map_next(&map, &at));
	map_free(&map);
}

static void the_key_0_is_one_of_the_keys(void **state)
{
	struct map map = MAP_OF(struct value, 10);

	(void)state;
	assert_null(map_find(&map, 0));
	assert_non_null(map_add(&map, 0));
	assert_ptr_equal(map_find(&map, 0), map_add(&map, 0));
	assert_int_equal(map.count, 1);
	map_free(&map);
}

/* A full map, and a map that can't grow, still have all their values. */
static void a_value_more_than_there_is_room_for_is_refused(void **state)
{
	struct map map = MAP_OF(struct value, 100);
	uint64_t added = 0;

	(void)state;
	failing = 1;
	assert_null(map_add(&map, 1));
	for (uint64_t key = 1; key <= 12; key++)
		assert_non_null(map_add(&map, key));
	failing = 1;
	assert_null(map_add(&map, 13));
	for (added = 12; map_add(&map, added + 1); added++)
		;
	assert_int_equal(added, 100);
	for (uint64_t key = 1; key <= 100; key++)
		assert_non_null(map_find(&map, key));
	map_free(&map);
	assert_null(map_find(&map, 1));
}

/* The keys share few places, so that most values stand behind their own. */
static uint64_t key_of(unsigned i)
{
	return (uint64_t)i << 32 | (i % 3 + 14);
}

static void assert_same(const struct map *map, const bool *in)
{
	size_t count = 0, at = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		const struct value *value = map_find(map, key_of(i));

		assert_int_equal(value != NULL, in[i]);
		if (value)
			assert_int_equal(value->number, i);
		count += in[i];
	}
	assert_int_equal(map->count, count);
	while (map_next(map, &at))
		count--;
	assert_int_equal(count, 0);
}

static void it_has_what_was_added_and_not_removed(void **state)
{
	struct map map = MAP_OF(struct value, SIZE_MAX);
	bool in[KEYS] = {0};
	uint32_t seed = 5;

	(void)state;
	for (int step = 0; step < 20000; step++) {
		unsigned i = draw(&seed) % (step % 2000 < 1000 ? KEYS : 12);
		struct value *value = map_find(&map, key_of(i));

		if (value) {
			map_remove(&map, value);
		} else {
			value = map_add(&map, key_of(i));
			assert_int_equal(value->number, 0);
			value->number = i;
		}
		in[i] = !in[i];
		assert_same(&map, in);
	}
	map_free(&map);
}

/* Also where the values of the last places stand in the first ones. */
static void all_are_seen_while_some_are_removed(void **state)
{
	(void)state;
	for (unsigned removed = 1; removed < 4; removed++) {
		struct map map = MAP_OF(struct value, SIZE_MAX);
		bool seen[KEYS] = {0};
		struct value *value;
		size_t at = 0;

		for (unsigned i = 0; i < 40; i++)
			((struct value *)map_add(&map, (uint64_t)i << 32 | (i % 4 ? 60 + i % 5 : i)))->number =
			    i;
		while ((value = map_next(&map, &at))) {
			seen[value->number] = true;
			if (value->number % 3 < removed) {
				map_remove(&map, value);
				at--;
			}
		}
		for (unsigned i = 0; i < 40; i++)
			assert_true(seen[i]);
		map_free(&map);
	}
}

static void texts_of_one_hash_are_told_apart(void **state)
{
	static const char *const texts[] = {"login", "api", "", "search"};
	struct named {
		struct map_text key;
		size_t number;
	};
	struct map map = MAP_OF(struct named, 3);

	(void)state;
	assert_null(map_find_text(&map, 7, SLICE("login")));
	for (size_t i = 0; i < 3; i++) {
		struct named *named = map_add_text(&map, i == 1 ? 8 : 7, slice_of(texts[i]));

		assert_non_null(named);
		assert_int_equal(named->number, 0);
		named->number = i + 1;
	}
	assert_null(map_add_text(&map, 7, slice_of(texts[3]))); /* full */
	for (size_t i = 0; i < 3; i++) {
		struct named *named = map_find_text(&map, i == 1 ? 8 : 7, slice_of(texts[i]));

		assert_non_null(named);
		assert_int_equal(named->number, i + 1);
		assert_ptr_equal(map_add_text(&map, i == 1 ? 8 : 7, slice_of(texts[i])), named);
	}
	assert_null(map_find_text(&map, 7, slice_of(texts[3])));
	map_free(&map);
}

/* The text of a later call may be freed while the value lives. */
static void a_text_that_is_found_again_keeps_its_own_bytes(void **state)
{
	static const char first[] = "login";
	char later[] = "login";
	struct map map = MAP_OF(struct map_text, SIZE_MAX);
	struct map_text *value = map_add_text(&map, 7, slice_of(first));

	(void)state;
	assert_ptr_equal(value->text.data, first);
	assert_ptr_equal(map_add_text(&map, 7, slice_of(later)), value);
	assert_ptr_equal(value->text.data, first);
	map_free(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_empty_map_has_no_value),
	    cmocka_unit_test(the_key_0_is_one_of_the_keys),
	    cmocka_unit_test(a_value_more_than_there_is_room_for_is_refused),
	    cmocka_unit_test(it_has_what_was_added_and_not_removed),
	    cmocka_unit_test(all_are_seen_while_some_are_removed),
	    cmocka_unit_test(texts_of_one_hash_are_told_apart),
	    cmocka_unit_test(a_text_that_is_found_again_keeps_its_own_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
