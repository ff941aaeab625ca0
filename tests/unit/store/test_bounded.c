/*
 * Tests that no call touches more than 10,000 cache lines, whatever the limit and operation.
 *
 * The table, records and stores are compiled for this program so that each access to a cell is
 * counted (touched.h). Each call of every_call.h is made in a process of its own, so that all calls
 * find the same state. tests/e2e/test_cache_lines.py counts for the commands of the server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/cell.h"
#include "every_call.h"
#include "store/apply_step.h"
#include "touched.h"

#define BOUND 10000 /* lines */

/* Shared with the process that makes the call. */
static struct {
	uint64_t lines;
} * result;

static void start(void)
{
	*touched_lines = 0;
}

/* A call touches no more than `bound` lines. */
static void try_call(size_t call, const char *state, uint64_t bound)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		start();
		calls[call].make(calls[call].number);
		result->lines = *touched_lines;
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	if (result->lines > bound)
		fail_msg("%s, %s: %s touches %lu lines", full.name, state, calls[call].name,
		         (unsigned long)result->lines);
}

static void is_bounded(size_t call, const char *state)
{
	try_call(call, state, BOUND);
}

static void test_every_call_is_bounded(void **state)
{
	const struct algorithm *algorithm;

	(void)state;
	for (size_t i = 0; (algorithm = algorithm_listed(i)); i++)
		every_call(algorithm, is_bounded);
}

/* A full log that goes on in the widest record, from one of 4,096 cells. */
static void test_a_wider_record_is_bounded(void **state)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                     .rate = {4090, 1, WEIR_UNIT_HOUR}};
	weir_limit *before;

	(void)state;
	open_limit("sliding_log", &options);
	full.quota = options.rate.count;
	fill(1);
	assert_int_equal(full.count, options.rate.count);
	before = full.limit;
	options.rate.count = MOST;
	assert_int_equal(weir_limit_open(&options, &full.limit, NULL), WEIR_OK);
	*touched_lines = 0;
	acquire(0);
	assert_in_range(*touched_lines, 4096 / 4, BOUND); /* all is copied */
	assert_int_equal(peek().remaining, MOST - 4090 - 1);
	weir_limit_close(before);
	end();
}

/* A report of many units to a full log, whose next request forgets as many entries. */
static void test_replacing_is_bounded(void **state)
{
	static struct cell header, cells[ALGO_WIDTH_MOST];
	const struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                           .rate = {MOST, 1, WEIR_UNIT_HOUR}};
	const uint64_t costs[] = {1, MOST / 2, 1, MOST, MOST / 2, 1};
	struct algo_time time = {.now_ns = NOW};
	struct algo_limit limit;
	struct record_state at = {&header, .record = {cells, ALGO_WIDTH_MOST, 1, true}};
	struct algo_call call = {ALGO_ACQUIRE, 1};
	struct algo_decision out;

	(void)state;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	for (unsigned i = 0; i < MOST; i++, time.now_ns++)
		wide_apply_cell(&at, &limit, &call, &time, &out);
	assert_int_equal(out.remaining, 0);
	call.op = ALGO_REPLACE;
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++, time.now_ns++) {
		*touched_lines = 0;
		call.cost = costs[i];
		wide_apply_cell(&at, &limit, &call, &time, &out);
		assert_true(out.allowed);
		assert_int_equal(out.remaining, 0);
		assert_true(*touched_lines <= BOUND);
	}
}

/*
 * After reloads that made the records wider and wider while permits were held, each of three passes
 * reads the places in all former tables, too: up to 8,172.
 */
#define BOUND_AFTER_RELOADS (3 * (MOST + 8172) / 4 + 100)

static void is_bounded_after_reloads(size_t call, const char *state)
{
	try_call(call, state, BOUND_AFTER_RELOADS);
}

static void test_leases_in_all_former_tables_are_bounded(void **state)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 12};
	weir_limit *opened[12];
	size_t n = 0;

	(void)state;
	open_limit("concurrency", &options);
	for (;; options.max = u64_min(options.max < 32 ? 32 : 2 * options.max, MOST)) {
		struct weir_decision d = {.allowed = true};

		if (n > 0)
			assert_int_equal(weir_limit_open(&options, &full.limit, NULL), WEIR_OK);
		opened[n++] = full.limit;
		full.quota = options.max;
		for (; d.allowed; full.count += d.allowed)
			weir_ask(full.table, full.limit, KEY,
			         &(struct weir_ask){.cost = 1 + options.max / 1000,
			                            .now_ns = ++full.now_ns,
			                            .permit = &full.permits[full.count]},
			         &d);
		if (options.max == MOST)
			break;
	}
	every_time(is_bounded_after_reloads, "in all former tables");
	while (--n > 0)
		weir_limit_close(opened[n - 1]);
	end();
}

/* A clock that was set back since has put all leases too far ahead. */
static void test_leases_of_a_clock_set_back_are_bounded(void **state)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = MOST};
	struct weir_decision d;

	(void)state;
	open_limit("concurrency", &options);
	full.quota = MOST;
	weir_acquire(full.table, full.limit, KEY, MOST / 2 - 1, NOW, &d);
	assert_true(d.allowed);
	full.now_ns -= 3 * NS_PER_DAY;
	for (size_t call = 0; call < CALLS; call++)
		is_bounded(call, "after the clock was set back");
	end();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_call_is_bounded),
	    cmocka_unit_test(test_a_wider_record_is_bounded),
	    cmocka_unit_test(test_replacing_is_bounded),
	    cmocka_unit_test(test_leases_in_all_former_tables_are_bounded),
	    cmocka_unit_test(test_leases_of_a_clock_set_back_are_bounded),
	};

	full.start = start;
	result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests_name("store/bounded", tests, NULL, NULL);
}
