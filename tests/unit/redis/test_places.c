/*
 * Concurrency limits at a real Redis, with many acquires at one instant, as the commands of one
 * call have. Each decision must equal the step on all uses in memory. WEIR_TEST_SEED replays a run.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/prng.h"
#include "values.h"

#define START_NS UINT64_C(1700000000000000000)
#define LEASE_NS (60 * NS_PER_S)
#define MANY     10000
#define CALL     48

static struct real real;
static struct command_result ends[CALL_COMMANDS_MAX];

/* A limit with one key, at Redis and in memory. */
struct both {
	struct algo_limit limit;
	struct value twin;
	struct uses_entry list[MANY + CALL_COMMANDS_MAX];
	uint64_t now_ns;
};

static struct both both;

static void begin(uint64_t max)
{
	memset(&both, 0, sizeof both);
	assert_int_equal(
	    algo_limit_init(&both.limit,
	                    &(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_CONCURRENCY,
	                                                 .max = max,
	                                                 .lease_ns = LEASE_NS},
	                    NULL),
	    WEIR_OK);
	both.twin.uses.entries = both.list;
	both.now_ns = START_NS;
	freeReplyObject(real_do(&real, "FLUSHALL"));
}

/* As the server that was asked would answer from memory. */
static void expect_same(const struct algo_call *call, const struct command_result *end)
{
	struct algo_time time = algo_time_at(&both.limit, moment_given(both.now_ns));
	struct algo_decision expected;

	uses_step(&both.limit, call, &time, &both.twin.uses, &expected);
	assert_int_equal(end->end, COMMAND_DONE);
	assert_int_equal(end->outcomes[0].allowed, expected.allowed);
	assert_int_equal(end->outcomes[0].remaining, expected.remaining);
	assert_int_equal(end->outcomes[0].retry_after_ns, expected.retry_after_ns);
	assert_int_equal(end->outcomes[0].reset_after_ns, expected.reset_after_ns);
}

/* The value equals the twin's state. */
static void expect_state(void)
{
	struct buffer expected = {0}, found = {0};
	struct value value;

	assert_int_equal(values_get(&real, "key", &both.limit, &value), VALUE_OURS);
	values_text(&both.limit, &both.twin, both.now_ns, &expected);
	values_text(&both.limit, &value, both.now_ns, &found);
	buffer_add(&expected, "", 1);
	buffer_add(&found, "", 1);
	assert_string_equal(found.data, expected.data);
	buffer_free(&expected);
	buffer_free(&found);
	value_free(&value);
}

/* One call of so many commands; returns how many commands of Redis it took. */
static unsigned call(const struct algo_call *calls, size_t n)
{
	struct redis_command steps[CALL_COMMANDS_MAX], *list[CALL_COMMANDS_MAX];
	unsigned commands = 0, count;
	redisReply *stats;
	char *line, *rest;

	for (size_t i = 0; i < n; i++) {
		steps[i] = (struct redis_command){.limit = &both.limit,
		                                  .key = SLICE("key"),
		                                  .call = calls[i],
		                                  .request_count = 1,
		                                  .local_time = moment_given(both.now_ns),
		                                  .uses_given_time = true};
		list[i] = &steps[i];
	}
	freeReplyObject(real_do(&real, "CONFIG RESETSTAT"));
	real_steps(&real, list, n, ends);
	stats = real_do(&real, "INFO commandstats");
	for (line = strtok_r(stats->str, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
		if (sscanf(line, "cmdstat_%*[a-z]:calls=%u", &count) == 1 && !strstr(line, "_evalsha:"))
			commands += count;
	freeReplyObject(stats);
	for (size_t i = 0; i < n; i++)
		expect_same(&calls[i], &ends[i]);
	return commands;
}

static struct algo_call acquire_as(uint64_t permit)
{
	return (struct algo_call){.op = ALGO_ACQUIRE, .cost = 1, .permit = permit};
}

static struct algo_call refund_of(uint64_t permit)
{
	return (struct algo_call){
	    .op = ALGO_REFUND, .cost = 1, .until_ns = both.now_ns + LEASE_NS, .permit = permit};
}

static uint64_t drawn(uint64_t most)
{
	return prng_next() % (most + 1);
}

static void shuffle(uint64_t *numbers, size_t n)
{
	for (size_t i = n; i-- > 1;) {
		size_t other = drawn(i);
		uint64_t number = numbers[i];

		numbers[i] = numbers[other];
		numbers[other] = number;
	}
}

/* Permits from 1 on, in any order. */
static void draw_permits(uint64_t *permits, size_t n)
{
	for (size_t i = 0; i < n; i++)
		permits[i] = i + 1;
	shuffle(permits, n);
}

static void commands_on_one_key_read_and_write_it_once(void **state)
{
	uint64_t permits[CALL];
	struct algo_call calls[CALL];

	(void)state;
	begin(2 * CALL);
	for (unsigned turn = 0; turn < 3; turn++) {
		draw_permits(permits, CALL);
		for (size_t i = 0; i < CALL; i++)
			calls[i] = acquire_as(1000 * turn + permits[i]);
		/* TIME, LRANGE, RPUSH, and LSET, or PEXPIREAT of a new key; a denial writes nothing. */
		assert_in_range(call(calls, CALL), turn < 2 ? 4 : 2, turn < 2 ? 4 : 3);
		expect_state();
		both.now_ns += 1000;
	}
	both.now_ns -= 2000;
	shuffle(permits, CALL);
	for (size_t i = 0; i < CALL; i++)
		calls[i] = refund_of(1000 + permits[i]);
	assert_in_range(call(calls, CALL), CALL,
	                CALL + 20); /* LREM, and a look when the last one went */
	expect_state();
	assert_int_equal(both.twin.uses.count, CALL);
	assert_in_range(call(calls, CALL), CALL, 20 * CALL);
	for (size_t i = 0; i < CALL; i++)
		assert_false(ends[i].outcomes[0].allowed);
	expect_state();
}

/* Servers of the version before look for permits in their order, where leases end together. */
static void entries_of_one_call_are_in_the_order_of_permits(void **state)
{
	static const char *const expected[] = {"concurrency m 00004:00005:00002 1700000060000000:9",
	                                       "1700000060000000:2", "1700000060000000:1:3",
	                                       "1700000060000000:1:5", "1700000060000000:1:9"};
	struct algo_call calls[] = {acquire_as(9), acquire_as(3), acquire_as(0), acquire_as(5)};
	redisReply *list;

	(void)state;
	begin(9);
	calls[2].cost = 2;
	call(calls, 4);
	list = real_do(&real, "LRANGE key 0 -1");
	assert_int_equal(list->elements, sizeof expected / sizeof *expected);
	for (size_t i = 0; i < list->elements; i++)
		assert_string_equal(list->element[i]->str, expected[i]);
	freeReplyObject(list);
	expect_state();
}

/* In these, uses that end together stand in the order of permits, and nameless ones are one use. */
static void values_of_the_version_before_are_read(void **state)
{
	uint64_t permits[3 * CALL];

	(void)state;
	for (unsigned size = 4; size <= 3 * CALL; size *= 6) {
		struct algo_call calls[3];

		begin(3 * CALL + 10);
		draw_permits(permits, size);
		for (size_t i = 0; i < size; i++)
			uses_add(&both.twin.uses,
			         (struct uses_entry){1, both.now_ns + LEASE_NS, i % 4 == 3 ? 0 : permits[i]});
		values_set(&real, "key", &both.limit, &both.twin, both.now_ns);
		expect_state();
		for (size_t i = 0; i < size; i++) {
			calls[0] = acquire_as(1000 + i);
			calls[1] = refund_of(i % 4 == 3 ? 0 : permits[i]);
			calls[2] = acquire_as(i % 2 ? 0 : 2000 - i);
			call(calls, i % 3 + 1);
		}
		expect_state();
	}
}

/* Puts a list there whose uses stand as they came: all end together. */
static void fill(const uint64_t *permits)
{
	struct value came = {.uses = {.entries = calloc(MANY, sizeof *both.list), .count = MANY}};

	for (size_t i = 0; i < MANY; i++) {
		came.uses.entries[i] = (struct uses_entry){1, both.now_ns + LEASE_NS, permits[i]};
		both.list[permits[i] - 1] = came.uses.entries[i];
	}
	both.twin.uses.count = MANY;
	values_set(&real, "key", &both.limit, &came, both.now_ns);
	free(came.uses.entries);
}

static void an_entry_among_thousands_that_end_together_is_found(void **state)
{
	static uint64_t permits[MANY];

	(void)state;
	begin(MANY);
	draw_permits(permits, MANY);
	fill(permits);
	for (size_t i = 0; i < MANY; i += MANY / 9) {
		struct algo_call back = refund_of(permits[i]);

		assert_in_range(call(&back, 1), 1, 32);
		assert_true(ends[0].outcomes[0].allowed);
		assert_in_range(call(&back, 1), 1, 128); /* it is there no more */
		assert_false(ends[0].outcomes[0].allowed);
	}
	expect_state();
}

static int open_redis(void **state)
{
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

	(void)state;
	print_message("WEIR_TEST_SEED=%" PRIu64 "\n", seed);
	prng_seed(seed);
	real_open(&real);
	return 0;
}

static int close_redis(void **state)
{
	(void)state;
	real_close(&real);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(commands_on_one_key_read_and_write_it_once),
	    cmocka_unit_test(entries_of_one_call_are_in_the_order_of_permits),
	    cmocka_unit_test(values_of_the_version_before_are_read),
	    cmocka_unit_test(an_entry_among_thousands_that_end_together_is_found),
	};

	return cmocka_run_group_tests(tests, open_redis, close_redis);
}
