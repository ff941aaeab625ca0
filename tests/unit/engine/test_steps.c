/* The wall's clock steps, by a second, an hour, a year: under a table, and between two openings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/plan/apply.h"
#include "engine/table.h"
#include "store/file.h"
#include "store/memory.h"

#define CAPACITY 100
#define NOW      UINT64_C(1700000000000000000)
#define HOUR     (3600 * NS_PER_S)
#define YEAR     (365 * NS_PER_DAY)
#define QUOTA    5
#define KINDS    (sizeof kinds / sizeof *kinds)

static const struct weir_limit_options kinds[] = {
    {.name = "token", .algorithm = WEIR_ALGORITHM_TOKEN_BUCKET, .rate = {QUOTA, 1, WEIR_UNIT_HOUR}},
    {.name = "leaky", .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {QUOTA, 1, WEIR_UNIT_HOUR}},
    {.name = "resetting",
     .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET,
     .rate = {QUOTA, 1, WEIR_UNIT_HOUR}},
    {.name = "first",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {QUOTA, 1, WEIR_UNIT_HOUR},
     .align = WEIR_ALIGN_FIRST_REQUEST},
    {.name = "calendar",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {QUOTA, 1, WEIR_UNIT_MONTH}},
};
static const uint64_t steps[] = {NS_PER_S, HOUR, YEAR};
static const uint64_t month_max = 31 * NS_PER_DAY;

static char directory[] = "/tmp/weir-steps-XXXXXX", path[64];
static weir_limit *limits[KINDS];

static bool by_calendar(size_t kind)
{
	return kinds[kind].rate.unit == WEIR_UNIT_MONTH;
}

static bool is_bucket(size_t kind)
{
	return kinds[kind].algorithm == WEIR_ALGORITHM_TOKEN_BUCKET ||
	       kinds[kind].algorithm == WEIR_ALGORITHM_LEAKY_BUCKET;
}

static int open_limits(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		if (weir_limit_open(&kinds[i], &limits[i], NULL) != WEIR_OK)
			return 1;
	return 0;
}

static int close_limits(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		weir_limit_close(limits[i]);
	unlink(path);
	return 0;
}

/* While running */

static unsigned granted_at(weir_table *table, size_t kind, struct moment at, struct weir_decision *d)
{
	const struct algo_limit *algo = &limits[kind]->algo;
	struct store_step step = {
	    .store = table->store, .limit = algo, .call = {ALGO_ACQUIRE, 1}, .at = at};
	unsigned granted = 0;

	assert_int_equal(store_admit(table->store, algo,
	                             store_hash(table->store, algo->identity, "k", 1), &step.key),
	                 WEIR_OK);
	for (int i = 0; i < 3 * QUOTA; i++) {
		engine_apply(limits[kind], step, d);
		granted += d->allowed;
	}
	return granted;
}

static void while_running_a_step_changes_calendar_windows_only(void **state)
{
	struct weir_decision d;
	weir_table *table;

	(void)state;
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 100}, &table, NULL),
	                 WEIR_OK);
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		for (size_t kind = 0; kind < KINDS; kind++) {
			uint64_t now = NOW + i * 10 * YEAR / 4, back_ns;

			assert_int_equal(granted_at(table, kind, (struct moment){now, now}, &d), QUOTA);
			back_ns = d.retry_after_ns;
			for (int round = 0; round < 3; round++) {
				/* Ahead, one quota of the window there, if it is another. */
				unsigned most = by_calendar(kind) && steps[i] >= back_ns ? QUOTA : 0;

				assert_int_equal(
				    granted_at(table, kind, (struct moment){now, now + steps[i]}, &d), most);
				/* And back: none, and no longer locked than to the end of the next window. */
				assert_int_equal(granted_at(table, kind, (struct moment){now, now}, &d), 0);
				assert_true(d.retry_after_ns <= (by_calendar(kind) ? 2 * month_max : back_ns));
				assert_int_equal(
				    granted_at(table, kind, (struct moment){now, now - steps[i]}, &d), 0);
			}
			now += by_calendar(kind) ? 2 * month_max : HOUR;
			assert_int_equal(granted_at(table, kind, (struct moment){now, now}, &d), QUOTA);
		}
	weir_table_close(table);
}

/* Between two openings */

enum since {
	SAME_BOOT,
	OTHER_BOOT,
	CLOCK_LOST, /* another boot, and what the file knew of its clock was not on the disk */
};

/*
 * The wall is real and stays, so all that was written under it is moved: to what
 * a wall would have left that has stepped `step_ns` ahead since then.
 */
static void step(int64_t step_ns, enum since since)
{
	struct table_header *header;
	struct table table;
	struct file_map map;
	int fd;

	assert_int_equal(file_open(path, FILE_SHARED, NULL, &fd, NULL), WEIR_OK);
	assert_int_equal(file_map(fd, path, FILE_SHARED, &map, NULL), WEIR_OK);
	close(fd);
	table_attach(&table, map.memory, table_sets(CAPACITY));
	header = table.header;
	header->clock.high -= (uint64_t)step_ns;
	header->recorded_ns -= (uint64_t)step_ns;
	if (since == CLOCK_LOST)
		header->recorded_ns = 0;
	if (since != SAME_BOOT)
		header->clock.low = 1;
	for (uint64_t i = 0; i < table.sets * TABLE_SET_CELLS; i++)
		if (!cell_is_empty(table.cells[i]))
			table.cells[i].high -= (uint64_t)step_ns << 4;
	os_pages_unmap(map.memory, map.size);
}

static weir_table *open_file(void)
{
	struct weir_table_options options = {.capacity = CAPACITY, .path = path};
	struct weir_error error;
	weir_table *table;

	if (weir_table_open(&options, &table, &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return table;
}

static weir_table *reopen(weir_table *table, int64_t step_ns, enum since since)
{
	weir_table_close(table);
	step(step_ns, since);
	return open_file();
}

static unsigned granted(weir_table *table, size_t kind, struct weir_decision *d)
{
	unsigned n = 0;

	for (int i = 0; i < 3 * QUOTA; i++) {
		assert_int_equal(
		    weir_acquire(table, limits[kind], (struct weir_key){"k", 1}, 1, WEIR_NOW, d), WEIR_OK);
		n += d->allowed;
	}
	return n;
}

/* The units that the time of a step of the clock refills. */
static unsigned refilled(size_t kind, uint64_t step_ns, uint64_t reset_after_ns)
{
	if (is_bucket(kind))
		return (unsigned)u64_min(QUOTA, step_ns * QUOTA / HOUR);
	return step_ns >= reset_after_ns ? QUOTA : 0;
}

static void denied(weir_table *table, size_t kind)
{
	struct weir_decision d;

	assert_int_equal(granted(table, kind, &d), 0);
	assert_true(d.retry_after_ns <= (by_calendar(kind) ? 2 * month_max : HOUR));
}

static void step_ahead_and_back(size_t kind, uint64_t step_ns, enum since since)
{
	weir_table *table = open_file();
	struct weir_decision d;
	unsigned more;

	assert_int_equal(granted(table, kind, &d), QUOTA);
	more = refilled(kind, step_ns, d.reset_after_ns);
	for (int round = 0; round < 3; round++) {
		table = reopen(table, (int64_t)step_ns, since);
		/* The file's own clock does not go back, so it goes ahead once. */
		assert_int_equal(granted(table, kind, &d), round == 0 || by_calendar(kind) ? more : 0);
		table = reopen(table, 0, since);
		denied(table, kind);
		table = reopen(table, -(int64_t)step_ns, since);
		denied(table, kind);
	}
	weir_table_close(table);
	unlink(path);
}

static void across_openings_steps_mint_nothing_backwards_and_a_burst_forwards(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		for (size_t kind = 0; kind < KINDS; kind++) {
			step_ahead_and_back(kind, steps[i], SAME_BOOT);
			step_ahead_and_back(kind, steps[i], OTHER_BOOT);
		}
}

/* The power went before the file's clock was on the disk, and the wall came up a year behind. */
static void a_state_of_a_clock_that_was_lost_is_cut_back_once(void **state)
{
	struct weir_decision d;
	weir_table *table;

	(void)state;
	for (size_t kind = 0; kind < KINDS; kind++) {
		table = open_file();
		assert_int_equal(granted(table, kind, &d), QUOTA);
		table = reopen(table, -(int64_t)YEAR, CLOCK_LOST);
		denied(table, kind);
		/* Written by that denial: when its time has come, no trace is left. */
		table = reopen(table, (int64_t)(by_calendar(kind) ? 2 * month_max : HOUR), SAME_BOOT);
		assert_int_equal(granted(table, kind, &d), QUOTA);
		weir_table_close(table);
		unlink(path);
	}
}

/* A process that crashes closes nothing. */
static void the_time_is_kept_in_the_file_while_it_is_read(void **state)
{
	weir_table *table = open_file();
	uint64_t *recorded_ns = &memory_of(table->store)->table.header->recorded_ns,
	         now_ns = clock_now(engine_clock(table));
	uint64_t end_ns = os_monotonic_ns() + 20 * NS_PER_S; /* of what would never end */
	struct weir_decision d;

	(void)state;
	*recorded_ns = now_ns - HOUR;
	while (*recorded_ns < now_ns && os_monotonic_ns() < end_ns)
		weir_acquire(table, limits[0], (struct weir_key){"k", 1}, 1, WEIR_NOW, &d);
	assert_true(*recorded_ns >= now_ns);
	weir_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(while_running_a_step_changes_calendar_windows_only),
	    cmocka_unit_test(across_openings_steps_mint_nothing_backwards_and_a_burst_forwards),
	    cmocka_unit_test(a_state_of_a_clock_that_was_lost_is_cut_back_once),
	    cmocka_unit_test(the_time_is_kept_in_the_file_while_it_is_read),
	};
	int failed;

	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof path, "%s/state", directory);
	failed = cmocka_run_group_tests(tests, open_limits, close_limits);
	return failed + (rmdir(directory) != 0);
}
