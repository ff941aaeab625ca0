/*
 * Tests threads on one breaker, through the public calls. Time stands still, so numbers are exact.
 */
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

static void begin(struct weir_breaker_options breaker, uint64_t keys)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BREAKER, .keys = keys, .breaker = &breaker};

	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 1000}, &load.table, NULL),
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

	if (weir_ask(load.table, load.limit, (struct weir_key){key, len},
	             &(struct weir_ask){.now_ns = load.now_ns, .permit = permit}, &d) != WEIR_OK)
		abort();
	return d.allowed;
}

static int report(const char *key, size_t len, const struct weir_permit *permit)
{
	return weir_report(
	    load.table, load.limit, (struct weir_key){key, len}, permit,
	    &(struct weir_report){.outcome = load.outcome, .latency_ns = 1, .now_ns = load.now_ns});
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

/* Permits on their way from the thread that got them to one that reports them. */
static struct {
	pthread_mutex_t mutex;
	struct weir_permit permits[THREADS * 4];
	unsigned count;
} handed = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Hands one in, and gets another one out once there are enough. */
static bool hand_on(struct weir_permit *permit)
{
	struct weir_permit mine = *permit;
	bool full;

	pthread_mutex_lock(&handed.mutex);
	full = handed.count == sizeof handed.permits / sizeof *handed.permits;
	if (full) {
		*permit = handed.permits[0];
		handed.count--;
		for (unsigned i = 0; i < handed.count; i++)
			handed.permits[i] = handed.permits[i + 1];
	}
	handed.permits[handed.count++] = mine;
	pthread_mutex_unlock(&handed.mutex);
	return full;
}

static void *run_crosswise(void *context)
{
	(void)context;
	pthread_barrier_wait(&load.start);
	for (unsigned r = 0; r < load.rounds; r++) {
		struct weir_permit permit;

		if (!acquire("key", 3, &permit))
			abort();
		if (hand_on(&permit) && report("key", 3, &permit) != WEIR_OK)
			abort();
	}
	return NULL;
}

static void meet_in(void *(*run_one)(void *), unsigned rounds)
{
	pthread_t ids[THREADS];

	load.rounds = rounds;
	pthread_barrier_init(&load.start, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run_one, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load.start);
}

static void meet(unsigned rounds)
{
	meet_in(run, rounds);
}

static struct weir_decision peek(const char *key, size_t len)
{
	struct weir_decision d;

	weir_peek(load.table, load.limit, (struct weir_key){key, len}, 1, load.now_ns, &d);
	return d;
}

/* All results are counted: the one failure of so many is one too few, or just enough. */
static void every_result_of_threads_that_meet_counts(void **unused)
{
	struct weir_permit permit;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = THREADS * 5000 + 1, .failure_percent = 100}, 0);
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
	begin((struct weir_breaker_options){.calls = 1000, .minimum = 1000, .failure_percent = 100}, 0);
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

/*
 * Successes, nearly all while it is calm, each reported by whichever thread: as many failures then
 * open it as the sum over all stripes says, and not one fewer. None is lost, none counted twice.
 */
static void it_opens_exactly_when_the_sum_of_all_stripes_says(void **unused)
{
	const unsigned each = 3000, successes = THREADS * each;
	struct weir_permit permit;

	(void)unused;
	begin((struct weir_breaker_options){.failure_percent = 50}, 0);
	load.outcome = WEIR_OUTCOME_SUCCESS;
	handed.count = 0;
	meet_in(run_crosswise, each);
	for (unsigned i = 0; i < handed.count; i++)
		assert_int_equal(report("key", 3, &handed.permits[i]), WEIR_OK);
	load.outcome = WEIR_OUTCOME_FAILURE;
	for (unsigned i = 1; i <= successes; i++) {
		assert_true(acquire("key", 3, &permit));
		assert_int_equal(report("key", 3, &permit), WEIR_OK);
		assert_int_equal(peek("key", 3).allowed, i < successes);
	}
	end();
}

/* All flights are gone again: had one stayed in any stripe, its time would be up as a failure. */
static void no_permit_is_left_in_any_stripe(void **unused)
{
	struct weir_permit permit;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1, .failure_percent = 1}, 0);
	load.outcome = WEIR_OUTCOME_SUCCESS;
	handed.count = 0;
	meet_in(run_crosswise, 3000);
	for (unsigned i = 0; i < handed.count; i++)
		assert_int_equal(report("key", 3, &handed.permits[i]), WEIR_OK);
	load.now_ns += 60 * S;
	assert_true(acquire("key", 3, &permit));
	assert_true(peek("key", 3).allowed);
	end();
}

/* A permit that nobody reports ends in time, though it was calm until then: others do not hide it.
 */
static void quiescence_hides_no_lost_permit(void **unused)
{
	struct weir_permit permit, lost;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = 2, .failure_percent = 1, .permit_timeout_ns = S},
	      0);
	load.outcome = WEIR_OUTCOME_SUCCESS;
	assert_true(acquire("key", 3, &lost));
	load.now_ns += S / 2;
	for (int i = 0; i < 10; i++) {
		assert_true(acquire("key", 3, &permit));
		assert_int_equal(report("key", 3, &permit), WEIR_OK);
	}
	load.now_ns = NOW + S - 1;
	assert_true(acquire("key", 3, &permit));
	assert_int_equal(report("key", 3, &permit), WEIR_OK);
	load.now_ns = NOW + S;
	assert_false(acquire("key", 3, &permit));
	end();
}

/* In-flight checked, then added: with one look and one add more than the bound would pass. */
static void the_bulkhead_holds_among_threads(void **unused)
{
	(void)unused;
	begin((struct weir_breaker_options){.max_concurrent = 3}, 0);
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
		begin((struct weir_breaker_options){.minimum = 1, .probes = 2}, 0);
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
	begin((struct weir_breaker_options){.minimum = 1, .sleep_ns = 3600 * S}, 40);
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
	begin((struct weir_breaker_options){.minimum = 2, .failure_percent = 100}, 0);
	load.outcome = WEIR_OUTCOME_FAILURE;
	assert_true(acquire("key", 3, &first));
	assert_true(acquire("key", 3, &second));
	assert_int_equal(report("key", 3, &first), WEIR_OK);
	assert_int_equal(report("key", 3, &first), WEIR_ENOTFOUND);
	assert_int_equal(
	    weir_refund_permit(load.table, load.limit, (struct weir_key){"key", 3}, &first, NOW, &d),
	    WEIR_ENOTFOUND);
	assert_true(peek("key", 3).allowed);
	assert_int_equal(report("key", 3, &second), WEIR_OK);
	assert_false(peek("key", 3).allowed);
	end();
}

#define PARTS_TIMEOUT_NS (8 * S)        /* permits are counted in parts of an eighth of it, ... */
#define REUSE_NS         (10 * (S + 1)) /* and ten parts later in the same cell */

/*
 * A reporter reads the clock, and stalls until its permit has expired and the permit's cell counts
 * others.
 */
static void a_report_that_stalls_takes_no_later_permit(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 20; i++) {
		struct weir_permit former, later;
		uint64_t start_ns = NOW + i / 2 * S / 7;

		begin((struct weir_breaker_options){.permit_timeout_ns = PARTS_TIMEOUT_NS, .minimum = 1000},
		      i % 2 ? 100 : 0);
		load.outcome = WEIR_OUTCOME_SUCCESS;
		load.now_ns = start_ns;
		assert_true(acquire("key", 3, &former));
		load.now_ns = start_ns + REUSE_NS;
		assert_true(acquire("key", 3, &later));
		load.now_ns = former.until_ns - 1;
		assert_int_equal(report("key", 3, &former), WEIR_ENOTFOUND);
		load.now_ns = start_ns + REUSE_NS;
		assert_int_equal(report("key", 3, &later), WEIR_OK);
		end();
	}
}

/* The acquirer stalls, too: its cell counts permits of a later time already. */
static void a_permit_of_a_clock_that_lags_is_reported(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 20; i++) {
		struct weir_permit later, lagging;

		begin((struct weir_breaker_options){.permit_timeout_ns = PARTS_TIMEOUT_NS, .minimum = 1000},
		      i % 2 ? 100 : 0);
		load.outcome = WEIR_OUTCOME_SUCCESS;
		load.now_ns = NOW + i / 2 * S / 7 + REUSE_NS;
		assert_true(acquire("key", 3, &later));
		load.now_ns -= REUSE_NS;
		assert_true(acquire("key", 3, &lagging));
		assert_int_equal(lagging.until_ns, later.until_ns);
		assert_int_equal(report("key", 3, &lagging), WEIR_OK);
		load.now_ns += REUSE_NS;
		assert_int_equal(report("key", 3, &later), WEIR_OK);
		end();
	}
}

/* The same limit as a reload brings it. */
static void reload(struct weir_breaker_options breaker, uint64_t keys)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BREAKER, .keys = keys, .breaker = &breaker};

	weir_limit_close(load.limit);
	assert_int_equal(weir_limit_open(&options, &load.limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(load.table, load.limit, NULL), WEIR_OK);
}

static bool passes(const char *key, size_t len)
{
	struct weir_permit permit;

	return acquire(key, len, &permit) && report(key, len, &permit) == WEIR_OK;
}

/* Tests that one set of parameters never takes cells of another set for lost permits. */
static void no_reload_opens_a_healthy_breaker(void **state)
{
	static const struct {
		struct weir_breaker_options before, after;
	} reloads[] = {
	    {{0}, {.calls = 60, .max_concurrent = 60}},
	    {{.preset = WEIR_BREAKER_PRESET_HYSTRIX}, {.calls = 60, .max_concurrent = 40}},
	    {{.calls = 1000}, {0}},
	    {{0}, {.calls = 1000}},
	    {{0}, {.max_concurrent = 60}},
	};

	(void)state;
	load.outcome = WEIR_OUTCOME_SUCCESS;
	for (size_t i = 0; i < sizeof reloads / sizeof *reloads; i++) {
		begin(reloads[i].before, 1000);
		for (unsigned key = 0; key < 100; key++)
			for (unsigned n = 0; n < 40; n++)
				assert_true(passes((const char *)&key, sizeof key));
		reload(reloads[i].after, 1000);
		for (unsigned key = 0; key < 100; key++)
			for (unsigned n = 0; n < 2; n++)
				assert_true(passes((const char *)&key, sizeof key));
		end();
	}
}

/* Permits whose place or time a reload has changed say nothing, as after a larger table. */
static void permits_from_before_a_reload_are_not_lost(void **state)
{
	static const struct {
		struct weir_breaker_options before, after;
	} reloads[] = {
	    {{.permit_timeout_ns = 60 * S}, {.permit_timeout_ns = 5 * S}},
	    {{.permit_timeout_ns = 5 * S}, {.permit_timeout_ns = 60 * S}},
	    {{.calls = 1000}, {0}},
	    {{.max_concurrent = 30}, {0}},
	};

	(void)state;
	load.outcome = WEIR_OUTCOME_SUCCESS;
	for (size_t i = 0; i < sizeof reloads / sizeof *reloads; i++) {
		struct weir_permit permits[30];

		begin(reloads[i].before, 100);
		for (unsigned n = 0; n < 30; n++)
			assert_true(acquire("key", 3, &permits[n]));
		reload(reloads[i].after, 100);
		assert_true(passes("key", 3));
		for (unsigned n = 0; n < 30; n++)
			report("key", 3, &permits[n]);
		for (unsigned n = 0; n < 20; n++, load.now_ns += S / 2)
			assert_true(passes("key", 3));
		for (unsigned n = 0; n < 20; n++, load.now_ns += 4 * S)
			assert_true(passes("key", 3));
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_result_of_threads_that_meet_counts),
	    cmocka_unit_test(a_window_of_calls_loses_none_either),
	    cmocka_unit_test(it_opens_exactly_when_the_sum_of_all_stripes_says),
	    cmocka_unit_test(no_permit_is_left_in_any_stripe),
	    cmocka_unit_test(quiescence_hides_no_lost_permit),
	    cmocka_unit_test(the_bulkhead_holds_among_threads),
	    cmocka_unit_test(threads_that_meet_in_half_open_get_the_probes_and_no_more),
	    cmocka_unit_test(an_idle_open_breaker_is_not_evicted),
	    cmocka_unit_test(a_permit_is_reported_once),
	    cmocka_unit_test(a_report_that_stalls_takes_no_later_permit),
	    cmocka_unit_test(a_permit_of_a_clock_that_lags_is_reported),
	    cmocka_unit_test(no_reload_opens_a_healthy_breaker),
	    cmocka_unit_test(permits_from_before_a_reload_are_not_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
