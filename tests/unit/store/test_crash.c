/*
 * Processes killed at random instants: what they were granted is in the file,
 * no key got more than its limit, and the others go on.
 *
 * WEIR_TEST_SEED=N replays the choices; the scheduler's are its own.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "path.h"

#define NOW       UINT64_C(1700000000000000000)
#define HOUR      UINT64_C(3600000000000)
#define PROCESSES 2
#define KEYS      400
#define QUOTA     5
#define TRIES     4 /* by each process at each key: together more than the quota */
#ifdef __SANITIZE_ADDRESS__ /* a fork takes long */
#define ROUNDS 60
#else
#define ROUNDS 300
#endif

static int key_name(char *to, size_t size, unsigned key)
{
	return snprintf(to, size, "key%u", key);
}

/* Reports every grant, as soon as it has it; time goes on by `step_ns` between two at a key. */
static void acquire_until_killed(weir_limit *limit, uint64_t now_ns, uint64_t step_ns, int to)
{
	weir_table *table;
	char name[16];

	if (weir_table_open(&(struct weir_table_options){.path = path}, &table, NULL) != WEIR_OK)
		_exit(1);
	for (uint16_t key = 0; key < KEYS; key++)
		for (int i = 0; i < TRIES; i++) {
			int len = key_name(name, sizeof name, key);
			struct weir_decision d;

			weir_acquire(table, limit, (struct weir_key){name, (size_t)len}, 1,
			             now_ns + (unsigned)i * step_ns, &d);
			if (d.allowed && write(to, &key, sizeof key) != sizeof key)
				_exit(1);
		}
	for (;;)
		pause();
}

static void check(weir_table *table, weir_limit *limit, uint64_t now_ns, const unsigned *reported)
{
	unsigned silent = 0; /* granted, and killed before it could say so */
	char name[16];

	for (unsigned key = 0; key < KEYS; key++) {
		int len = key_name(name, sizeof name, key);
		unsigned used, rest = 0;
		struct weir_decision d;

		weir_peek(table, limit, (struct weir_key){name, (size_t)len}, 1, now_ns, &d);
		used = QUOTA - (unsigned)d.remaining;
		assert_in_range(used, reported[key], QUOTA);
		silent += used - reported[key];
		do
			weir_acquire(table, limit, (struct weir_key){name, (size_t)len}, 1, now_ns, &d);
		while (d.allowed && ++rest <= QUOTA);
		assert_int_equal(used + rest, QUOTA);
	}
	assert_in_range(silent, 0, PROCESSES);
}

static void nothing_granted_is_lost(enum weir_algorithm algorithm, unsigned rounds,
                                    uint64_t step_ns)
{
	struct weir_limit_options options = {.algorithm = algorithm,
	                                     .rate = {QUOTA, 1, WEIR_UNIT_HOUR}};
	const char *given = getenv("WEIR_TEST_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
	struct weir_table_stats stats;
	weir_limit *limit;
	weir_table *table;

	print_message("WEIR_TEST_SEED=%u\n", seed);
	unlink(path);
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 2 * KEYS, .path = path},
	                                 &table, NULL), WEIR_OK);
	if (algorithm ==
	    WEIR_ALGORITHM_BASE) { /* two of the quota are free, the others open a window */
		options.base = 3;
		options.rate.count -= 2;
	}
	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t now_ns = NOW + round * 24 * HOUR; /* what was before is spent */
		unsigned reported[KEYS] = {0}, wanted = 1 + (unsigned)rand_r(&seed) % (KEYS * QUOTA);
		pid_t pids[PROCESSES];
		uint16_t key;
		int report[2];

		assert_int_equal(pipe(report), 0);
		for (int i = 0; i < PROCESSES; i++) {
			pids[i] = fork();
			if (pids[i] == 0)
				acquire_until_killed(limit, now_ns, step_ns, report[1]);
		}
		close(report[1]);
		while (wanted-- > 0 && read(report[0], &key, sizeof key) == sizeof key)
			reported[key]++;
		for (int i = 0; i < PROCESSES; i++)
			kill(pids[i], SIGKILL);
		while (read(report[0], &key, sizeof key) == sizeof key)
			reported[key]++;
		for (int i = 0; i < PROCESSES; i++)
			waitpid(pids[i], NULL, 0);
		close(report[0]);
		check(table, limit, now_ns + (TRIES - 1) * step_ns, reported);
	}
	weir_table_stats(table, NOW, &stats);
	assert_int_equal(stats.evictions, 0);
	weir_table_close(table);
	weir_limit_close(limit);
}

static void nothing_granted_is_lost_when_processes_are_killed(void **state)
{
	(void)state;
	nothing_granted_is_lost(WEIR_ALGORITHM_TOKEN_BUCKET, ROUNDS, 0);
}

/* Each grant is in a slot of its own, so that most are moved on while others are killed. */
static void nothing_is_lost_between_a_header_and_its_record(void **state)
{
	(void)state;
	nothing_granted_is_lost(WEIR_ALGORITHM_SLIDING_WINDOW, ROUNDS, HOUR / 10);
	nothing_granted_is_lost(WEIR_ALGORITHM_SLIDING_LOG, ROUNDS, HOUR / 10);
	nothing_granted_is_lost(WEIR_ALGORITHM_BASE, ROUNDS, HOUR / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_granted_is_lost_when_processes_are_killed),
	    cmocka_unit_test(nothing_is_lost_between_a_header_and_its_record),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
