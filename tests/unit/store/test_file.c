/* A table in a file: which files are refused, which states last, and how processes share it. */
#include <linux/magic.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/number.h"
#include "engine/table.h"
#include "store/file.h"
#include "store/memory.h"
#include "store/section.h"

#define NOW       UINT64_C(1700000000000000000)
#define QUOTA     50
#define PROCESSES 4
#define KEYS      2000 /* one byte each goes through a pipe whole */

static char directory[] = "/tmp/weir-file-XXXXXX", path[64];

static int setup(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static weir_table *open_with(uint64_t capacity, const char *secret)
{
	struct weir_table_options options = {
	    .capacity = capacity, .secret = (const uint8_t *)secret, .path = path};
	struct weir_error error = {0};
	weir_table *table;

	if (weir_table_open(&options, &table, &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return table;
}

static void refused(const struct weir_table_options *options, int status, const char *message)
{
	struct weir_error error = {0};
	weir_table *table;

	assert_int_equal(weir_table_open(options, &table, &error), status);
	assert_null(table);
	if (!strstr(error.message, message))
		fail_msg("expected '%s', found '%s'", message, error.message);
}

static weir_limit *open_limit(void)
{
	weir_limit *limit;

	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.rate = {QUOTA, 1, WEIR_UNIT_HOUR}}, &limit,
	                    NULL),
	    WEIR_OK);
	return limit;
}

static void change(long offset, const void *bytes, size_t len)
{
	FILE *file = fopen(path, "r+b");

	assert_int_equal(fseek(file, offset, SEEK_SET), 0);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	fclose(file);
}

static void a_file_keeps_capacity_secret_and_counts(void **state)
{
	struct weir_table_options other = {.capacity = 999, .path = path};
	struct weir_table_stats stats;
	weir_limit *limit = open_limit();
	weir_table *table = open_with(1000, "sixteen bytes ok");
	struct weir_decision d;
	struct stat stat_;

	(void)state;
	assert_int_equal(weir_acquire(table, limit, (struct weir_key){"a", 1}, 20, NOW, &d), WEIR_OK);
	weir_table_close(table);
	assert_int_equal(stat(path, &stat_), 0);
	assert_int_equal(stat_.st_mode & 07777, 0600);
	assert_int_equal(stat_.st_nlink, 1);
	table = open_with(0, NULL);
	weir_table_stats(table, NOW, &stats);
	assert_int_equal(stats.capacity, 1000);
	assert_int_equal(weir_peek(table, limit, (struct weir_key){"a", 1}, 1, NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, 30);
	weir_table_close(table);
	refused(&other, WEIR_EINVAL, "capacity: expected 999, found 1000 in the file: ");
	other.capacity = 1000;
	other.secret = (const uint8_t *)"another sixteen.";
	refused(&other, WEIR_EINVAL, "secret: expected the configured one, found another");
	weir_table_close(open_with(1000, "sixteen bytes ok"));
	weir_limit_close(limit);
}

#define SIZE (sizeof(struct table_header) + 160 * 128) /* of one-word states, 1,000 keys */

static void read_all(uint8_t bytes[SIZE])
{
	FILE *file = fopen(path, "rb");

	assert_int_equal(fread(bytes, 1, SIZE, file), SIZE);
	fclose(file);
}

static void what_is_no_table_is_refused_and_left_as_it_is(void **state)
{
	static const struct {
		size_t offset;
		uint64_t value;
		const char *message;
	} bad[] = {
	    {offsetof(struct table_header, magic), 7, "magic: expected WEIRTBL, found other bytes"},
	    {offsetof(struct table_header, byte_order), UINT64_C(0x104030201),
	     "byte order: expected 01020304, found 04030201"},
	    {offsetof(struct table_header, version), 3,
	     "version: expected 5, found 3, made by another release of weir: use that one, or "
	     "remove the file and begin with empty counts"},
	    {offsetof(struct table_header, header_size), 64, "header size: expected 8192, found 64"},
	    {offsetof(struct table_header, cell_size), 24, "cell size: expected 16, found 24"},
	    {offsetof(struct table_header, set_cells), 4, "cells per set: expected 8, found 4"},
	    {offsetof(struct table_header, is_draining), 2, "keys that stay: expected 0 or 1, found 2"},
	    {offsetof(struct table_header, capacity), 0, "capacity: expected 1 to 4294967296 keys"},
	    {offsetof(struct table_header, capacity), 9999, "sets: expected 1598, found 160"},
	    {offsetof(struct table_header, capacity), UINT64_C(1) << 33, "found 8589934592"},
	    {offsetof(struct table_header, sets), 5, "sets: expected 160, found 5"},
	    {offsetof(struct table_header, record_cells), 1, "checksum: expected "},
	    {offsetof(struct table_header, identity), 1, "checksum: expected "},
	    {offsetof(struct table_header, size), 1, "checksum: expected "},
	    {offsetof(struct table_header, secret), 1, "checksum: expected "},
	    {offsetof(struct table_header, secret) + 8, 1, "checksum: expected "},
	    {offsetof(struct table_header, checksum), 1, "checksum: expected "},
	    {offsetof(struct table_header, fixed_copy), 1, "copy of the header: expected the same"},
	    {offsetof(struct table_header, checksum_copy), 1, "copy of the header: expected the same"},
	    {offsetof(struct table_header, reserved), 1, "reserved: expected zeros, found other"},
	    {offsetof(struct table_header, evictions) + 8, 1, "reserved: expected zeros, found other"},
	};
	struct weir_table_options options = {.path = path};
	uint8_t whole[SIZE], damaged[SIZE], left[SIZE];

	(void)state;
	weir_table_close(open_with(1000, NULL));
	read_all(whole);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		/* Four bytes where the field has four. */
		change((long)bad[i].offset, &bad[i].value,
		       bad[i].offset >= offsetof(struct table_header, capacity) || i == 0 ? 8 : 4);
		read_all(damaged);
		refused(&options, WEIR_EINVAL, bad[i].message);
		read_all(left);
		assert_memory_equal(left, damaged, SIZE);
		change(0, whole, SIZE);
	}
	weir_table_close(open_with(1000, NULL));
	assert_int_equal(truncate(path, 0), 0);
	refused(&options, WEIR_EINVAL, "size: expected a header of 8192 bytes, found 0");
	options.path = "/dev/null";
	refused(&options, WEIR_EINVAL, "/dev/null: expected a regular file");
	options.path = directory;
	refused(&options, WEIR_EIO, "cannot open it");
	options.path = "/nowhere/at/all";
	refused(&options, WEIR_EIO, "/nowhere/at/all: cannot make it: No such file");
}

#define FIRST 28672 /* bytes, of one-word states */

/* A sliding window of 10 slots has a section behind them. */
static size_t reserve_window(uint64_t keys)
{
	struct weir_limit_options options = {.name = "window",
	                                     .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
	                                     .rate = {5, 1, WEIR_UNIT_HOUR},
	                                     .keys = keys};
	weir_table *table = open_with(1000, NULL);
	struct stat stat_;
	weir_limit *limit;

	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(table, limit, NULL), WEIR_OK);
	weir_limit_close(limit);
	weir_table_close(table);
	assert_int_equal(stat(path, &stat_), 0);
	return (size_t)stat_.st_size - FIRST;
}

static void a_section_that_is_not_sound_is_refused_with_where_it_is(void **state)
{
	struct weir_table_options options = {.path = path};
	size_t size;
	char message[100];

	(void)state;
	assert_int_equal(section_size(1000, 0), FIRST);
	size = FIRST + reserve_window(0);
	change(FIRST + offsetof(struct table_header, capacity), &(uint64_t){100}, 8);
	refused(&options, WEIR_EINVAL, "section at byte 28672: sets: expected 18, found 160");
	change(FIRST + offsetof(struct table_header, capacity), &(uint64_t){1000}, 8);
	weir_table_close(open_with(1000, NULL));
	change(FIRST, (char[64]){0}, 64);
	refused(&options, WEIR_EINVAL, "section at byte 28672: magic: expected WEIRTBL");
	assert_int_equal(truncate(path, FIRST), 0);
	refused(&options, WEIR_EINVAL, "section at byte 28672: magic: expected WEIRTBL");
	unlink(path);
	reserve_window(0);
	assert_int_equal(truncate(path, (off_t)size - 1), 0);
	snprintf(message, sizeof message,
	         "section at byte 28672: size: expected a file of at least %zu bytes, found %zu", size,
	         size - 1);
	refused(&options, WEIR_EINVAL, message);
}

/* As whoever died while it was made leaves it: nothing counts in it yet. */
static void a_section_that_was_not_finished_is_made_anew(void **state)
{
	static const long ends[] = {FIRST + 1, FIRST + 5000, FIRST + 70000, 1 << 20};
	size_t size = section_size(1000, 12);

	(void)state;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		setup(state);
		weir_table_close(open_with(1000, NULL));
		change(ends[i] - 1, "x", 1);
		assert_int_equal(reserve_window(0), size);
		assert_int_equal(reserve_window(0), size);
	}
}

/* Anybody could have put such a file there, or could change it meanwhile. */
static void a_file_that_others_could_write_is_refused_and_left_as_it_is(void **state)
{
	static const struct {
		mode_t mode;
		const char *message;
	} bad[] = {
	    {0666, "mode: expected no right to write for others, found 0666"},
	    {0602, "mode: expected no right to write for others, found 0602"},
	    {0660, "mode: expected no right to write for group "},
	    {0620, "found 0620"},
	};
	struct weir_table_options options = {.path = path};
	char aside[80];
	struct stat stat_;

	(void)state;
	weir_table_close(open_with(1000, NULL));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(chmod(path, bad[i].mode), 0);
		refused(&options, WEIR_EINVAL, bad[i].message);
		assert_int_equal(stat(path, &stat_), 0);
		assert_int_equal(stat_.st_mode & 07777, bad[i].mode);
	}
	assert_int_equal(chmod(path, 0644), 0); /* to read it harms no count */
	weir_table_close(open_with(1000, NULL));
	snprintf(aside, sizeof aside, "%s.aside", path);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(aside, path), 0);
	refused(&options, WEIR_EINVAL, "expected a regular file, found a symbolic link");
	assert_int_equal(unlink(aside), 0);
	refused(&options, WEIR_EINVAL, "expected a regular file, found a symbolic link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* with nobody at its other end */
	refused(&options, WEIR_EINVAL, "expected a regular file, found another kind");
}

static void a_group_may_write_a_file_that_was_made_for_it(void **state)
{
	struct weir_table_options options = {.path = path, .group = getegid() ? getegid() : 1};
	struct weir_table_options other = {.path = path, .group = options.group + 1};
	struct stat stat_;
	weir_table *table;

	(void)state;
	assert_int_equal(weir_table_open(&options, &table, NULL), WEIR_OK);
	weir_table_close(table);
	assert_int_equal(stat(path, &stat_), 0);
	assert_int_equal(stat_.st_mode & 07777, 0660);
	assert_int_equal(stat_.st_gid, options.group);
	assert_int_equal(weir_table_open(&options, &table, NULL), WEIR_OK);
	weir_table_close(table);
	refused(&other, WEIR_EINVAL, "mode: expected no right to write for group ");
	other.group = 0;
	refused(&other, WEIR_EINVAL, "mode: expected no right to write for group ");
	assert_int_equal(chmod(path, 0662), 0);
	refused(&options, WEIR_EINVAL, "mode: expected no right to write for others, found 0662");
	other = (struct weir_table_options){.path = path, .group = UINT64_C(1) << 32};
	refused(&other, WEIR_ERANGE, "owner, group: expected numbers of users and groups");
	other = (struct weir_table_options){.path = path, .owner = UINT32_MAX};
	refused(&other, WEIR_ERANGE, "owner, group: expected numbers of users and groups");
}

/* Waits for all processes, for the `n`th time. */
static void meet(unsigned *arrived, unsigned n)
{
	__atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < n * PROCESSES)
		sched_yield();
}

/* All open the file at the moment when there is none, then begin together. */
static void acquire_all(unsigned *arrived, int to, unsigned keys, unsigned rounds)
{
	uint8_t granted[KEYS] = {0};
	weir_limit *limit = open_limit();
	struct weir_decision d;
	weir_table *table;
	char key[16];

	meet(arrived, 1);
	table = open_with(2 * KEYS, NULL);
	meet(arrived, 2);
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned k = 0; k < keys; k++) {
			int len = snprintf(key, sizeof key, "key%u", k);

			if (weir_acquire(table, limit, (struct weir_key){key, (size_t)len}, 1, NOW, &d) !=
			    WEIR_OK)
				_exit(1);
			granted[k] += d.allowed;
		}
	_exit(write(to, granted, sizeof granted) != sizeof granted);
}

static void processes_get_exactly_the_limit(unsigned keys, unsigned rounds)
{
	unsigned *arrived = mmap(NULL, sizeof *arrived, PROT_READ | PROT_WRITE,
	                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned total[KEYS] = {0};
	uint8_t granted[KEYS];
	int result[2], status;

	unlink(path);
	assert_ptr_not_equal(arrived, MAP_FAILED);
	assert_int_equal(pipe(result), 0);
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			acquire_all(arrived, result[1], keys, rounds);
	for (int i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(read(result[0], granted, sizeof granted), sizeof granted);
		for (unsigned k = 0; k < keys; k++)
			total[k] += granted[k];
	}
	close(result[0]);
	close(result[1]);
	munmap(arrived, sizeof *arrived);
	for (unsigned k = 0; k < keys; k++)
		assert_int_equal(total[k], QUOTA);
}

static void processes_that_make_one_file_share_a_key_exactly(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		processes_get_exactly_the_limit(1, 500);
}

static void processes_on_keys_never_seen_get_exactly_the_limit(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) /* the first two requests of a key must meet */
		processes_get_exactly_the_limit(KEYS, QUOTA / PROCESSES + 1);
}

/* Claims that are alike would let two processes commit on one. */
static void a_child_of_a_fork_makes_claims_of_its_own(void **state)
{
	weir_table *table = open_with(1000, NULL);
	weir_limit *limit = open_limit();
	struct weir_decision d;
	int status;

	(void)state;
	weir_acquire(table, limit, (struct weir_key){"parent", 6}, 1, NOW, &d);
	if (fork() == 0)
		_exit(weir_acquire(table, limit, (struct weir_key){"child", 5}, 1, NOW, &d));
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
	weir_acquire(table, limit, (struct weir_key){"parent again", 12}, 1, NOW, &d);
	assert_int_equal(memory_of(table->store)->table.header->claims, 3);
	assert_int_equal(weir_peek(table, limit, (struct weir_key){"child", 5}, 1, NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, QUOTA - 1);
	weir_table_close(table);
	weir_limit_close(limit);
}

/* Kilobytes of our mapping of the file that are not on its disk, or -1 if unknown. */
static long dirty_kb(const weir_table *table)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[512], start[32];
	bool ours = false;
	long kb, sum = -1;

	snprintf(start, sizeof start, "%lx-", (unsigned long)memory_of(table->store)->table.header);
	while (maps && fgets(line, sizeof line, maps)) {
		if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
			ours = strncmp(line, start, strlen(start)) == 0;
		if (ours && (sscanf(line, "Shared_Dirty: %ld", &kb) == 1 ||
		             sscanf(line, "Private_Dirty: %ld", &kb) == 1))
			sum = kb + (sum > 0 ? sum : 0);
	}
	if (maps)
		fclose(maps);
	return sum;
}

static void a_sync_writes_everything_out(void **state)
{
	weir_table *table = open_with(10000, NULL);
	weir_limit *limit = open_limit();
	struct weir_decision d;
	struct statfs system;
	uint64_t recorded_ns;
	char key[16];

	(void)state;
	assert_int_equal(weir_table_sync(table), WEIR_OK);
	recorded_ns = memory_of(table->store)->table.header->recorded_ns;
	for (int i = 0; i < 1000; i++)
		weir_acquire(table, limit,
		             (struct weir_key){key, (size_t)snprintf(key, sizeof key, "%d", i)}, 1, NOW,
		             &d);
	assert_int_not_equal(dirty_kb(table), 0);
	assert_int_equal(weir_table_sync(table), WEIR_OK);
	assert_true(memory_of(table->store)->table.header->recorded_ns > recorded_ns);
	assert_int_equal(statfs(path, &system), 0);
	if (system.f_type != TMPFS_MAGIC) /* which has no disk to write to */
		assert_int_equal(dirty_kb(table), 0);
	weir_table_close(table);
	weir_limit_close(limit);
}

/* The wall stepped back while nobody had the file open, in one boot or over the next. */
static void a_clock_never_goes_back(void **state)
{
	uint64_t hour = 3600 * NS_PER_S, other_boot = 1, before;
	weir_limit *limit = open_limit();
	weir_table *table = open_with(1000, NULL);
	struct weir_decision d;

	(void)state;
	for (int boots = 0; boots < 2; boots++) {
		struct cell clock = memory_of(table->store)->table.header->clock;

		/* As if a wall clock an hour ahead had been here. */
		clock.high += hour;
		weir_table_close(table);
		change(offsetof(struct table_header, clock), &clock, sizeof clock);
		table = open_with(0, NULL);
		before = clock_now(engine_clock(table));
		assert_true(before > os_wall_ns() + hour / 2);
		assert_int_equal(
		    weir_acquire(table, limit, (struct weir_key){"a", 1}, QUOTA / 2, WEIR_NOW, &d),
		    WEIR_OK);
		assert_int_equal(d.allowed, true);
		assert_int_equal(weir_reset(table, limit, (struct weir_key){"a", 1}, WEIR_NOW, &d),
		                 WEIR_OK);
		weir_table_close(table);
		if (boots == 1)
			change(offsetof(struct table_header, clock), &other_boot, sizeof other_boot);
		table = open_with(0, NULL);
		assert_true(clock_now(engine_clock(table)) >= before);
		assert_true(clock_now(engine_clock(table)) < before + hour / 2);
	}
	weir_table_close(table);
	weir_limit_close(limit);
}

static bool boot_is_hidden;

FILE *__real_fopen64(const char *name, const char *mode);
FILE *__wrap_fopen64(const char *name, const char *mode);

/* Every fopen here and in the library. */
FILE *__wrap_fopen64(const char *name, const char *mode)
{
	bool hidden = boot_is_hidden && strcmp(name, "/proc/sys/kernel/random/boot_id") == 0;

	return hidden ? NULL : __real_fopen64(name, mode);
}

/* As a sandbox may hide it. A later process still has the clock of those that were first. */
static void who_does_not_know_the_boot_leaves_the_clock_to_those_that_do(void **state)
{
	weir_table *first = open_with(1000, NULL), *second;
	struct cell clock = memory_of(first->store)->table.header->clock;

	(void)state;
	assert_int_equal(clock.low, os_boot_id());
	boot_is_hidden = true;
	assert_int_equal(os_boot_id(), 0);
	second = open_with(0, NULL);
	boot_is_hidden = false;
	assert_memory_equal(&memory_of(first->store)->table.header->clock, &clock, sizeof clock);
	assert_true(clock_now(engine_clock(second)) >= clock_now(engine_clock(first)) - NS_PER_MS);
	weir_table_close(second);
	weir_table_close(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(a_file_keeps_capacity_secret_and_counts, setup),
	    cmocka_unit_test_setup(what_is_no_table_is_refused_and_left_as_it_is, setup),
	    cmocka_unit_test_setup(a_section_that_is_not_sound_is_refused_with_where_it_is, setup),
	    cmocka_unit_test_setup(a_section_that_was_not_finished_is_made_anew, setup),
	    cmocka_unit_test_setup(a_file_that_others_could_write_is_refused_and_left_as_it_is, setup),
	    cmocka_unit_test_setup(a_group_may_write_a_file_that_was_made_for_it, setup),
	    cmocka_unit_test_setup(processes_that_make_one_file_share_a_key_exactly, setup),
	    cmocka_unit_test_setup(processes_on_keys_never_seen_get_exactly_the_limit, setup),
	    cmocka_unit_test_setup(a_child_of_a_fork_makes_claims_of_its_own, setup),
	    cmocka_unit_test_setup(a_sync_writes_everything_out, setup),
	    cmocka_unit_test_setup(a_clock_never_goes_back, setup),
	    cmocka_unit_test_setup(who_does_not_know_the_boot_leaves_the_clock_to_those_that_do, setup),
	};
	int failed;

	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof path, "%s/state", directory);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed + (rmdir(directory) != 0); /* nothing else is left there */
}
