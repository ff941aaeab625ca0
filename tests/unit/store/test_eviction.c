/* Tests which keys are evicted for new ones: keys of the same limit, and never those of another. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "path.h"

#define NOW    UINT64_C(1700000000000000000)
#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)

static weir_table *table;

static weir_table *open_with(uint64_t capacity, const char *file)
{
	/* The secret is fixed, so the same keys meet, and the same find no room, each time. */
	struct weir_table_options options = {
	    .capacity = capacity, .secret = (const uint8_t *)"sixteen bytes ok", .path = file};
	struct weir_error error = {0};
	weir_table *opened;

	if (weir_table_open(&options, &opened, &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return opened;
}

/* As small as tables of wide records are by default: 40 keys. */
static int open_small(void **state)
{
	(void)state;
	table = open_with(40, NULL);
	return 0;
}

static int close_small(void **state)
{
	(void)state;
	weir_table_close(table);
	return 0;
}

static weir_limit *open_limit(struct weir_limit_options options)
{
	struct weir_error error = {0};
	weir_limit *limit;

	if (weir_limit_open(&options, &limit, &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return limit;
}

static weir_limit *places(const char *name, uint64_t max, uint64_t keys)
{
	return open_limit((struct weir_limit_options){
	    .name = name, .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = max, .keys = keys});
}

static struct weir_decision ask(const weir_limit *limit, uint64_t key, uint64_t cost,
                                uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(
	    weir_acquire(table, limit, (struct weir_key){&key, sizeof key}, cost, now_ns, &d), WEIR_OK);
	return d;
}

/* How many of `n` keys, from `first` on, are denied one each. */
static uint64_t denied(const weir_limit *limit, uint64_t first, uint64_t n, uint64_t now_ns)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += !ask(limit, first + i, 1, now_ns + i).allowed;
	return sum;
}

static uint64_t evictions(void)
{
	struct weir_table_stats stats;

	weir_table_stats(table, NOW, &stats);
	return stats.evictions;
}

/* ---- an offender among strangers ---- */

static const struct weir_limit_options sliding[] = {
    {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {20, 1, WEIR_UNIT_HOUR}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {100, 1, WEIR_UNIT_HOUR}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {2000, 1, WEIR_UNIT_HOUR}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {100, 1, WEIR_UNIT_HOUR}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {100000, 1, WEIR_UNIT_HOUR}},
    {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {100, 1, WEIR_UNIT_HOUR}, .slots = 1000},
    {.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {100, 1, WEIR_UNIT_HOUR}},
    {.algorithm = WEIR_ALGORITHM_BASE, .base = 10, .rate = {90, 1, WEIR_UNIT_HOUR}},
};

/* Entries of strangers are newer, and so end later. The use that a key would get back decides. */
static void fresh_keys_give_no_offender_his_quota_back(void **state)
{
	for (size_t i = 0; i < sizeof sliding / sizeof *sliding; i++) {
		weir_limit *limit;
		uint64_t quota;

		open_small(state);
		limit = open_limit(sliding[i]);
		quota = ask(limit, 0, 1, NOW).quota;
		for (uint64_t n = 1; n < quota; n++)
			assert_true(ask(limit, 0, 1, NOW + n).allowed);
		assert_false(ask(limit, 0, 1, NOW + SECOND).allowed);
		assert_int_equal(denied(limit, 1, 3000, NOW + 2 * SECOND), 0);
		assert_true(evictions() > 2000);
		assert_false(ask(limit, 0, 1, NOW + 3 * SECOND).allowed);
		assert_int_equal(ask(limit, 0, 0, NOW + 3 * SECOND).remaining, 0);
		weir_limit_close(limit);
		close_small(state);
	}
}

/* Among keys of equal use, the one that is idle soonest goes. */
static void among_equal_keys_the_one_idle_first_is_evicted(void **state)
{
	struct weir_limit_options options = sliding[0];
	weir_limit *limit;

	(void)state;
	options.keys = 1;
	limit = open_limit(options);
	for (uint64_t key = 0; key < 200; key++)
		ask(limit, key, 2, NOW + key);
	assert_true(evictions() >= 200 - 48);
	for (uint64_t key = 0; key < 10; key++) {
		assert_int_equal(ask(limit, key, 0, NOW + 200).remaining, 20);
		assert_int_equal(ask(limit, 199 - key, 0, NOW + 200).remaining, 18);
	}
	weir_limit_close(limit);
}

/* ---- limits beside one another ---- */

static void fresh_keys_of_one_limit_deny_nobody_of_another(void **state)
{
	weir_limit *flooded = places("flooded", 2000, 0), *wide = places("wide", 2000, 0),
	           *narrow = places("narrow", 2, 0), *window = open_limit(sliding[3]),
	           *bucket = open_limit((struct weir_limit_options){.rate = {5, 1, WEIR_UNIT_HOUR}});
	uint64_t before;

	(void)state;
	for (uint64_t key = 0; key < 20; key++) {
		assert_true(ask(wide, key, 1999, NOW).allowed);
		assert_true(ask(window, key, 99, NOW).allowed);
	}
	before = evictions();
	assert_int_equal(denied(flooded, 1000, 1700, NOW), 1700 - 56); /* 40 keys, 7 sets */
	assert_int_equal(evictions(), before);
	assert_int_equal(denied(wide, 0, 20, NOW), 0);
	assert_int_equal(denied(window, 0, 20, NOW), 0);
	assert_int_equal(denied(wide, 0, 20, NOW), 20); /* theirs is as it was */
	assert_int_equal(denied(window, 0, 20, NOW), 20);
	assert_int_equal(denied(narrow, 0, 40, NOW), 0);
	assert_int_equal(denied(bucket, 0, 40, NOW), 0);
	weir_limit_close(bucket);
	weir_limit_close(window);
	weir_limit_close(narrow);
	weir_limit_close(wide);
	weir_limit_close(flooded);
}

static void a_limit_has_room_for_as_many_keys_as_it_says(void **state)
{
	static const uint64_t keys[] = {1, 100, 1700, 20000};

	(void)state;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		weir_limit *limit;

		weir_table_close(table);
		table = open_with(40, NULL);
		limit = places("them", 5000, keys[i]);
		assert_true(denied(limit, 0, keys[i], NOW) <= keys[i] / 1000);
		assert_true(denied(limit, keys[i], 100 + keys[i], NOW) > keys[i] / 2);
		weir_limit_close(limit);
	}
}

/* Without weir_table_reserve, too: a program may only ever call with its limits. */
static void a_limit_that_grows_at_a_call_has_room_for_its_keys(void **state)
{
	weir_limit *narrow = places("them", 10, 1000), *wide = places("them", 100, 1000);

	(void)state;
	assert_int_equal(denied(narrow, 0, 500, NOW), 0);
	assert_true(denied(wide, 500, 500, NOW + 500) <= 1);
	weir_limit_close(wide);
	weir_limit_close(narrow);
}

static void a_denial_for_want_of_room_says_so_and_when_to_ask_again(void **state)
{
	weir_limit *limit = open_limit((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1, .keys = 1, .retry_ns = 7 * SECOND});
	struct weir_decision d;

	(void)state;
	assert_in_range(denied(limit, 0, 100, NOW), 100 - 48, 100 - 40);
	d = ask(limit, 999, 1, NOW);
	assert_false(d.allowed);
	assert_int_equal(d.reason, WEIR_REASON_NO_ROOM);
	assert_int_equal(d.retry_after_ns, 7 * SECOND);
	assert_string_equal(weir_reason_text(d.reason), "no_room");
	d = ask(limit, 0, 1, NOW);
	assert_int_equal(d.reason, WEIR_REASON_OVER_LIMIT);
	weir_limit_close(limit);
}

/* Tests that the use of a key moves along when a larger table takes over. */
static void a_limit_that_asks_for_more_keys_gets_them_and_keeps_its_counts(void **state)
{
	weir_limit *few = places("them", 3, 10), *many = places("them", 3, 5000),
	           *log_few = open_limit(sliding[1]), *log_many;
	struct weir_limit_options options = sliding[1];
	struct weir_decision d;

	(void)state;
	options.keys = 5000;
	log_many = open_limit(options);
	for (uint64_t key = 0; key < 10; key++) {
		assert_true(ask(few, key, 2, NOW).allowed);
		assert_true(ask(log_few, key, 60, NOW).allowed);
	}
	assert_int_equal(weir_table_reserve(table, many, NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(table, log_many, NULL), WEIR_OK);
	assert_int_equal(denied(many, 100, 4000, NOW), 0);
	for (uint64_t key = 0; key < 10; key++) {
		assert_false(ask(many, key, 2, NOW).allowed);
		assert_true(ask(few, key, 1, NOW).allowed); /* by the new one, too */
		assert_false(ask(few, key, 1, NOW).allowed);
		assert_false(ask(log_many, key, 41, NOW + SECOND).allowed);
		d = ask(log_many, key, 40, NOW + SECOND);
		assert_true(d.allowed && d.remaining == 0);
	}
	/* It never becomes smaller again. */
	assert_int_equal(weir_table_reserve(table, few, NULL), WEIR_OK);
	assert_int_equal(denied(few, 5000, 500, NOW), 0);
	weir_limit_close(log_many);
	weir_limit_close(log_few);
	weir_limit_close(many);
	weir_limit_close(few);
}

/* The window of a key, opened by its fifth unit, ends when it would have ended. */
static void a_day_in_a_larger_table_keeps_its_counts(void **state)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BASE, .base = 5, .rate = {10, 1, WEIR_UNIT_HOUR}, .keys = 40};
	weir_limit *few = open_limit(options), *many;

	(void)state;
	options.keys = 5000;
	many = open_limit(options);
	for (uint64_t key = 0; key < 10; key++)
		assert_int_equal(ask(few, key, 1 + key, NOW).remaining, 13 - key);
	assert_int_equal(weir_table_reserve(table, many, NULL), WEIR_OK);
	for (uint64_t key = 0; key < 10; key++) {
		assert_int_equal(ask(many, key, 0, NOW).remaining, 13 - key);
		assert_false(ask(many, key, 14 - key, NOW + SECOND).allowed);
		assert_int_equal(ask(many, key, 13 - key, NOW + SECOND).remaining, 0);
		assert_true(ask(many, key, 0, NOW + 3600 * SECOND).allowed == (key >= 4));
		assert_int_equal(ask(many, key, 10, NOW + 3601 * SECOND).remaining, 0);
	}
	weir_limit_close(many);
	weir_limit_close(few);
}

static void more_limits_than_there_may_be_are_an_error(void **state)
{
	struct weir_error error = {0};
	weir_limit *limit = NULL;
	struct weir_decision d;
	char name[16];
	int status = WEIR_OK, made = 0;

	(void)state;
	while (status == WEIR_OK) {
		weir_limit_close(limit);
		snprintf(name, sizeof name, "limit%d", made);
		limit = places(name, 1, 1);
		status = weir_table_reserve(table, limit, &error);
		made += status == WEIR_OK;
	}
	assert_int_equal(made, 1024);
	assert_int_equal(status, WEIR_EFULL);
	assert_non_null(strstr(error.message, "expected at most 1024 tables of limits"));
	assert_int_equal(weir_acquire(table, limit, (struct weir_key){"k", 1}, 1, NOW, &d), WEIR_EFULL);
	weir_limit_close(limit);
	limit = places("limit77", 1, 1);
	assert_int_equal(weir_acquire(table, limit, (struct weir_key){"k", 1}, 1, NOW, &d), WEIR_OK);
	weir_limit_close(limit);
}

static void limits_that_need_no_table_of_their_own_take_no_keys(void **state)
{
	struct weir_limit_options options = {.rate = {5}, .keys = 10};
	struct weir_error error = {0};
	weir_limit *limit;

	(void)state;
	assert_int_equal(weir_limit_open(&options, &limit, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.message, "keys: expected with sliding_window, sliding_log, "
	                                      "sliding_counter, base, concurrency, breaker, throttle, "
	                                      "adaptive only"));
	options = sliding[0];
	options.keys = WEIR_CAPACITY_MAX + 1;
	assert_int_equal(weir_limit_open(&options, &limit, &error), WEIR_ERANGE);
}

/* ---- a full disk ---- */

/* Every byte of the file has its room, so that no page that is touched later can miss it. */
static void a_file_has_room_on_the_disk_for_all_that_its_limits_can_use(void **state)
{
	weir_limit *log = open_limit(sliding[2]), *held = places("held", 10000, 0);
	struct stat stat_;

	(void)state;
	table = open_with(1000, path);
	assert_int_equal(weir_table_reserve(table, log, NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(table, held, NULL), WEIR_OK);
	assert_int_equal(stat(path, &stat_), 0);
	assert_true(stat_.st_size > 1000 * 1000);
	assert_true(stat_.st_blocks * 512 >= stat_.st_size);
	weir_table_close(table);
	unlink(path);
	weir_limit_close(held);
	weir_limit_close(log);
}

/* The system kills, by SIGXFSZ, who goes beyond: not us, nor the program that we are part of. */
static void what_finds_no_room_on_the_disk_is_an_error_and_changes_nothing(void **state)
{
	struct weir_table_options options = {.capacity = 1000000, .path = path};
	struct rlimit before, little = {100 << 10, 100 << 10};
	weir_limit *log = open_limit(sliding[2]),
	           *bucket = open_limit((struct weir_limit_options){.rate = {5, 1, WEIR_UNIT_HOUR}});
	struct weir_error error = {0};
	struct weir_decision d;
	struct stat stat_;
	off_t size;

	(void)state;
	table = open_with(1000, path);
	assert_int_equal(stat(path, &stat_), 0);
	size = stat_.st_size;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	little.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_int_equal(weir_table_reserve(table, log, &error), WEIR_EFULL);
	assert_non_null(strstr(error.message, path));
	assert_non_null(strstr(error.message, "expected permission for "));
	assert_int_equal(weir_acquire(table, log, (struct weir_key){"k", 1}, 1, NOW, &d), WEIR_EFULL);
	assert_true(ask(bucket, 1, 1, NOW).allowed);
	assert_int_equal(stat(path, &stat_), 0);
	assert_int_equal(stat_.st_size, size);
	weir_table_close(table);
	unlink(path);
	assert_int_equal(weir_table_open(&options, &table, &error), WEIR_EFULL);
	assert_non_null(strstr(error.message, path));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	weir_limit_close(bucket);
	weir_limit_close(log);
}

/* A file system in memory, of known size: a table that does not fit whole takes nothing. */
static void a_disk_that_is_too_small_is_an_error_with_what_there_is(void **state)
{
	static const char file[] = "/dev/shm/weir-test-room";
	weir_limit *limit = places("petabyte", 10000, WEIR_CAPACITY_MAX);
	struct weir_error error = {0};
	char wanted[16], wanted_unit, found[16], found_unit;

	(void)state;
	unlink(file);
	table = open_with(1000, file);
	assert_int_equal(weir_table_reserve(table, limit, &error), WEIR_EFULL);
	if (sscanf(error.message,
	           "/dev/shm/weir-test-room: expected space for %15[0-9.] %cB more on its disk, "
	           "found %15[0-9.] %cB",
	           wanted, &wanted_unit, found, &found_unit) != 4)
		fail_msg("%s", error.message);
	assert_true((wanted_unit == 'T' && atof(wanted) > 800) || wanted_unit == 'P');
	assert_true(strchr("kMGT", found_unit));
	weir_table_close(table);
	unlink(file);
	weir_limit_close(limit);
}

/* ---- killed while tables are added ---- */

#define ROUNDS    40
#define PROCESSES 3

/* Each takes one of a key of each limit, and tells how far it came once that is done. */
static void add_until_killed(unsigned me, unsigned from, unsigned *done)
{
	weir_table *mine = open_with(100, path);

	for (unsigned i = from;; i++) {
		weir_limit *limit;
		struct weir_decision d;
		char name[32];

		snprintf(name, sizeof name, "limit %u", i % 300);
		limit = places(name, 5, 1 + i % 300);
		if (weir_acquire(mine, limit, (struct weir_key){&me, sizeof me}, 1, NOW + i / 300 * HOUR,
		                 &d) != WEIR_OK ||
		    !d.allowed)
			_exit(1);
		__atomic_store_n(done, i + 1, __ATOMIC_SEQ_CST);
		weir_limit_close(limit);
	}
}

static void whoever_is_killed_while_adding_a_table_leaves_a_sound_file(void **state)
{
	unsigned *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	weir_table_close(open_with(100, path));
	for (unsigned round = 0; round < ROUNDS; round++) {
		pid_t pids[PROCESSES];
		struct weir_decision d;

		for (unsigned i = 0; i < PROCESSES; i++)
			if ((pids[i] = fork()) == 0)
				add_until_killed(i, done[i], &done[i]);
		for (unsigned i = 0; i < PROCESSES; i++) {
			int status;

			usleep(2000 + round * 37 % 7 * 1000);
			kill(pids[i], SIGKILL);
			waitpid(pids[i], &status, 0);
			assert_true(WIFSIGNALED(status));
		}
		table = open_with(0, path);
		for (unsigned i = 0; i < PROCESSES; i++) {
			char name[32];
			weir_limit *limit;
			unsigned last = done[i] - 1;

			if (done[i] == 0)
				continue;
			snprintf(name, sizeof name, "limit %u", last % 300);
			limit = places(name, 5, 0);
			assert_int_equal(weir_peek(table, limit, (struct weir_key){&i, sizeof i}, 1,
			                           NOW + last / 300 * HOUR, &d),
			                 WEIR_OK);
			assert_in_range(d.remaining, 3, 4); /* taken, maybe once more by who was killed then */
			weir_limit_close(limit);
		}
		weir_table_close(table);
	}
	assert_true(done[0] > 10);
	munmap(done, 4096);
	unlink(path);
}

int main(void)
{
#define IN_A_SMALL_TABLE(test) cmocka_unit_test_setup_teardown(test, open_small, close_small)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fresh_keys_give_no_offender_his_quota_back),
	    IN_A_SMALL_TABLE(among_equal_keys_the_one_idle_first_is_evicted),
	    IN_A_SMALL_TABLE(fresh_keys_of_one_limit_deny_nobody_of_another),
	    IN_A_SMALL_TABLE(a_limit_has_room_for_as_many_keys_as_it_says),
	    IN_A_SMALL_TABLE(a_limit_that_grows_at_a_call_has_room_for_its_keys),
	    IN_A_SMALL_TABLE(a_denial_for_want_of_room_says_so_and_when_to_ask_again),
	    IN_A_SMALL_TABLE(a_limit_that_asks_for_more_keys_gets_them_and_keeps_its_counts),
	    IN_A_SMALL_TABLE(a_day_in_a_larger_table_keeps_its_counts),
	    IN_A_SMALL_TABLE(more_limits_than_there_may_be_are_an_error),
	    IN_A_SMALL_TABLE(limits_that_need_no_table_of_their_own_take_no_keys),
	    cmocka_unit_test(whoever_is_killed_while_adding_a_table_leaves_a_sound_file),
	    cmocka_unit_test(a_file_has_room_on_the_disk_for_all_that_its_limits_can_use),
	    cmocka_unit_test(what_finds_no_room_on_the_disk_is_an_error_and_changes_nothing),
	    cmocka_unit_test(a_disk_that_is_too_small_is_an_error_with_what_there_is),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
