/* Threads that meet on a breaker, through the public calls. Time stands still, so numbers are exact. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <weir/weir.h>

#define NOW     UINT64_C(1700000000000000000)
#define S       UINT64_C(1000000000)
#define THREADS 4

static struct {
	weir_table *table;
	weir_limit *limit;
	pthread_barrier_t start;
	unsigned rounds;
	uint64_t now_ns;
	enum weir_outcome outcome;
	bool holds; /* it reports nothing */
	unsigned granted, in_flight, most, refused;
} load;

static void begin(struct weir_health_options health, uint64_t keys)
{
	struct weir_limit_options options = {.algorithm = WEIR_BREAKER, .keys = keys, .health = &health};

	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 1000}, &load.table, NULL),
	                 WEIR_OK);
	assert_int_equal(weir_limit_open(&options, &load.limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(load.table, load.limit, NULL), WEIR_OK);
	load.granted = load.in_flight = load.most = load.refused = 0;
	load.holds = false;
	load.now_ns = NOW;
}

static void end(void)
{
	weir_limit_close(load.limit);
	weir_table_close(load.table);
}

static bool acquire(const char *key, size_t len, struct weir_permit *permit)
{
	struct weir_decision d;

	if (weir_acquire_permit(load.table, load.limit, key, len, 1, load.now_ns, &d, permit) != WEIR_OK)
		abort();
	return d.allowed;
}

static int report(const char *key, size_t len, const struct weir_permit *permit)
{
	return weir_report(load.table, load.limit, key, len, permit, load.outcome, 1, load.now_ns);
}

static void note_most(unsigned in_flight)
{
	unsigned most = __atomic_load_n(&load.most, __ATOMIC_RELAXED);

	while (most < in_flight && !__atomic_compare_exchange_n(&load.most, &most, in_flight, false,
	                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

static void *run(void *context)
{
	(void)context;
	pthread_barrier_wait(&load.start);
	for (unsigned r = 0; r < load.rounds; r++) {
		struct weir_permit permit;

		if (!acquire("key", 3, &permit)) {
			__atomic_fetch_add(&load.refused, 1, __ATOMIC_RELAXED);
			continue;
		}
		__atomic_fetch_add(&load.granted, 1, __ATOMIC_RELAXED);
		note_most(__atomic_add_fetch(&load.in_flight, 1, __ATOMIC_RELAXED));
		if (load.holds)
			continue;
		__atomic_fetch_sub(&load.in_flight, 1, __ATOMIC_RELAXED);
		if (report("key", 3, &permit) != WEIR_OK)
			abort();
	}
	return NULL;
}

static void meet(unsigned rounds)
{
	pthread_t ids[THREADS];

	load.rounds = rounds;
	pthread_barrier_init(&load.start, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load.start);
}

static struct weir_decision peek(const char *key, size_t len)
{
	struct weir_decision d;

	weir_peek(load.table, load.limit, key, len, 1, load.now_ns, &d);
	return d;
}

/* All results are counted: the one failure of so many is one too few, or just enough. */
static void every_result_of_threads_that_meet_counts(void **unused)
{
	struct weir_permit permit;

	(void)unused;
	begin((struct weir_health_options){.minimum = THREADS * 5000 + 1, .failure_percent = 100}, 0);
	load.outcome = WEIR_OUTCOME_FAILURE;
	meet(5000);
	assert_int_equal(load.granted, THREADS * 5000);
	assert_true(peek("key", 3).allowed);
	assert_true(acquire("key", 3, &permit));
	report("key", 3, &permit);
	assert_int_equal(peek("key", 3).reason, WEIR_REASON_BREAKER_OPEN);
	end();
}

static void a_window_of_calls_loses_none_either(void **unused)
{
	struct weir_permit permit;

	(void)unused;
	begin((struct weir_health_options){.calls = 1000, .minimum = 1000, .failure_percent = 100}, 0);
	load.outcome = WEIR_OUTCOME_FAILURE;
	meet(999 / THREADS);
	for (unsigned i = 0; i < 999 % THREADS; i++) {
		assert_true(acquire("key", 3, &permit));
		report("key", 3, &permit);
	}
	assert_true(peek("key", 3).allowed);
	assert_true(acquire("key", 3, &permit));
	report("key", 3, &permit);
	assert_int_equal(peek("key", 3).reason, WEIR_REASON_BREAKER_OPEN);
	end();
}

/* In-flight checked, then added: with one look and one add more than the bound would pass. */
static void the_bulkhead_holds_among_threads(void **unused)
{
	(void)unused;
	begin((struct weir_health_options){.max_concurrent = 3}, 0);
	load.outcome = WEIR_OUTCOME_SUCCESS;
	meet(20000);
	assert_in_range(load.most, 1, 3);
	assert_int_equal(peek("key", 3).remaining, 3);
	load.holds = true;
	meet(10);
	assert_int_equal(load.in_flight, 3);
	end();
}

/* Two threads that open it at once: it opens once, and as many probes pass as may. */
static void threads_that_meet_in_half_open_get_the_probes_and_no_more(void **unused)
{
	(void)unused;
	for (int i = 0; i < 200; i++) {
		begin((struct weir_health_options){.minimum = 1, .probes = 2}, 0);
		load.outcome = WEIR_OUTCOME_FAILURE;
		meet(3);
		assert_in_range(load.granted, 1, 3 * THREADS);
		assert_int_equal(peek("key", 3).retry_after_ns, 5 * S);
		load.granted = 0;
		load.now_ns = NOW + 5 * S;
		load.holds = true;
		meet(3);
		assert_int_equal(load.granted, 2);
		end();
	}
}

static void an_idle_open_breaker_is_not_evicted(void **unused)
{
	struct weir_permit permit;
	char key[16];

	(void)unused;
	begin((struct weir_health_options){.minimum = 1, .sleep_ns = 3600 * S}, 40);
	load.outcome = WEIR_OUTCOME_FAILURE;
	assert_true(acquire("sick", 4, &permit));
	report("sick", 4, &permit);
	load.outcome = WEIR_OUTCOME_SUCCESS;
	for (int i = 0; i < 5000; i++) {
		int len = snprintf(key, sizeof key, "key%d", i);

		if (acquire(key, (size_t)len, &permit))
			report(key, (size_t)len, &permit);
	}
	assert_int_equal(peek("sick", 4).reason, WEIR_REASON_BREAKER_OPEN);
	end();
}

static void a_permit_is_reported_once(void **unused)
{
	struct weir_permit first, second;
	struct weir_decision d;

	(void)unused;
	begin((struct weir_health_options){.minimum = 2, .failure_percent = 100}, 0);
	load.outcome = WEIR_OUTCOME_FAILURE;
	assert_true(acquire("key", 3, &first));
	assert_true(acquire("key", 3, &second));
	assert_int_equal(report("key", 3, &first), WEIR_OK);
	assert_int_equal(report("key", 3, &first), WEIR_ENOTFOUND);
	assert_int_equal(weir_refund_permit(load.table, load.limit, "key", 3, &first, NOW, &d),
	                 WEIR_ENOTFOUND);
	assert_true(peek("key", 3).allowed);
	assert_int_equal(report("key", 3, &second), WEIR_OK);
	assert_false(peek("key", 3).allowed);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_result_of_threads_that_meet_counts),
	    cmocka_unit_test(a_window_of_calls_loses_none_either),
	    cmocka_unit_test(the_bulkhead_holds_among_threads),
	    cmocka_unit_test(threads_that_meet_in_half_open_get_the_probes_and_no_more),
	    cmocka_unit_test(an_idle_open_breaker_is_not_evicted),
	    cmocka_unit_test(a_permit_is_reported_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
