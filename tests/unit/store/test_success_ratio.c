/*
 * Tests counts of requests and their reports among threads, exactly, with internal functions; and
 * through the public calls, how a larger table and other parameters treat these counts. Time stands
 * still.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "records/success_counts.h"
#include "store/apply_step.h"

#define NOW     UINT64_C(1700000000000000000)
#define S       NS_PER_S
#define THREADS 4

static struct {
	struct algo_limit limit;
	struct cell header, record[ALGO_WIDTH_MOST];
	pthread_barrier_t start;
	unsigned rounds, granted;
	uint64_t now_ns;
	enum weir_outcome outcome; /* WEIR_OUTCOME_COUNT if none is reported */
} load;

static void begin(struct weir_throttle_options breaker)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_THROTTLE,
	                                     .throttle = &breaker};

	memset(&load, 0, sizeof load);
	assert_int_equal(algo_limit_init(&load.limit, &options, NULL), WEIR_OK);
	load.now_ns = NOW;
	load.outcome = WEIR_OUTCOME_SUCCESS;
}

static struct record_state at(void)
{
	return (struct record_state){
	    &load.header, load.header, {load.record, load.limit.width, KEYLESS_TAG, true}};
}

static uint64_t apply(struct algo_call call, struct algo_decision *out)
{
	struct record_state alone = at();
	struct algo_time time = {load.now_ns, 0};

	return wide_apply_cell(&alone, &load.limit, &call, &time, out);
}

/* One whose draw is among those that are shed, however few. */
static uint64_t acquire(struct algo_decision *out)
{
	return apply((struct algo_call){.op = ALGO_ACQUIRE, .cost = 1, .draw = 1}, out);
}

static void report(uint64_t until_ns, enum weir_outcome outcome)
{
	struct algo_decision out;

	apply((struct algo_call){ALGO_REPORT, 1, until_ns, .outcome = outcome}, &out);
	if (!out.allowed)
		abort();
}

static struct success_state look(void)
{
	struct success_state state = {.now_ns = load.now_ns};
	struct record_state alone = at();

	success_record_advance(&load.limit, &alone.record, &state);
	success_record_read(&load.limit, &alone.record, &state);
	return state;
}

static struct success_part newest(void)
{
	return look().parts[load.limit.success.parts - 1];
}

static void *run(void *context)
{
	(void)context;
	pthread_barrier_wait(&load.start);
	for (unsigned r = 0; r < load.rounds; r++) {
		struct algo_decision out;
		uint64_t until_ns = acquire(&out);

		if (!out.allowed)
			continue;
		__atomic_fetch_add(&load.granted, 1, __ATOMIC_RELAXED);
		if (load.outcome < WEIR_OUTCOME_COUNT)
			report(until_ns, load.outcome);
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

static void counts_of_threads_at_once_are_not_lost(void **unused)
{
	(void)unused;
	begin((struct weir_throttle_options){.minimum = 1000000});
	meet(5000);
	assert_int_equal(load.granted, THREADS * 5000);
	assert_int_equal(newest().requests, THREADS * 5000);
	assert_int_equal(newest().accepts, THREADS * 5000);
	load.outcome = WEIR_OUTCOME_IGNORED;
	meet(5000);
	assert_int_equal(newest().requests, THREADS * 5000);
	load.outcome = WEIR_OUTCOME_FAILURE;
	assert_false(newest().failed);
	meet(10);
	assert_true(newest().failed);
	assert_int_equal(newest().accepts, THREADS * 5000);
}

static void one_of_several_threads_passes_in_a_second(void **unused)
{
	(void)unused;
	begin((struct weir_throttle_options){0});
	load.outcome = WEIR_OUTCOME_FAILURE;
	meet(1);
	for (unsigned i = 1; i < 3000; i++) {
		load.granted = 0;
		load.now_ns += S;
		meet(3);
		assert_int_equal(load.granted, 1);
	}
}

static void a_part_that_is_full_keeps_its_ratio(void **unused)
{
	const struct success_params *params = &load.limit.success;
	struct record_state alone;
	struct algo_decision out;
	uint64_t part, before, after;

	(void)unused;
	begin((struct weir_throttle_options){0});
	report(acquire(&out), WEIR_OUTCOME_SUCCESS);
	part = success_part_of(params, NOW);
	alone = at();
	success_record_add(
	    &load.limit, &alone, part,
	    (struct success_part){.requests = (UINT64_C(1) << 31) - 2, .accepts = UINT64_C(1) << 29});
	before = success_shed_share(params, &(struct success_state){.parts[39] = newest()});
	assert_int_equal(newest().requests, (UINT64_C(1) << 31) - 1);
	for (int i = 0; i < 3; i++)
		acquire(&out);
	after = success_shed_share(params, &(struct success_state){.parts[39] = newest()});
	assert_true(newest().requests < UINT64_C(1) << 31);
	assert_in_range(after, before - (before >> 20), before + (before >> 20));
	for (unsigned i = 0; i < 40; i++) /* nor does it pass what can be computed with */
		success_record_add(&load.limit, &alone, part - i,
		                   (struct success_part){.requests = (UINT64_C(1) << 31) - 1});
	assert_true(success_shed_share(params, &(struct success_state){.parts[0] = newest()}) <
	            PRIORITY_ALL);
}

/* One of a priority, which passes if it loses a share of at most `draw`. */
static bool passes(unsigned priority, double draw)
{
	struct algo_decision out;

	apply((struct algo_call){.op = ALGO_ACQUIRE,
	                         .cost = 1,
	                         .priority = (uint8_t)priority,
	                         .draw = (uint64_t)(draw * 0x1p64)},
	      &out);
	return out.allowed;
}

/* Two of four requests are accepted, and two have low priorities. */
static void the_lowest_priorities_are_shed_first(void **unused)
{
	unsigned high = 0, low = 0, middle = 0;

	(void)unused;
	begin((struct weir_throttle_options){.k = 1});
	for (unsigned i = 0; i < 20000; i++) {
		double draw = (double)(i * UINT64_C(2654435761) % 20000) / 20000;
		struct record_state alone;

		load.now_ns += S / 1000;
		high += passes(0, draw);
		middle += passes(3, draw);
		low += passes(9, draw) + passes(8, draw);
		alone = at();
		success_record_add(&load.limit, &alone, look().newest, (struct success_part){.accepts = 2});
	}
	assert_in_range(high, 19900, 20000);
	assert_in_range(middle, 19000, 20000);
	assert_in_range(low, 0, 2000);
}

static void the_shed_shares_of_priorities_sum_to_the_whole(void **unused)
{
	struct success_state state;
	uint64_t share, lost;

	(void)unused;
	begin((struct weir_throttle_options){0});
	for (unsigned i = 0; i < 30; i++)
		passes(i % 3 * 4, 0.999999);
	state = look();
	assert_int_equal(state.demand.calls[4], 10);
	assert_int_equal(state.demand.calls[8], 10);
	share = PRIORITY_ALL / 2;
	assert_int_equal(success_shed_share_of(&load.limit.success, &state, share, 8), PRIORITY_ALL);
	lost = success_shed_share_of(&load.limit.success, &state, share, 4);
	assert_in_range(lost, PRIORITY_ALL / 2 - (PRIORITY_ALL >> 4), PRIORITY_ALL / 2 + 1);
	assert_int_equal(success_shed_share_of(&load.limit.success, &state, share, 0), 0);
	load.now_ns += 15 * S; /* demand of late is that of 10 s, in whole parts */
	state = look();
	assert_int_equal(success_shed_share_of(&load.limit.success, &state, share, 0), share);
	assert_int_equal(state.demand.calls[4], 0);
}

/* Makes `n` requests at a key, and reports all that pass; returns their number. */
static unsigned calls(weir_table *table, weir_limit *limit, unsigned n, enum weir_outcome outcome)
{
	unsigned passed = 0;

	for (unsigned i = 0; i < n; i++) {
		struct weir_permit permit;
		struct weir_decision d;

		assert_int_equal(weir_ask(table, limit, (struct weir_key){"key", 3},
		                          &(struct weir_ask){.now_ns = NOW, .permit = &permit}, &d),
		                 WEIR_OK);
		if (!d.allowed)
			continue;
		passed++;
		assert_int_equal(weir_report(table, limit, (struct weir_key){"key", 3}, &permit,
		                             &(struct weir_report){.outcome = outcome, .now_ns = NOW}),
		                 WEIR_OK);
	}
	return passed;
}

static weir_limit *limit_of(struct weir_throttle_options breaker, uint64_t keys)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_THROTTLE, .keys = keys, .throttle = &breaker};
	weir_limit *limit;

	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
	return limit;
}

static void a_larger_table_and_other_parameters_keep_counts(void **unused)
{
	weir_limit *few = limit_of((struct weir_throttle_options){0}, 40);
	weir_limit *many = limit_of((struct weir_throttle_options){.k = 3}, 5000);
	weir_limit *other = limit_of((struct weir_throttle_options){.window_ns = 60 * S}, 0);
	struct weir_decision d;
	weir_table *table;

	(void)unused;
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	weir_seed(7);
	calls(table, few, 1000, WEIR_OUTCOME_FAILURE);
	assert_int_equal(weir_table_reserve(table, many, NULL), WEIR_OK);
	assert_in_range(calls(table, many, 100, WEIR_OUTCOME_SUCCESS), 0, 5);
	assert_in_range(calls(table, few, 100, WEIR_OUTCOME_SUCCESS), 0, 5);
	assert_int_equal(calls(table, other, 50, WEIR_OUTCOME_SUCCESS), 50); /* it begins anew */
	assert_int_equal(weir_reset(table, few, (struct weir_key){"key", 3}, NOW, &d), WEIR_OK);
	assert_int_equal(calls(table, few, 50, WEIR_OUTCOME_SUCCESS), 50); /* in both tables */
	weir_table_close(table);
	weir_limit_close(few);
	weir_limit_close(many);
	weir_limit_close(other);
}

static void a_narrower_record_is_left_for_a_wider_one(void **unused)
{
	weir_limit *narrow = limit_of(
	    (struct weir_throttle_options){.preset = WEIR_THROTTLE_PRESET_KRATOS, .minimum = 1}, 0);
	/* Parts of the same length, but another number of them. */
	weir_limit *wide = limit_of((struct weir_throttle_options){.window_ns = 12 * S}, 0);
	weir_table *table;

	(void)unused;
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	calls(table, narrow, 1000, WEIR_OUTCOME_FAILURE);
	assert_int_equal(calls(table, wide, 50, WEIR_OUTCOME_SUCCESS), 50);
	assert_in_range(calls(table, narrow, 100, WEIR_OUTCOME_SUCCESS), 0, 5);
	weir_table_close(table);
	weir_limit_close(narrow);
	weir_limit_close(wide);
}

static void a_flood_of_keys_denies_none(void **unused)
{
	weir_limit *limit = limit_of((struct weir_throttle_options){0}, 40);
	struct weir_decision d;
	unsigned full = 0;
	weir_table *table;

	(void)unused;
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	for (uint64_t key = 0; key < 5000; key++) {
		assert_int_equal(
		    weir_acquire(table, limit, (struct weir_key){&key, sizeof key}, 1, NOW, &d), WEIR_OK);
		full += !d.allowed;
	}
	assert_int_equal(full, 0); /* the oldest are forgotten: they say least */
	weir_table_close(table);
	weir_limit_close(limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counts_of_threads_at_once_are_not_lost),
	    cmocka_unit_test(one_of_several_threads_passes_in_a_second),
	    cmocka_unit_test(a_part_that_is_full_keeps_its_ratio),
	    cmocka_unit_test(the_lowest_priorities_are_shed_first),
	    cmocka_unit_test(the_shed_shares_of_priorities_sum_to_the_whole),
	    cmocka_unit_test(a_larger_table_and_other_parameters_keep_counts),
	    cmocka_unit_test(a_narrower_record_is_left_for_a_wider_one),
	    cmocka_unit_test(a_flood_of_keys_denies_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
