/*
 * A file whose headers somebody else changes while it is in use, and who may write to it.
 * Decisions and mappings follow the headers that were found when it was opened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/number.h"
#include "engine/table.h"
#include "path.h"
#include "store/file.h"
#include "store/memory.h"
#include "store/section.h"

#define NOW UINT64_C(1700000000000000000)

static const struct weir_limit_options options[] = {
    {.name = "bucket", .rate = {5, 1, WEIR_UNIT_HOUR}},
    {.name = "slots", .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5, 1, WEIR_UNIT_HOUR}},
    {.name = "log", .algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {5, 1, WEIR_UNIT_HOUR}},
    {.name = "long log", .algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {500, 1, WEIR_UNIT_HOUR}},
    {.name = "base", .algorithm = WEIR_ALGORITHM_BASE, .base = 3, .rate = {3, 1, WEIR_UNIT_HOUR}},
    {.name = "places", .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5},
};

#define LIMITS (sizeof options / sizeof *options)

/* Overwrites a header with one byte all over, or with a sound header of another table. */
static void fill(struct table_header *header, int pattern)
{
	struct section huge = {.identity = 7, .capacity = WEIR_CAPACITY_MAX, .record_cells = 10000};
	struct hash_key secret = {1, 2};

	memset(header, pattern, sizeof *header);
	if (pattern != 0)
		return;
	huge.size = section_size(huge.capacity, huge.record_cells);
	section_format(header, &huge, &secret);
	header->end = UINT64_MAX;
	header->evictions = header->claims = UINT64_MAX;
}

/* All headers of the file, as somebody who has it mapped. */
static void scribble(int pattern)
{
	struct section_walk walk = {0};
	struct file_map map;
	int fd;

	assert_int_equal(file_open(path, FILE_SHARED, NULL, &fd, NULL), WEIR_OK);
	assert_int_equal(file_map(fd, path, FILE_SHARED, &map, NULL), WEIR_OK);
	close(fd);
	for (unsigned n = 0;; n++) {
		section_read_header(&walk, map.memory, map.size);
		section_check_next(&walk, map.size, NULL, NULL);
		if (walk.is_over) {
			assert_int_equal(n, LIMITS); /* the first, and one for each but the bucket */
			break;
		}
		fill((void *)((char *)map.memory + walk.offset), pattern);
		walk.offset += walk.section.size;
	}
	os_pages_unmap(map.memory, map.size);
}

static uint64_t acquire(weir_table *table, const weir_limit *limit, const char *key)
{
	struct weir_decision d;

	assert_int_equal(weir_acquire(table, limit, (struct weir_key){key, strlen(key)}, 1, NOW, &d),
	                 WEIR_OK);
	assert_true(d.allowed);
	return d.quota - d.remaining;
}

static bool is_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		found |= strstr(line, path) != NULL;
	fclose(maps);
	return found;
}

static void use(int pattern)
{
	const struct weir_limit_options more = {
	    .name = "more", .algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {5, 1, WEIR_UNIT_HOUR}};
	weir_limit *limits[LIMITS], *later;
	struct weir_table_stats stats;
	weir_table *table;

	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 1000, .path = path}, &table, NULL),
	    WEIR_OK);
	assert_int_equal(weir_limit_open(&more, &later, NULL), WEIR_OK);
	for (size_t i = 0; i < LIMITS; i++) {
		assert_int_equal(weir_limit_open(&options[i], &limits[i], NULL), WEIR_OK);
		assert_int_equal(acquire(table, limits[i], "k"), 1);
	}
	scribble(pattern);
	for (size_t i = 0; i < LIMITS; i++) {
		assert_int_equal(acquire(table, limits[i], "k"), 2);
		assert_int_equal(acquire(table, limits[i], "new"), 1);
	}
	weir_table_stats(table, NOW, &stats);
	assert_int_equal(stats.capacity, 1000);
	assert_int_equal(acquire(table, later, "k"), 1); /* in a section that is added now */
	assert_int_equal(acquire(table, later, "k"), 2);
	assert_int_equal(weir_table_sync(table), WEIR_OK);
	assert_true(is_mapped());
	weir_table_close(table);
	assert_false(is_mapped());
	assert_int_equal(weir_table_open(&(struct weir_table_options){.path = path}, &table, NULL),
	                 WEIR_EINVAL);
	assert_false(is_mapped());
	weir_limit_close(later);
	for (size_t i = 0; i < LIMITS; i++)
		weir_limit_close(limits[i]);
}

static void what_headers_say_later_is_not_gone_by(void **state)
{
	static const int patterns[] = {0x00, 0x55, 0xff};

	(void)state;
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		use(patterns[i]);
		unlink(path);
	}
}

/* A sound header that is damaged later, of a section that another process counts in. */
static void what_others_use_is_not_written_over(void **state)
{
	const struct weir_table_options shared = {.capacity = 1000, .path = path};
	weir_table *first, *second;
	weir_limit *slots, *log;
	struct weir_error error = {0};
	struct weir_decision d;
	struct section_walk walk = {0};
	struct file_map map;
	int fd;

	(void)state;
	assert_int_equal(weir_limit_open(&options[1], &slots, NULL), WEIR_OK);
	assert_int_equal(weir_limit_open(&options[2], &log, NULL), WEIR_OK);
	assert_int_equal(weir_table_open(&shared, &first, NULL), WEIR_OK);
	assert_int_equal(weir_table_open(&shared, &second, NULL), WEIR_OK);
	assert_int_equal(acquire(first, slots, "k"), 1);

	assert_int_equal(file_open(path, FILE_SHARED, NULL, &fd, NULL), WEIR_OK);
	assert_int_equal(file_map(fd, path, FILE_SHARED, &map, NULL), WEIR_OK);
	close(fd);
	section_read_header(&walk, map.memory, map.size);
	section_check_next(&walk, map.size, NULL, NULL);
	((char *)map.memory)[walk.section.size] ^= 1;

	assert_int_equal(weir_table_reserve(second, log, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.message, "section at byte "));
	assert_int_equal(weir_acquire(second, log, (struct weir_key){"k", 1}, 1, NOW, &d), WEIR_EINVAL);
	assert_int_equal(acquire(first, slots, "k"), 2);

	os_pages_unmap(map.memory, map.size);
	weir_table_close(second);
	weir_table_close(first);
	weir_limit_close(log);
	weir_limit_close(slots);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_headers_say_later_is_not_gone_by),
	    cmocka_unit_test(what_others_use_is_not_written_over),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
