/* A reload: what keys have used is kept, cut to what the new parameters allow. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"
#include "engine/engine.h"
#include "store/memory.h"

#define NOW UINT64_C(1700000000000000000)
#define HOUR (3600 * NS_PER_S)

static const char *const by_key[] = {"key"};
static const size_t only[] = {0};
static const struct rules_rule rules[] = {
    {.name = "r", .key = by_key, .key_count = 1, .limits = only, .limit_count = 1}};

struct setting {
	struct rules_limit limit;
	struct weir_config config;
	weir_engine *engine;
};

static void open_engine(struct setting *s, weir_table *table, struct weir_limit_options options)
{
	options.name = "it";
	s->limit = (struct rules_limit){.options = options};
	s->config = (struct weir_config){.limits = &s->limit, .limit_count = 1, RULES_OF(rules)};
	assert_int_equal(weir_engine_open(&s->config, table, &s->engine, NULL), 0);
}

static struct weir_decision ask(struct setting *s, uint64_t cost, uint64_t now)
{
	struct weir_attribute key = {"key", "k", 1};
	struct weir_decision d;

	assert_int_equal(weir_engine_acquire(s->engine, &key, 1, cost, now, &d), 0);
	return d;
}

static struct weir_limit_options bucket(uint64_t count, uint64_t burst)
{
	return (struct weir_limit_options){.rate = {count, 1, WEIR_UNIT_HOUR}, .burst = burst};
}

static struct weir_limit_options window(uint64_t count)
{
	return (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                   .rate = {count, 1, WEIR_UNIT_HOUR},
	                                   .align = WEIR_ALIGN_FIRST_REQUEST};
}

/* Generations tell numbers of slots apart: no other limit has any. */
static void what_a_limit_of_slots_has_is_not_asked_of_others(void **state)
{
	const struct weir_limit_options pairs[][2] = {
	    {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5, .queue = 1},
	     {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5, .queue = 2}},
	    {{.algorithm = WEIR_ALGORITHM_BASE, .rate = {2, 1, WEIR_UNIT_HOUR}, .base = 1},
	     {.algorithm = WEIR_ALGORITHM_BASE, .rate = {2, 1, WEIR_UNIT_HOUR}, .base = 2}},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {2, 1, WEIR_UNIT_HOUR}},
	     {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {3, 1, WEIR_UNIT_HOUR}}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct algo_limit before, after;

		assert_int_equal(algo_limit_init(&before, &pairs[i][0], NULL), 0);
		assert_int_equal(algo_limit_init(&after, &pairs[i][1], NULL), 0);
		algo_hand_over(&before, &after);
		assert_int_equal(after.generation, 0);
		algo_limit_free(&before);
		algo_limit_free(&after);
	}
}

/* Uses `cost` under `before`, reloads, and returns what `after` says of it. */
static struct weir_decision reloaded(struct weir_limit_options before,
                                     struct weir_limit_options after, uint64_t cost)
{
	struct setting old, new;
	struct weir_decision d;
	weir_table *table;

	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	open_engine(&old, table, before);
	assert_true(ask(&old, cost, NOW).allowed);
	open_engine(&new, table, after);
	engine_succeed(old.engine, new.engine);
	d = ask(&new, 0, NOW);
	if (before.algorithm == after.algorithm && before.rate.unit == after.rate.unit) {
		/* who still holds the old one decides the same */
		assert_int_equal(ask(&old, 0, NOW).remaining, d.remaining);
		assert_int_equal(ask(&old, 0, NOW).quota, d.quota);
	}
	weir_engine_close(old.engine);
	assert_int_equal(ask(&new, 0, NOW).remaining, d.remaining);
	weir_engine_close(new.engine);
	weir_table_close(table);
	return d;
}

static void test_a_bucket_keeps_what_is_used(void **context)
{
	(void)context;
	assert_int_equal(reloaded(bucket(10, 10), bucket(20, 10), 4).remaining, 6);
	assert_int_equal(reloaded(bucket(20, 10), bucket(7, 10), 4).remaining, 6);
	assert_int_equal(reloaded(bucket(3, 10), bucket(7, 20), 4).remaining, 16);
	assert_int_equal(reloaded(bucket(7, 10), bucket(7, 10), 4).remaining, 6);
	/* a token under 7 an hour comes back after a seventh of an hour, whatever it was before */
	assert_int_equal(reloaded(bucket(3, 10), bucket(7, 10), 1).reset_after_ns, HOUR / 7 + 1);
}

static void test_use_beyond_the_new_burst_is_cut_to_it(void **context)
{
	struct weir_decision d = reloaded(bucket(10, 10), bucket(10, 2), 10);

	(void)context;
	assert_false(d.allowed);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.quota, 2);
	assert_int_equal(d.retry_after_ns, HOUR / 10);
	assert_int_equal(d.reset_after_ns, HOUR / 5);
}

static struct weir_limit_options pacer(uint64_t count, uint64_t slack)
{
	return (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_PACER,
	                                   .rate = {count, 1, WEIR_UNIT_HOUR},
	                                   .slack = slack,
	                                   .max_wait_ns = WEIR_ZERO};
}

static void test_a_pacer_keeps_its_turns_and_its_slack_is_cut(void **context)
{
	(void)context;
	assert_int_equal(reloaded(pacer(10, 9), pacer(20, 9), 4).remaining, 6);
	assert_int_equal(reloaded(pacer(10, 9), pacer(10, 19), 4).remaining, 16);
	assert_int_equal(reloaded(pacer(10, 9), pacer(10, 1), 10).retry_after_ns, HOUR / 10);
}

static void test_what_is_shed_stays_until_the_file_says_another_share(void **context)
{
	static const double shares[] = {0, 0, 1, 0};
	struct setting s[4];
	weir_table *table;

	(void)context;
	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	for (size_t i = 0; i < 4; i++) {
		open_engine(
		    &s[i], table,
		    (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_RANDOM, .deny = shares[i]});
		if (i > 0)
			engine_succeed(s[i - 1].engine, s[i].engine);
		if (i == 0)
			assert_int_equal(weir_limit_shed(weir_engine_limit(s[i].engine, "it", 2), 1), 0);
		assert_int_equal(ask(&s[i], 1, NOW).allowed, i == 3);
		assert_int_equal(ask(&s[0], 1, NOW).allowed, i == 3);
	}
	/* by who has not heard of the last one */
	assert_int_equal(weir_limit_shed(weir_engine_limit(s[0].engine, "it", 2), 1), 0);
	assert_false(ask(&s[3], 1, NOW).allowed);
	for (size_t i = 0; i < 4; i++)
		weir_engine_close(s[i].engine);
	weir_table_close(table);
}

static void test_a_window_keeps_its_count(void **context)
{
	struct weir_decision d = reloaded(window(10), window(3), 7);

	(void)context;
	assert_false(d.allowed);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(reloaded(window(10), window(30), 7).remaining, 23);
}

static struct weir_limit_options sliding(uint64_t count, uint32_t slots)
{
	return (struct weir_limit_options){.algorithm = slots ? WEIR_ALGORITHM_SLIDING_WINDOW
	                                                      : WEIR_ALGORITHM_SLIDING_LOG,
	                                   .rate = {count, 1, WEIR_UNIT_HOUR},
	                                   .slots = slots};
}

/* Whether its row becomes wider, narrower, or neither. */
static void test_a_sliding_limit_keeps_what_is_used(void **context)
{
	(void)context;
	assert_int_equal(reloaded(sliding(10, 10), sliding(30, 10), 7).remaining, 23);
	assert_int_equal(reloaded(sliding(10, 10), sliding(30, 12), 7).remaining, 23);
	assert_int_equal(reloaded(sliding(10, 10), sliding(30, 100), 7).remaining, 23);
	assert_int_equal(reloaded(sliding(10, 100), sliding(30, 10), 7).remaining, 23);
	assert_int_equal(reloaded(sliding(10, 0), sliding(11, 0), 7).remaining, 4);
	assert_int_equal(reloaded(sliding(10, 0), sliding(100, 0), 7).remaining, 93);
	assert_int_equal(reloaded(sliding(1000, 0), sliding(10, 0), 7).remaining, 3);
	assert_int_equal(reloaded(sliding(1000, 0), sliding(3, 0), 7).remaining, 0);
	assert_int_equal(reloaded(sliding(10, 10), sliding(10, 0), 7).remaining, 10);
}

/* A request takes, refunds and resets carried-over uses as if they had always been there. */
static void test_a_wider_row_goes_on_where_the_narrower_one_was(void **context)
{
	static const uint64_t limits[][3] = {{10, 10, 100}, {10, 0, 0}};

	(void)context;
	for (unsigned i = 0; i < 2; i++) {
		struct setting one, two, three;
		weir_table *table;

		assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
		open_engine(&one, table, sliding(10, (uint32_t)limits[i][1]));
		assert_true(ask(&one, 6, NOW).allowed);
		open_engine(&two, table, sliding(i ? 20 : 10, (uint32_t)limits[i][2]));
		engine_succeed(one.engine, two.engine);
		assert_int_equal(ask(&two, 1, NOW).remaining, i ? 13 : 3);
		assert_int_equal(ask(&one, 1, NOW).remaining, i ? 12 : 2);
		open_engine(&three, table, sliding(2000, i ? 0 : 1000));
		engine_succeed(two.engine, three.engine);
		assert_int_equal(ask(&three, 1, NOW).remaining, 1991);
		assert_int_equal(ask(&one, 1, NOW).remaining, 1990);
		assert_int_equal(ask(&three, 0, NOW + HOUR).remaining, 2000);
		weir_engine_close(one.engine);
		weir_engine_close(two.engine);
		weir_engine_close(three.engine);
		weir_table_close(table);
	}
}

static struct weir_limit_options base(uint64_t base, uint64_t count)
{
	return (struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_BASE, .base = base, .rate = {count, 1, WEIR_UNIT_HOUR}};
}

/* Today's units first: where more are free than were, the window's are the next of them. */
static void test_base_keeps_what_is_used_today(void **context)
{
	struct weir_decision d = reloaded(base(10, 2), base(4, 2), 8);

	(void)context;
	assert_int_equal(d.remaining, 2);
	d = reloaded(base(10, 2), base(4, 2), 11);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.retry_after_ns, HOUR);
	assert_int_equal(reloaded(base(10, 2), base(20, 2), 8).remaining, 13);
	assert_int_equal(reloaded(base(10, 2), base(20, 2), 11).remaining, 10);
	assert_int_equal(reloaded(base(10, 5), base(11, 5), 14).remaining, 1);
	assert_int_equal(reloaded(base(10, 5), base(10, 3), 11).remaining, 1);
	assert_int_equal(reloaded(base(10, 5), base(10, 3), 14).remaining, 0);
	assert_int_equal(reloaded(base(10, 5), base(10, 8), 14).remaining, 3);
}

static void test_another_algorithm_or_period_begins_anew(void **context)
{
	struct weir_limit_options minute = bucket(10, 10);

	(void)context;
	minute.rate.unit = WEIR_UNIT_MINUTE;
	assert_int_equal(reloaded(bucket(10, 10), window(10), 4).remaining, 10);
	assert_int_equal(reloaded(bucket(10, 10), minute, 4).remaining, 10);
}

static void test_parameters_that_change_often_lose_nothing(void **context)
{
	struct setting settings[200];
	weir_table *table;

	(void)context;
	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	open_engine(&settings[0], table, bucket(100, 1000));
	for (unsigned i = 0; i < 199; i++) {
		/* three settings in turn: a key that nobody asks for is not forgotten */
		assert_true(i % 50 != 0 || ask(&settings[i], 1, NOW).allowed);
		open_engine(&settings[i + 1], table, bucket(100 + i % 3, 1000));
		engine_succeed(settings[i].engine, settings[i + 1].engine);
		weir_engine_close(settings[i].engine);
	}
	assert_int_equal(ask(&settings[199], 0, NOW).remaining, 1000 - 4);
	weir_engine_close(settings[199].engine);
	weir_table_close(table);
}

/* As two servers on one file that have read different rule files. */
static void test_two_versions_at_once_agree_on_what_is_used(void **context)
{
	struct weir_table_stats stats;
	struct setting small, large;
	weir_table *table;

	(void)context;
	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 100}, &table, NULL), 0);
	open_engine(&small, table, bucket(10, 10));
	open_engine(&large, table, bucket(3, 20));
	for (uint64_t used = 0; used < 10; used++) {
		assert_int_equal(ask(&small, 0, NOW).remaining, 10 - used);
		assert_int_equal(ask(&large, 0, NOW).remaining, 20 - used);
		assert_true(ask(used % 2 ? &small : &large, 1, NOW).allowed);
	}
	assert_false(ask(&small, 1, NOW).allowed);
	assert_int_equal(ask(&large, 1, NOW).remaining, 9);
	weir_engine_close(small.engine);
	open_engine(&small, table, bucket(10, 10)); /* a restart */
	assert_false(ask(&small, 1, NOW).allowed);
	assert_int_equal(ask(&large, 0, NOW).remaining, 9);
	weir_table_stats(table, NOW, &stats);
	assert_int_equal(stats.live, 1); /* notes are no keys */
	weir_engine_close(small.engine);
	weir_engine_close(large.engine);
	weir_table_close(table);
}

static void test_what_nobody_knows_any_more_counts_as_all_in_use(void **context)
{
	struct setting before, after;
	weir_table *table;

	(void)context;
	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	open_engine(&before, table, bucket(10, 10));
	assert_true(ask(&before, 1, NOW).allowed);
	open_engine(&after, table, bucket(10, 20));
	for (uint64_t i = 0; i < memory_of(table->store)->table.sets * TABLE_SET_CELLS; i++)
		if (cell_is_metadata(memory_of(table->store)->table.cells[i]))
			memory_of(table->store)->table.cells[i] = (struct cell){0, 0};
	assert_int_equal(ask(&before, 0, NOW).remaining, 9); /* its own */
	assert_int_equal(ask(&after, 0, NOW).remaining, 0);
	weir_engine_close(before.engine);
	weir_engine_close(after.engine);
	weir_table_close(table);
}

/* More than there are generations: the last ones are known. */
static void test_the_oldest_generation_gives_way(void **context)
{
	struct setting settings[CELL_GENERATIONS + 2];
	enum { LAST = CELL_GENERATIONS + 1 };
	weir_table *table;

	(void)context;
	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	for (unsigned i = 0; i <= LAST; i++) {
		open_engine(&settings[i], table, bucket(100 + i, 1000));
		if (i == 2)
			assert_true(ask(&settings[i], 400, NOW).allowed);
	}
	assert_int_equal(ask(&settings[LAST], 0, NOW).remaining, 600);
	for (unsigned i = 0; i <= LAST; i++)
		weir_engine_close(settings[i].engine);
	weir_table_close(table);
}

struct race {
	struct setting *now; /* as a server's pointer */
	unsigned granted;
	bool stop;
};

static void *hammer(void *context)
{
	struct race *race = context;
	unsigned granted = 0;

	while (!__atomic_load_n(&race->stop, __ATOMIC_ACQUIRE))
		granted += ask(__atomic_load_n(&race->now, __ATOMIC_ACQUIRE), 1, NOW).allowed;
	__atomic_fetch_add(&race->granted, granted, __ATOMIC_RELAXED);
	return NULL;
}

/* Rates change all the time, the burst stays: it is granted once, exactly. */
static void test_reloads_under_load_grant_no_more_and_no_less(void **context)
{
	enum { RELOADS = 5000 };
	struct setting *settings = calloc(RELOADS + 1, sizeof *settings);
	struct race race = {.now = &settings[0]};
	pthread_t threads[3];
	weir_table *table;

	(void)context;
	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	open_engine(&settings[0], table, bucket(1, 100000));
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, hammer, &race);
	for (int i = 1; i <= RELOADS; i++) {
		open_engine(&settings[i], table, bucket(1 + (uint64_t)(i * 7 % 13), 100000));
		engine_succeed(settings[i - 1].engine, settings[i].engine);
		__atomic_store_n(&race.now, &settings[i], __ATOMIC_RELEASE);
	}
	while (ask(&settings[RELOADS], 0, NOW).remaining > 0)
		sched_yield();
	__atomic_store_n(&race.stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(race.granted, 100000);
	for (int i = 0; i <= RELOADS; i++)
		weir_engine_close(settings[i].engine);
	weir_table_close(table);
	free(settings);
}

static struct weir_decision acquire(struct setting *s, const char *key, uint64_t now,
                                    struct weir_permits *permits)
{
	struct weir_attribute attribute = {"key", key, strlen(key)};
	struct weir_decision d;

	assert_int_equal(weir_engine_ask(s->engine, &attribute, 1,
	                                 &(struct weir_ask){.now_ns = now, .permits = permits}, &d),
	                 0);
	return d;
}

/* A bucket, and a paced limit, whose rate changes. */
struct rates {
	struct weir_limit_options before, after;
};

/* Takes 4, reloads, gives them back, the newest first. */
static void give_back_after(const struct rates *rates, bool asks_first)
{
	struct weir_permits permits[4];
	struct setting old, new;
	struct weir_decision d;
	weir_table *table;
	uint64_t now;

	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	open_engine(&old, table, rates->before);
	now = clock_now(store_clock(table->store));
	for (unsigned i = 0; i < 4; i++)
		assert_true(acquire(&old, "k", now, &permits[i]).allowed);
	open_engine(&new, table, rates->after);
	engine_succeed(old.engine, new.engine);
	weir_engine_close(old.engine);
	now = clock_now(store_clock(table->store));
	if (asks_first) { /* so that the state is converted already */
		struct weir_permits fifth;

		assert_true(acquire(&new, "k", now, &fifth).allowed);
		assert_int_equal(weir_engine_refund(new.engine, &fifth, now, &d), 0);
		assert_true(d.allowed);
	}
	for (unsigned i = 4; i-- > 0;) {
		uint64_t before = ask(&new, 0, now).reset_after_ns;

		assert_int_equal(weir_engine_refund(new.engine, &permits[i], now, &d), 0);
		assert_true(d.allowed);
		/* A token's time of the new rate: of the first one less, by what has leaked. */
		assert_in_range(before - d.reset_after_ns,
		                HOUR / rates->after.rate.count - (i ? NS_PER_MS : HOUR / 20),
		                HOUR / rates->after.rate.count + 1);
		assert_int_equal(weir_engine_refund(new.engine, &permits[i], now, &d), WEIR_ENOTFOUND);
	}
	assert_int_equal(ask(&new, 0, now).reset_after_ns, 0);
	weir_engine_close(new.engine);
	weir_table_close(table);
}

static struct weir_limit_options queue(uint64_t count)
{
	return (struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {count, 1, WEIR_UNIT_HOUR}, .burst = 9};
}

/* A request may wait for each of its turns. */
static void test_a_shorter_queue_gives_no_turn_again(void **context)
{
	struct weir_limit_options longer = queue(10), shorter = queue(10);

	(void)context;
	longer.burst = 10;
	shorter.burst = 3;
	assert_int_equal(reloaded(longer, shorter, 6).retry_after_ns, 3 * HOUR / 10);
	assert_int_equal(reloaded(longer, shorter, 3).remaining, 1);
}

static void test_a_permit_gives_back_its_due_under_another_rate(void **context)
{
	const struct rates changes[] = {
	    {bucket(10, 10), bucket(1, 10)},  {bucket(7, 10), bucket(3, 10)},
	    {bucket(1, 10), bucket(10, 10)},  {bucket(10, 10), bucket(10, 20)},
	    {pacer(10, 9), pacer(3, 9)},      {pacer(3, 9), pacer(10, 9)},
	    {queue(10), queue(3)},            {queue(3), queue(10)},
	};

	(void)context;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		give_back_after(&changes[i], false);
		give_back_after(&changes[i], true);
	}
}

/* A store notes a reload at the time of its own clock. */
static void test_a_permit_is_held_as_long_as_its_charge_counts(void **context)
{
	const struct rates changes[] = {
	    {bucket(60, 10), bucket(1, 10)},
	    {pacer(60, 9), pacer(1, 9)},
	    {bucket(60, 10), bucket(7, 10)},
	};

	(void)context;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct weir_permits permits[10];
		struct setting before, after;
		struct weir_decision d;
		weir_table *table;
		uint64_t now_ns;

		assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
		now_ns = clock_now(store_clock(table->store));
		open_engine(&before, table, changes[i].before);
		for (size_t n = 0; n < 10; n++)
			assert_true(acquire(&before, "k", now_ns, &permits[n]).allowed);
		open_engine(&after, table, changes[i].after);
		engine_succeed(before.engine, after.engine);
		weir_engine_close(before.engine);
		/* The old rate would have given back all units in ten minutes. */
		now_ns += HOUR / 2;
		assert_int_equal(
		    weir_engine_report(after.engine, &permits[9],
		                       &(struct weir_report){.latency_ns = 1, .now_ns = now_ns}),
		    0);
		assert_int_equal(weir_engine_refund(after.engine, &permits[9], now_ns, &d), 0);
		assert_true(d.allowed);
		assert_int_equal(weir_engine_refund(after.engine, &permits[9], now_ns, &d), WEIR_ENOTFOUND);
		assert_true(acquire(&after, "k", now_ns, &permits[9]).allowed);
		/* And when all is given back, a permit says nothing. */
		now_ns += 11 * HOUR;
		assert_int_equal(
		    weir_engine_report(after.engine, &permits[8],
		                       &(struct weir_report){.latency_ns = 1, .now_ns = now_ns}),
		    WEIR_ENOTFOUND);
		assert_int_equal(weir_engine_refund(after.engine, &permits[8], now_ns, &d), WEIR_ENOTFOUND);
		weir_engine_close(after.engine);
		weir_table_close(table);
	}
}

static void test_a_larger_table_takes_a_breaker_and_its_permits_along(void **state)
{
	const struct weir_breaker_options health = {
	    .minimum = 1, .sleep_ns = HOUR, .ramp_ns = WEIR_ZERO};
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BREAKER, .keys = 50, .breaker = &health};
	struct weir_permits before, probe, permits;
	struct setting small, large;
	struct weir_decision d;
	weir_table *table;

	(void)state;
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 10000}, &table, NULL), 0);
	open_engine(&small, table, options);
	assert_true(acquire(&small, "open", NOW, &permits).allowed);
	assert_true(acquire(&small, "open", NOW, &before).allowed);
	assert_int_equal(
	    weir_engine_report(
	        small.engine, &permits,
	        &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE, .latency_ns = 1, .now_ns = NOW}),
	    0);
	assert_true(acquire(&small, "half", NOW - HOUR, &permits).allowed);
	assert_int_equal(weir_engine_report(small.engine, &permits,
	                                    &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE,
	                                                          .latency_ns = 1,
	                                                          .now_ns = NOW - HOUR}),
	                 0);
	assert_true(acquire(&small, "half", NOW, &probe).allowed);

	options.keys = 5000;
	open_engine(&large, table, options);
	engine_succeed(small.engine, large.engine);
	weir_engine_close(small.engine);
	d = acquire(&large, "open", NOW + 60, &permits);
	assert_false(d.allowed);
	assert_int_equal(d.reason, WEIR_REASON_BREAKER_OPEN);
	assert_int_equal(d.retry_after_ns, HOUR - 60);
	/* A permit from before says nothing, not even that the backend is well. */
	weir_engine_report(large.engine, &before,
	                   &(struct weir_report){.latency_ns = 1, .now_ns = NOW + 60});
	assert_false(acquire(&large, "open", NOW + HOUR - 1, &permits).allowed);
	assert_true(acquire(&large, "open", NOW + HOUR, &permits).allowed);
	assert_int_equal(
	    weir_engine_report(large.engine, &permits,
	                       &(struct weir_report){.latency_ns = 1, .now_ns = NOW + HOUR}),
	    0);
	assert_true(acquire(&large, "open", NOW + HOUR, &permits).allowed);
	/* The probe from before is in flight still, and its report counts. */
	assert_false(acquire(&large, "half", NOW + 60, &permits).allowed);
	assert_int_equal(weir_engine_report(large.engine, &probe,
	                                    &(struct weir_report){.latency_ns = 1, .now_ns = NOW + 60}),
	                 0);
	assert_true(acquire(&large, "half", NOW + 60, &permits).allowed);
	weir_engine_close(large.engine);
	weir_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_limit_of_slots_has_is_not_asked_of_others),
	    cmocka_unit_test(test_a_bucket_keeps_what_is_used),
	    cmocka_unit_test(test_use_beyond_the_new_burst_is_cut_to_it),
	    cmocka_unit_test(test_a_pacer_keeps_its_turns_and_its_slack_is_cut),
	    cmocka_unit_test(test_a_shorter_queue_gives_no_turn_again),
	    cmocka_unit_test(test_what_is_shed_stays_until_the_file_says_another_share),
	    cmocka_unit_test(test_a_window_keeps_its_count),
	    cmocka_unit_test(test_a_sliding_limit_keeps_what_is_used),
	    cmocka_unit_test(test_a_wider_row_goes_on_where_the_narrower_one_was),
	    cmocka_unit_test(test_base_keeps_what_is_used_today),
	    cmocka_unit_test(test_another_algorithm_or_period_begins_anew),
	    cmocka_unit_test(test_parameters_that_change_often_lose_nothing),
	    cmocka_unit_test(test_two_versions_at_once_agree_on_what_is_used),
	    cmocka_unit_test(test_a_permit_gives_back_its_due_under_another_rate),
	    cmocka_unit_test(test_a_permit_is_held_as_long_as_its_charge_counts),
	    cmocka_unit_test(test_a_larger_table_takes_a_breaker_and_its_permits_along),
	    cmocka_unit_test(test_what_nobody_knows_any_more_counts_as_all_in_use),
	    cmocka_unit_test(test_the_oldest_generation_gives_way),
	    cmocka_unit_test(test_reloads_under_load_grant_no_more_and_no_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
