/*
 * Tests measured limits on requests in flight, through the public calls. Time moves only where a
 * test moves it, so numbers are exact.
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

#define NOW     UINT64_C(1700000000000000000)
#define MS      UINT64_C(1000000)
#define S       (1000 * MS)
#define THREADS 4
#define LIMIT   7
#define ROUNDS  20000

static struct {
	weir_table *table;
	weir_limit *limit;
	pthread_barrier_t start;
	uint64_t now_ns;
	unsigned in_flight, most, granted;
} load;

static void begin(struct weir_limit_options options)
{
	options.algorithm = WEIR_ALGORITHM_ADAPTIVE;
	weir_seed(1); /* draws take room back that denials have made */
	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 1000}, &load.table, NULL),
	    WEIR_OK);
	assert_int_equal(weir_limit_open(&options, &load.limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(load.table, load.limit, NULL), WEIR_OK);
	load.in_flight = load.most = load.granted = 0;
	load.now_ns = NOW;
}

/* A limit that no report moves. */
static void begin_fixed(uint64_t limit)
{
	begin((struct weir_limit_options){
	    .adaptive = &(struct weir_adaptive_options){.max = limit, .min = limit}});
}

static void end(void)
{
	weir_limit_close(load.limit);
	weir_table_close(load.table);
}

static bool acquire(const char *key, struct weir_permit *permit)
{
	struct weir_decision d;

	if (weir_ask(load.table, load.limit, (struct weir_key){key, 3},
	             &(struct weir_ask){.now_ns = load.now_ns, .permit = permit}, &d) != WEIR_OK)
		abort();
	if (d.remaining > d.quota || (!d.allowed && d.reason != WEIR_REASON_OVER_LIMIT))
		abort();
	return d.allowed;
}

static int report(const char *key, const struct weir_permit *permit, uint64_t latency_ns)
{
	return weir_report(load.table, load.limit, (struct weir_key){key, 3}, permit,
	                   &(struct weir_report){.latency_ns = latency_ns, .now_ns = load.now_ns});
}

static struct weir_decision peek(const char *key)
{
	struct weir_decision d;

	assert_int_equal(
	    weir_peek(load.table, load.limit, (struct weir_key){key, 3}, 1, load.now_ns, &d), WEIR_OK);
	return d;
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
	for (unsigned r = 0; r < ROUNDS; r++) {
		struct weir_permit permits[LIMIT];
		unsigned n = 0;

		while (n < 1 + r % LIMIT && acquire("key", &permits[n])) {
			note_most(__atomic_add_fetch(&load.in_flight, 1, __ATOMIC_SEQ_CST));
			__atomic_fetch_add(&load.granted, 1, __ATOMIC_RELAXED);
			n++;
		}
		while (n-- > 0) {
			__atomic_fetch_sub(&load.in_flight, 1, __ATOMIC_SEQ_CST);
			if (report("key", &permits[n], MS) != WEIR_OK)
				abort();
		}
	}
	return NULL;
}

static void in_flight_checked_then_added_by_threads_is_never_over(void **unused)
{
	pthread_t ids[THREADS];

	(void)unused;
	begin_fixed(LIMIT);
	pthread_barrier_init(&load.start, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&load.start);
	assert_in_range(load.most, 1, LIMIT);
	assert_true(load.granted > THREADS * ROUNDS / 2);
	assert_int_equal(peek("key").remaining, LIMIT); /* and all came back */
	end();
}

static void permits_that_nobody_reports_leave_in_time(void **unused)
{
	struct weir_permit permits[LIMIT], more;

	(void)unused;
	begin_fixed(LIMIT);
	for (unsigned i = 0; i < LIMIT; i++, load.now_ns += S)
		assert_true(acquire("key", &permits[i]));
	assert_false(acquire("key", &more));
	load.now_ns = NOW + 60 * S - S / 2;
	assert_false(acquire("key", &more));
	assert_int_equal(report("key", &permits[0], 0), WEIR_OK);
	assert_true(acquire("key", &more));
	load.now_ns = NOW + 73 * S;
	assert_int_equal(report("key", &permits[1], 0), WEIR_ENOTFOUND);
	assert_int_equal(report("key", &more, 0), WEIR_OK);
	load.now_ns = NOW + 80 * S;
	assert_int_equal(peek("key").remaining, LIMIT);
	end();
}

static void a_permit_is_reported_once(void **unused)
{
	struct weir_permit one, other;

	(void)unused;
	begin_fixed(LIMIT);
	assert_true(acquire("key", &one));
	assert_true(acquire("key", &other));
	assert_int_equal(report("key", &one, 0), WEIR_OK);
	assert_int_equal(report("key", &one, 0), WEIR_ENOTFOUND);
	assert_int_equal(peek("key").remaining, LIMIT - 1);
	end();
}

/* A server whose workers take 10 ms each, first come, first served; so many would be in it. */
static uint64_t serve(unsigned answers, uint64_t workers, unsigned wanted)
{
	static struct weir_permit permits[2048];
	unsigned first = 0, n = 0;

	for (unsigned i = 0; i < answers || n > 0; i++) {
		while (i < answers && n < wanted && acquire("key", &permits[(first + n) % 2048]))
			n++;
		load.now_ns += 10 * MS / (n > workers ? workers : n);
		assert_int_equal(report("key", &permits[first++ % 2048], 0), WEIR_OK);
		n--;
	}
	return peek("key").quota;
}

/* Long runs of one thread. */
static void skip_with_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
}

static void the_limit_finds_what_the_server_holds(void **unused)
{
	(void)unused;
	skip_with_thread_sanitizer();
	begin((struct weir_limit_options){0});
	assert_int_equal(peek("key").quota, 20);
	assert_in_range(serve(100000, 100, 300), 85, 125);
	assert_in_range(serve(100000, 50, 300), 42, 65);
	end();
}

static void light_overload_is_no_reason_for_unlimited_growth(void **unused)
{
	(void)unused;
	skip_with_thread_sanitizer();
	begin((struct weir_limit_options){0});
	assert_in_range(serve(200000, 100, 105), 80, 130);
	assert_in_range(serve(200000, 100, 4), 4, 130); /* nor is no load */
	end();
}

static void samples_from_before_a_reset_do_not_count(void **unused)
{
	struct weir_permit permit;
	struct weir_decision d;
	uint64_t quota;

	(void)unused;
	begin((struct weir_limit_options){
	    .adaptive = &(struct weir_adaptive_options){.method = WEIR_METHOD_AIMD}});
	serve(100, 100, 50);
	assert_true(acquire("key", &permit));
	assert_int_equal(
	    weir_reset(load.table, load.limit, (struct weir_key){"key", 3}, load.now_ns, &d), WEIR_OK);
	assert_int_equal(d.quota, 20);
	assert_int_equal(d.remaining, 20);
	assert_int_equal(d.reset_after_ns, 0);
	assert_int_equal(report("key", &permit, 0), WEIR_ENOTFOUND);
	quota = peek("key").quota;
	assert_int_equal(quota, 20);
	end();
}

static void what_was_measured_is_forgotten_after_an_hour_without_requests(void **unused)
{
	uint64_t quota;

	(void)unused;
	begin((struct weir_limit_options){0});
	quota = serve(20000, 100, 300);
	assert_true(quota > 40);
	load.now_ns += 3600 * S - 1;
	assert_int_equal(peek("key").quota, quota);
	load.now_ns += 1;
	assert_int_equal(peek("key").quota, 20);
	assert_int_equal(serve(1, 100, 1), 20); /* its record was cleaned */
	end();
}

static void failures_are_drops_for_aimd_alone(void **unused)
{
	static const enum weir_method methods[] = {WEIR_METHOD_KNEE, WEIR_METHOD_GRADIENT2,
	                                           WEIR_METHOD_BBR, WEIR_METHOD_AIMD};
	struct weir_permit permit;

	(void)unused;
	for (unsigned i = 0; i < 4; i++) {
		begin((struct weir_limit_options){
		    .adaptive = &(struct weir_adaptive_options){
		        .max = 200, .method = methods[i], .min = 1, .initial = 100}});
		for (unsigned n = 0; n < 3; n++) {
			assert_true(acquire("key", &permit));
			load.now_ns += MS;
			assert_int_equal(weir_report(load.table, load.limit, (struct weir_key){"key", 3},
			                             &permit,
			                             &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE,
			                                                   .now_ns = load.now_ns}),
			                 WEIR_OK);
		}
		assert_int_equal(peek("key").quota, methods[i] == WEIR_METHOD_AIMD  ? 72
		                                    : methods[i] == WEIR_METHOD_BBR ? 200
		                                                                    : 100);
		end();
	}
}

static void a_limiter_without_keys_does_the_same(void **unused)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_ADAPTIVE,
	                                     .adaptive =
	                                         &(struct weir_adaptive_options){.max = 2, .min = 2}};
	struct weir_permit permits[2];
	struct weir_decision d;
	weir_limiter *limiter;

	(void)unused;
	assert_int_equal(weir_limiter_open(&options, &limiter, NULL), WEIR_OK);
	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < 2; i++) {
			weir_limiter_ask(
			    limiter, &(struct weir_ask){.now_ns = NOW + round * MS, .permit = &permits[i]}, &d);
			assert_true(d.allowed);
			assert_int_equal(d.remaining, 1 - i);
		}
		weir_limiter_acquire(limiter, 1, NOW + round * MS, &d);
		assert_false(d.allowed);
		assert_int_equal(d.retry_after_ns, S);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(
			    weir_limiter_report(limiter, &permits[i],
			                        &(struct weir_report){.now_ns = NOW + round * MS + MS / 2}),
			    WEIR_OK);
	}
	weir_limiter_close(limiter);
}

static bool ask(unsigned priority, struct weir_permit *permit)
{
	struct weir_decision d;

	assert_int_equal(
	    weir_ask(load.table, load.limit, (struct weir_key){"key", 3},
	             &(struct weir_ask){.priority = priority, .now_ns = load.now_ns, .permit = permit},
	             &d),
	    WEIR_OK);
	return d.allowed;
}

static struct weir_permit held[10];

/* How many of ten requests pass; but for the first, `held` keeps their permits until more pass. */
static unsigned asked(unsigned priority)
{
	unsigned passed = 0;

	for (int i = 0; i < 10; i++)
		passed += ask(priority, &held[passed]);
	return passed;
}

/* A prefetch that fills the limit keeps nobody of a higher priority out for longer than a denial.
 */
static void the_lowest_priority_alone_keeps_to_the_limit(void **state)
{
	(void)state;
	begin((struct weir_limit_options){
	    .adaptive = &(struct weir_adaptive_options){.max = 18, .min = 1, .initial = 9}});
	assert_int_equal(asked(9), 9);
	assert_int_equal(asked(9), 0);
	/* Each denial makes room for one more, up to half of the most room. */
	assert_int_equal(asked(4), 4);
	assert_int_equal(asked(9), 0);
	assert_int_equal(asked(0), 0); /* it has the same room, */
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(weir_report(load.table, load.limit, (struct weir_key){"key", 3}, &held[i],
		                             &(struct weir_report){.outcome = WEIR_OUTCOME_IGNORED,
		                                                   .now_ns = load.now_ns}),
		                 WEIR_OK);
	assert_int_equal(asked(4) + asked(9), 3);
	assert_int_equal(asked(0), 4); /* and more, as 4 has passed */
	assert_int_equal(peek("key").quota, 9);
	assert_int_equal(peek("key").remaining, 0);
	end();
}

static void without_a_lower_priority_nobody_passes_the_limit(void **state)
{
	(void)state;
	begin((struct weir_limit_options){
	    .adaptive = &(struct weir_adaptive_options){.max = 18, .min = 1, .initial = 9}});
	assert_int_equal(asked(3) + asked(3), 9);
	assert_int_equal(asked(0), 4); /* 3 is lower, ... */
	load.now_ns += 11 * S;
	assert_int_equal(asked(0), 0); /* and does not ask any more */
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(in_flight_checked_then_added_by_threads_is_never_over),
	    cmocka_unit_test(permits_that_nobody_reports_leave_in_time),
	    cmocka_unit_test(a_permit_is_reported_once),
	    cmocka_unit_test(the_limit_finds_what_the_server_holds),
	    cmocka_unit_test(light_overload_is_no_reason_for_unlimited_growth),
	    cmocka_unit_test(samples_from_before_a_reset_do_not_count),
	    cmocka_unit_test(what_was_measured_is_forgotten_after_an_hour_without_requests),
	    cmocka_unit_test(failures_are_drops_for_aimd_alone),
	    cmocka_unit_test(a_limiter_without_keys_does_the_same),
	    cmocka_unit_test(the_lowest_priority_alone_keeps_to_the_limit),
	    cmocka_unit_test(without_a_lower_priority_nobody_passes_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
