/*
 * Threads that meet on keys: never more than the limit, never fewer when demand
 * suffices. Time is virtual and mostly stands still, so the numbers are exact.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <weir/limiter.h>

#define NOW UINT64_C(1700000000000000000)
#define THREADS_MAX 8
#define QUOTA 50

struct load {
	weir_table *table;
	weir_limit *limit;
	pthread_barrier_t start;
	unsigned keys, rounds;
	unsigned *granted; /* of each key, by all threads */
	bool back;         /* give every second grant back */
};

static void *run(void *context)
{
	struct load *load = context;
	char key[16];

	pthread_barrier_wait(&load->start);
	for (unsigned r = 0; r < load->rounds; r++) {
		for (unsigned k = 0; k < load->keys; k++) {
			int len = snprintf(key, sizeof key, "key%u", k);
			struct weir_decision d;

			if (weir_acquire(load->table, load->limit, (struct weir_key){key, (size_t)len}, 1, NOW,
			                 &d) != WEIR_OK)
				abort();
			if (!d.allowed)
				continue;
			if (load->back && (r & 1)) {
				weir_refund(load->table, load->limit, (struct weir_key){key, (size_t)len}, 1, NOW,
				            &d);
				continue;
			}
			__atomic_fetch_add(&load->granted[k], 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* All threads run the same keys in the same order, so that they meet on each. */
static void meet(struct load *load, unsigned threads)
{
	pthread_t ids[THREADS_MAX];

	load->granted = calloc(load->keys, sizeof *load->granted);
	pthread_barrier_init(&load->start, NULL, threads);
	for (unsigned i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run, load), 0);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load->start);
}

static void open_all(struct load *load, uint64_t capacity, enum weir_algorithm algorithm)
{
	struct weir_error error = {0};
	bool window = algorithm == WEIR_ALGORITHM_FIXED_WINDOW;
	uint64_t base =
	    algorithm == WEIR_ALGORITHM_BASE ? 10 : 0; /* nine are free, the others in a window */

	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = capacity},
	                                 &load->table, &error), 0);
	assert_int_equal(weir_limit_open(
	                     &(struct weir_limit_options){
	                         .algorithm = algorithm,
	                         .rate = {QUOTA - (base ? base - 1 : 0), 1, WEIR_UNIT_HOUR},
	                         .base = base,
	                         .align = window ? WEIR_ALIGN_FIRST_REQUEST : WEIR_ALIGN_CALENDAR},
	                     &load->limit, &error),
	                 0);
}

static void close_all(struct load *load)
{
	weir_limit_close(load->limit);
	weir_table_close(load->table);
	free(load->granted);
}

static void exactly(uint64_t capacity, unsigned keys, unsigned rounds)
{
	static const enum weir_algorithm algorithms[] = {
	    WEIR_ALGORITHM_TOKEN_BUCKET, WEIR_ALGORITHM_FIXED_WINDOW, WEIR_ALGORITHM_SLIDING_WINDOW,
	    WEIR_ALGORITHM_SLIDING_LOG, WEIR_ALGORITHM_BASE};

	for (unsigned a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
		for (unsigned threads = 2; threads <= THREADS_MAX; threads *= 2) {
			struct load load = {.keys = keys, .rounds = rounds};

			open_all(&load, capacity, algorithms[a]);
			meet(&load, threads);
			for (unsigned k = 0; k < keys; k++)
				assert_int_equal(load.granted[k], QUOTA);
			close_all(&load);
		}
	}
}

/* "60 parallel first hits counted as 50" and "check then add". */
static void test_threads_on_one_key_get_exactly_the_limit(void **context)
{
	(void)context;
	exactly(1000, 1, 2000);
}

/* "two first requests": every key is new to all threads at the same moment. */
static void test_threads_on_keys_never_seen_get_exactly_the_limit(void **context)
{
	(void)context;
	exactly(20000, 500, QUOTA);
}

/* Two sets of eight cells: all twelve keys look at the same sixteen. */
static void test_threads_on_colliding_keys_get_exactly_the_limit(void **context)
{
	(void)context;
	exactly(1, 12, 500);
}

/* "refund and acquire at once": the units in use never exceed the limit, and none is lost. */
static void refund_and_acquire_at_once(enum weir_algorithm algorithm)
{
	struct load load = {.keys = 5, .rounds = 1000, .back = true};
	struct weir_decision d;
	char key[16];

	open_all(&load, 1000, algorithm);
	meet(&load, 4);
	for (unsigned k = 0; k < load.keys; k++) {
		int len = snprintf(key, sizeof key, "key%u", k);

		assert_int_equal(load.granted[k], QUOTA);
		weir_peek(load.table, load.limit, (struct weir_key){key, (size_t)len}, 1, NOW, &d);
		assert_int_equal(d.remaining, 0);
	}
	close_all(&load);
}

static void test_refund_and_acquire_at_once(void **context)
{
	(void)context;
	refund_and_acquire_at_once(WEIR_ALGORITHM_FIXED_WINDOW);
	refund_and_acquire_at_once(WEIR_ALGORITHM_SLIDING_WINDOW);
	refund_and_acquire_at_once(WEIR_ALGORITHM_SLIDING_LOG);
	refund_and_acquire_at_once(WEIR_ALGORITHM_BASE);
}

/* A sliding window's older slot, into which the refunds go that find none taken in the newest. */
#define NEXT_SLOT (NOW + UINT64_C(360000000000))

static void *run_older(void *context)
{
	struct load *load = context;

	pthread_barrier_wait(&load->start);
	for (unsigned r = 0; r < load->rounds; r++) {
		for (unsigned k = 0; k < load->keys; k++) {
			struct weir_decision d;

			weir_refund(load->table, load->limit, (struct weir_key){&k, sizeof k}, 1, NEXT_SLOT,
			            &d);
			weir_acquire(load->table, load->limit, (struct weir_key){&k, sizeof k}, 1, NEXT_SLOT,
			             &d);
			if (!d.allowed)
				abort();
			weir_refund(load->table, load->limit, (struct weir_key){&k, sizeof k}, 1, NEXT_SLOT,
			            &d);
		}
	}
	return NULL;
}

static void test_refunds_to_older_slots_at_once_are_all_counted(void **context)
{
	struct load load = {.keys = 200, .rounds = 8};
	pthread_t ids[4];
	struct weir_decision d;

	(void)context;
	open_all(&load, 1000, WEIR_ALGORITHM_SLIDING_WINDOW);
	for (unsigned k = 0; k < load.keys; k++) {
		weir_acquire(load.table, load.limit, (struct weir_key){&k, sizeof k}, 40, NOW, &d);
		weir_acquire(load.table, load.limit, (struct weir_key){&k, sizeof k}, 1, NEXT_SLOT, &d);
	}
	pthread_barrier_init(&load.start, NULL, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run_older, &load), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load.start);
	for (unsigned k = 0; k < load.keys; k++) {
		unsigned granted = 0;

		while (weir_acquire(load.table, load.limit, (struct weir_key){&k, sizeof k}, 1, NEXT_SLOT,
		                    &d) == WEIR_OK &&
		       d.allowed)
			granted++;
		assert_int_equal(granted, QUOTA - (41 - 4 * load.rounds));
	}
	close_all(&load);
}

/* Time goes on for all threads together, a hundredth of a period at a time; they read it apart. */
struct flow {
	struct load load;
	uint64_t ticks;
	unsigned granted[1000]; /* in each tick */
};

#define TICKS 1000
#define TICK  UINT64_C(10000000)

static void *run_flow(void *context)
{
	struct flow *flow = context;

	pthread_barrier_wait(&flow->load.start);
	for (;;) {
		uint64_t n = __atomic_fetch_add(&flow->ticks, 1, __ATOMIC_RELAXED) / 40;
		struct weir_decision d;

		if (n >= TICKS)
			return NULL;
		weir_acquire(flow->load.table, flow->load.limit, (struct weir_key){"k", 1}, 1,
		             NOW + n * TICK, &d);
		if (d.allowed)
			__atomic_fetch_add(&flow->granted[n], 1, __ATOMIC_RELAXED);
		if (d.allowed && n % 7 == 0) {
			weir_refund(flow->load.table, flow->load.limit, (struct weir_key){"k", 1}, 1,
			            NOW + n * TICK, &d);
			__atomic_fetch_sub(&flow->granted[n], 1, __ATOMIC_RELAXED);
		}
	}
}

/* Ten slots of ten ticks: what all threads were granted in any ten slots is within the limit. */
static void test_threads_never_get_more_while_time_slides(void **context)
{
	(void)context;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++) {
		struct flow flow = {.ticks = 0};
		pthread_t ids[4];
		unsigned all = 0;

		assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 10},
		                                 &flow.load.table, NULL), 0);
		assert_int_equal(weir_limit_open(&(struct weir_limit_options){.algorithm = a,
		                                                              .rate = {QUOTA}},
		                                 &flow.load.limit, NULL), 0);
		pthread_barrier_init(&flow.load.start, NULL, 4);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&ids[i], NULL, run_flow, &flow), 0);
		for (unsigned i = 0; i < 4; i++)
			pthread_join(ids[i], NULL);
		pthread_barrier_destroy(&flow.load.start);
		for (unsigned i = 0; i < TICKS; i++)
			all += flow.granted[i];
		/* A clock that lags takes at a time that is newer than its own. */
		assert_in_range(all, 9 * QUOTA, 10 * QUOTA);
		close_all(&flow.load);
	}
}

static void *run_slots(void *context)
{
	struct load *load = context;
	struct weir_decision d;

	pthread_barrier_wait(&load->start);
	for (unsigned k = 0; k < load->keys; k++)
		for (unsigned r = 0; r < load->rounds; r++)
			weir_acquire(load->table, load->limit, (struct weir_key){&k, sizeof k}, 1,
			             NOW + r * TICK, &d);
	return NULL;
}

/* Each request goes on to another slot, or finds that others are about to. */
static void test_threads_that_open_slots_at_once_lose_no_grant(void **context)
{
	struct load load = {.keys = 200, .rounds = 100};
	pthread_t ids[4];
	struct weir_decision d;

	(void)context;
	assert_int_equal(weir_table_open(NULL, &load.table, NULL), 0);
	assert_int_equal(
	    weir_limit_open(
	        &(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
	                                     .rate = {1000, 100 * TICK, WEIR_UNIT_NANOSECOND},
	                                     .slots = 100},
	        &load.limit, NULL),
	    0);
	pthread_barrier_init(&load.start, NULL, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run_slots, &load), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load.start);
	for (unsigned k = 0; k < load.keys; k++) {
		weir_peek(load.table, load.limit, (struct weir_key){&k, sizeof k}, 1, NOW + 99 * TICK, &d);
		assert_int_equal(d.remaining, 1000 - 4 * load.rounds);
	}
	close_all(&load);
}

/* A width of its own for a limit of many entries, and as bounded. */
static void test_a_full_width_evicts_and_counts(void **context)
{
	struct weir_table_stats stats;
	weir_limit *limit;
	weir_table *table;

	(void)context;
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 10}, &table, NULL), 0);
	assert_int_equal(
	    weir_limit_open(
	        &(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {1000}},
	        &limit, NULL),
	    0);
	weir_table_stats(table, NOW, &stats);
	assert_int_equal(stats.live, 0);
	assert_int_equal(stats.cells, 48);
	for (unsigned i = 0; i < 100; i++) {
		struct weir_decision d;

		for (unsigned j = 0; j < 3; j++) {
			weir_acquire(table, limit, (struct weir_key){&i, sizeof i}, 1, NOW + i, &d);
			assert_int_equal(d.remaining, 999 - j);
		}
	}
	weir_table_stats(table, NOW, &stats);
	assert_int_equal(stats.cells, 48 + 56);
	assert_in_range(stats.live, 40, 56);
	assert_int_equal(stats.evictions, 100 - stats.live);
	weir_limit_close(limit);
	weir_table_close(table);
}

/* Far more keys than cells: some are evicted, none is granted less than the limit. */
static void test_a_full_table_still_decides(void **context)
{
	struct load load = {.keys = 2000, .rounds = QUOTA};
	struct weir_table_stats stats;

	(void)context;
	open_all(&load, 100, WEIR_ALGORITHM_TOKEN_BUCKET);
	meet(&load, 4);
	weir_table_stats(load.table, NOW, &stats);
	assert_true(stats.evictions > 0);
	assert_true(stats.live <= stats.cells);
	for (unsigned k = 0; k < load.keys; k++)
		assert_true(load.granted[k] >= QUOTA);
	close_all(&load);
}

static void *run_limiter(void *context)
{
	struct load *load = context;
	struct weir_decision d;

	pthread_barrier_wait(&load->start);
	for (unsigned i = 0; i < load->rounds; i++) {
		weir_limiter_acquire((weir_limiter *)load->table, 1, NOW, &d);
		if (d.allowed)
			__atomic_fetch_add(&load->granted[0], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void test_threads_on_a_limiter_without_keys(void **context)
{
	struct load load = {.keys = 1, .rounds = 2000};
	pthread_t ids[4];
	weir_limiter *limiter;

	(void)context;
	assert_int_equal(
	    weir_limiter_open(&(struct weir_limit_options){.rate = {QUOTA, 1, WEIR_UNIT_HOUR}},
	                      &limiter, NULL),
	    0);
	load.table = (weir_table *)limiter;
	load.granted = calloc(1, sizeof *load.granted);
	pthread_barrier_init(&load.start, NULL, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run_limiter, &load), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load.start);
	assert_int_equal(load.granted[0], QUOTA);
	free(load.granted);
	weir_limiter_close(limiter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_threads_on_one_key_get_exactly_the_limit),
	    cmocka_unit_test(test_threads_on_keys_never_seen_get_exactly_the_limit),
	    cmocka_unit_test(test_threads_on_colliding_keys_get_exactly_the_limit),
	    cmocka_unit_test(test_refund_and_acquire_at_once),
	    cmocka_unit_test(test_refunds_to_older_slots_at_once_are_all_counted),
	    cmocka_unit_test(test_threads_never_get_more_while_time_slides),
	    cmocka_unit_test(test_threads_that_open_slots_at_once_lose_no_grant),
	    cmocka_unit_test(test_a_full_width_evicts_and_counts),
	    cmocka_unit_test(test_a_full_table_still_decides),
	    cmocka_unit_test(test_threads_on_a_limiter_without_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
