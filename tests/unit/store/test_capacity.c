/* From one key to a billion: the same code, in memory and in a file, taking what is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "base/number.h"
#include "base/os/os.h"
#include "path.h"

#define KEYS    1000 /* that are put into each at most */
#define QUOTA   2
#define BILLION UINT64_C(1000000000)

/*
 * A key may come to need a kilobyte of addresses. The thread sanitizer leaves 1.5 terabytes to the
 * program, and the system begins anywhere in the upper two thirds of them.
 */
#if defined(__SANITIZE_THREAD__)
#define LARGE (BILLION / 10)
#define MOST  LARGE
#else
#define LARGE BILLION
#define MOST  WEIR_CAPACITY_MAX
#endif

static weir_table *open_table(uint64_t capacity, const char *file)
{
	struct weir_error error = {0};
	weir_table *table;

	if (weir_table_open(&(struct weir_table_options){.capacity = capacity, .path = file}, &table,
	                    &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return table;
}

static weir_limit *open_limit(void)
{
	weir_limit *limit;

	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.rate = {QUOTA, 1, WEIR_UNIT_DAY}}, &limit,
	                    NULL),
	    WEIR_OK);
	return limit;
}

/* How many of the keys got another grant. */
static uint64_t take_each(weir_table *table, const weir_limit *limit, uint64_t keys)
{
	uint64_t granted = 0;

	for (uint64_t key = 0; key < keys; key++) {
		struct weir_decision d;

		assert_int_equal(
		    weir_acquire(table, limit, (struct weir_key){&key, sizeof key}, 1, WEIR_NOW, &d),
		    WEIR_OK);
		granted += d.allowed;
	}
	return granted;
}

static void use(uint64_t capacity, const char *file)
{
	/* A table filled to its capacity may evict one of thousands. */
	uint64_t keys = u64_min(ceil_div(capacity, 2), KEYS), before = os_usage().resident_bytes;
	weir_table *table = open_table(capacity, file);
	weir_limit *limit = open_limit();
	struct weir_table_stats stats;

	assert_int_equal(take_each(table, limit, keys), keys);
	if (file) {
		weir_table_close(table);
		table = open_table(0, file);
	}
	assert_int_equal(take_each(table, limit, keys), keys);
	assert_int_equal(take_each(table, limit, keys), 0);
	weir_table_stats(table, WEIR_NOW, &stats);
	assert_int_equal(stats.capacity, capacity);
	assert_true(stats.cells >= capacity);
	assert_int_equal(stats.evictions, 0);
	/* A key touches three pages at most; of a file the system reads more around each, and lets go. */
	if (capacity >= BILLION && !file)
		assert_in_range(os_usage().resident_bytes - before, 0, 64 << 20);
	weir_table_close(table);
	weir_limit_close(limit);
}

static void tables_of_all_sizes_work_in_memory(void **state)
{
	static const uint64_t sizes[] = {1, 1000, 10000000, LARGE, MOST};

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		use(sizes[i], NULL);
}

/* The file has its room on the disk; where there is none for a billion keys, it is left out. */
static void tables_of_all_sizes_work_in_a_file(void **state)
{
	static const uint64_t sizes[] = {1, 1000, 10000000, LARGE};
	struct statvfs disk;

	(void)state;
	assert_int_equal(statvfs("/tmp", &disk), 0);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		if (sizes[i] * 40 > disk.f_bavail * disk.f_frsize) {
			print_message("no room for a file of %llu keys\n", (unsigned long long)sizes[i]);
			continue;
		}
		use(sizes[i], path);
		assert_int_equal(unlink(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tables_of_all_sizes_work_in_memory),
	    cmocka_unit_test(tables_of_all_sizes_work_in_a_file),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
