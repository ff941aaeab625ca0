/* A fixed rate, in real time. The assertions hold however busy the machine is. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>
#include <weir/pool.h>

#define MS UINT64_C(1000000)

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static weir_pool *open_pool(struct weir_pool_options options)
{
	weir_pool *pool;

	assert_int_equal(weir_pool_open(&options, &pool, NULL), WEIR_OK);
	return pool;
}

static void *note_time(void *started_ns)
{
	*(uint64_t *)started_ns = clock_of(CLOCK_MONOTONIC);
	return NULL;
}

#define TASKS 20000
#define TURN_NS (MS / 10)

struct turn {
	weir_pool *pool;
	uint64_t started_ns, missed;
};

static void *note_turn(void *argument)
{
	struct turn *turn = argument;
	struct weir_pool_stats stats;

	turn->started_ns = clock_of(CLOCK_MONOTONIC);
	weir_pool_stats(turn->pool, &stats);
	turn->missed = stats.missed_turns;
	return NULL;
}

/*
 * The least lateness of `n` tasks: what the schedule adds, without what the machine does.
 * A task that heard of a turn missed since it began seems early, which wraps and is no least.
 */
static uint64_t least_late(const struct turn *turns, uint64_t begin_ns, size_t from, size_t n)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = from; i < from + n; i++) {
		uint64_t late = turns[i].started_ns - begin_ns - (i + turns[i].missed) * TURN_NS;

		least = late < least ? late : least;
	}
	return least;
}

static void test_ten_thousand_a_second_to_a_thousandth_and_none_early(void **context)
{
	static struct turn turns[TASKS];
	weir_pool *pool =
	    open_pool((struct weir_pool_options){.workers = 3, .bucket = TASKS, .rate = {10000}});
	uint64_t begin_ns = clock_of(CLOCK_MONOTONIC), drift_ns;

	(void)context;
	for (size_t i = 0; i < TASKS; i++) {
		turns[i].pool = pool;
		assert_int_equal(weir_pool_submit(pool, note_turn, &turns[i], NULL), WEIR_OK);
	}
	assert_int_equal(weir_pool_stop(pool, NULL, NULL), WEIR_OK);
	weir_pool_close(pool);
	for (size_t i = 0; i < TASKS; i++)
		assert_true(turns[i].started_ns >= begin_ns + i * TURN_NS);
	drift_ns = least_late(turns, begin_ns, TASKS - TASKS / 10, TASKS / 10) -
	           least_late(turns, begin_ns, 0, TASKS / 10);
	assert_true(drift_ns + 2 * MS <= 4 * MS);
}

static void *meet(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

/* No task ends before three have started: the turn must be passed from worker to worker. */
static void test_tasks_longer_than_a_turn_run_beside_each_other(void **context)
{
	weir_pool *pool = open_pool((struct weir_pool_options){.workers = 3, .rate = {1000}});
	pthread_barrier_t barrier;
	weir_pool_ticket *last;

	(void)context;
	pthread_barrier_init(&barrier, NULL, 3);
	for (unsigned i = 1; i < 30; i++)
		assert_int_equal(weir_pool_submit(pool, meet, &barrier, NULL), WEIR_OK);
	assert_int_equal(weir_pool_submit(pool, meet, &barrier, &last), WEIR_OK);
	assert_int_equal(weir_pool_wait(last, WEIR_FOREVER, NULL), WEIR_OK);
	weir_pool_ticket_close(last);
	weir_pool_close(pool);
	pthread_barrier_destroy(&barrier);
}

/* The 100 ms before the worker is free again are caught up, even if others come meanwhile. */
static void test_turns_that_nobody_took_for_longer_are_lost_and_counted(void **context)
{
	weir_pool *pool = open_pool((struct weir_pool_options){.workers = 1, .rate = {1000}});
	struct weir_pool_stats stats;
	pthread_barrier_t barrier;
	weir_pool_ticket *first;
	uint64_t ns[2];

	(void)context;
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(weir_pool_submit(pool, meet, &barrier, &first), WEIR_OK);
	assert_int_equal(weir_pool_submit(pool, note_time, &ns[0], NULL), WEIR_OK);
	assert_int_equal(weir_pool_wait(first, clock_of(CLOCK_REALTIME) + 110 * MS, NULL), WEIR_ETIMEDOUT);
	assert_int_equal(weir_pool_submit(pool, note_time, &ns[1], NULL), WEIR_OK);
	pthread_barrier_wait(&barrier);
	assert_int_equal(weir_pool_stop(pool, NULL, NULL), WEIR_OK);
	weir_pool_stats(pool, &stats);
	assert_true(stats.missed_turns >= 8);
	weir_pool_ticket_close(first);
	weir_pool_close(pool);
	pthread_barrier_destroy(&barrier);
}

static void count_returned(void *context, weir_pool_run *run, void *argument)
{
	(void)run, (void)argument;
	++*(unsigned *)context;
}

static void test_waiting_for_a_turn_costs_no_time_of_the_processor_and_ends_at_the_stop(
    void **context)
{
	weir_pool *pool = open_pool(
	    (struct weir_pool_options){.workers = 3, .bucket = 5, .rate = {1, 1, WEIR_UNIT_DAY}});
	uint64_t ns[8], before_ns;
	weir_pool_ticket *first, *second;
	unsigned returned = 0;

	(void)context;
	assert_int_equal(weir_pool_submit(pool, note_time, &ns[0], &first), WEIR_OK);
	assert_int_equal(weir_pool_submit(pool, note_time, &ns[1], &second), WEIR_OK);
	assert_int_equal(weir_pool_wait(first, WEIR_FOREVER, NULL), WEIR_OK);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(weir_pool_submit(pool, note_time, &ns[i], NULL), WEIR_OK);
	assert_int_equal(weir_pool_submit(pool, note_time, &ns[7], NULL), WEIR_EFULL);
	before_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	assert_int_equal(weir_pool_wait(second, clock_of(CLOCK_REALTIME) + 50 * MS, NULL), WEIR_ETIMEDOUT);
	assert_true(clock_of(CLOCK_PROCESS_CPUTIME_ID) - before_ns < 20 * MS);
	assert_int_equal(weir_pool_stop(pool, count_returned, &returned), WEIR_OK);
	assert_int_equal(returned, 8);
	assert_int_equal(weir_pool_wait(second, WEIR_FOREVER, NULL), WEIR_ESTOPPED);
	weir_pool_close(pool);
	weir_pool_ticket_close(first);
	weir_pool_ticket_close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ten_thousand_a_second_to_a_thousandth_and_none_early),
	    cmocka_unit_test(test_tasks_longer_than_a_turn_run_beside_each_other),
	    cmocka_unit_test(test_turns_that_nobody_took_for_longer_are_lost_and_counted),
	    cmocka_unit_test(
	        test_waiting_for_a_turn_costs_no_time_of_the_processor_and_ends_at_the_stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
