/*
 * Scripts at the bounds of their comparisons, against the steps of `algo`: on a given value, at a
 * given time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "real.h"
#include "redis/commands/value.h"
#include "values.h"

#define NOW_NS UINT64_C(1700000000000000000) /* no bound of a minute, nor of a day */
#define DAY_NS UINT64_C(1700006400000000000) /* the end of that day in UTC */

static struct real real;
static struct command_result ends[8];

static struct algo_limit made[32]; /* until the end */
static size_t made_count;

static struct algo_limit limit_of(struct weir_limit_options options)
{
	struct algo_limit *limit = &made[made_count++];

	assert_true(made_count <= sizeof made / sizeof *made);
	assert_int_equal(algo_limit_init(limit, &options, NULL), WEIR_OK);
	return *limit;
}

static struct redis_command step_of(const struct algo_limit *limit, const char *key,
                                    uint64_t now_ns)
{
	return (struct redis_command){.limit = limit,
	                              .key = slice_of(key),
	                              .call = {.op = ALGO_ACQUIRE, .cost = 1},
	                              .request_count = 1,
	                              .local_time = moment_given(now_ns),
	                              .uses_given_time = true};
}

static void set(const char *text)
{
	freeReplyObject(real_do(&real, "SET key %s PXAT %llu", text,
	                        (unsigned long long)(DAY_NS / NS_PER_MS + VALUES_AHEAD_MS)));
}

static void expect_text(const char *expected)
{
	redisReply *reply = real_do(&real, "GET key");

	assert_string_equal(reply->str, expected);
	freeReplyObject(reply);
}

/* Checks that a request of cost 1 on that value equals the step of algo. Whether it was granted. */
static bool same(const struct algo_limit *limit, const char *text, uint64_t now_ns)
{
	struct redis_command step = step_of(limit, "key", now_ns);
	struct algo_time time = algo_time_at(limit, step.local_time);
	struct buffer expected = {0};
	struct algo_decision out;
	struct value value;

	set(text);
	real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
	assert_int_equal(ends[0].end, COMMAND_DONE);
	if (value_read(limit, slice_of(text), 2, &value) == VALUE_OTHER) {
		value.state = (struct algo_state){0, 0};
		value.uses.count = value.uses.until_ns = 0;
	}
	if (limit->record == ALGO_RECORD_NONE)
		algo_step(limit, &step.call, &time, &value.state, &out);
	else
		uses_step(limit, &step.call, &time, &value.uses, &out);
	assert_int_equal(ends[0].outcomes[0].allowed, out.allowed);
	assert_int_equal(ends[0].outcomes[0].remaining, out.remaining);
	assert_int_equal(ends[0].outcomes[0].reset_after_ns, out.reset_after_ns);
	if (out.allowed) {
		value_write(limit, &value, now_ns, &expected);
		buffer_add(&expected, "", 1);
		expect_text(expected.data);
		assert_true(values_life_ms(&real, "key") > now_ns / NS_PER_MS);
	} else {
		expect_text(text);
	}
	buffer_free(&expected);
	value_free(&value);
	return out.allowed;
}

static void a_bucket_is_full_to_the_microsecond(void **state)
{
	struct algo_limit limit = limit_of((struct weir_limit_options){.rate = {5}, .burst = 2});
	struct algo_limit thirds =
	    limit_of((struct weir_limit_options){.rate = {3, 7, WEIR_UNIT_MILLISECOND}, .burst = 4});

	(void)state;
	assert_true(same(&limit, "token_bucket 5/s 2 1700000000200000", NOW_NS));
	assert_false(same(&limit, "token_bucket 5/s 2 1700000000200001", NOW_NS));
	assert_true(same(&limit, "token_bucket 5/s 2 1700000000000000", NOW_NS));
	/* A fraction that these parameters can't have is none. */
	assert_true(same(&thirds, "token_bucket 3/7ms 4 1700000000001000001 0000000003", NOW_NS));
	assert_true(same(&thirds, "token_bucket 3/7ms 4 1700000000001000001 0000000002", NOW_NS));
}

/* Blocks are a minute: the state reaches into the next one while it is in use, or after a rest. */
static void a_lifetime_is_renewed_where_the_next_block_begins(void **state)
{
	struct algo_limit limit = limit_of((struct weir_limit_options){.rate = {5}, .burst = 1000});
	uint64_t border_ns = NOW_NS / (60 * NS_PER_S) * (60 * NS_PER_S);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t now_ns = border_ns - NS_PER_S;

		freeReplyObject(real_do(&real, "DEL key"));
		for (unsigned k = 0; k < 30; k++) {
			struct redis_command step = step_of(&limit, "key", now_ns);

			real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
			assert_true(ends[0].outcomes[0].allowed);
			assert_true(values_life_ms(&real, "key") * NS_PER_MS >= ends[0].until_ns[0]);
			now_ns += i * NS_PER_S / 4;
		}
	}
}

static void a_window_of_another_clock_stays_or_is_shortened(void **state)
{
	struct algo_limit limit = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {9, 2, WEIR_UNIT_SECOND}});

	(void)state;
	assert_true(same(&limit, "fixed_window 2s UTC 1700000002000000 0000000003", NOW_NS));
	assert_true(same(&limit, "fixed_window 2s UTC 1700000001500000 0000000003", NOW_NS));
	assert_true(same(&limit, "fixed_window 2s UTC 1700000004250000 0000000003", NOW_NS));
	assert_true(same(&limit, "fixed_window 2s UTC 1700000004250001 0000000003", NOW_NS));
	assert_true(same(&limit, "fixed_window 2s UTC 1700000000000000 0000000009", NOW_NS));
	assert_false(same(&limit, "fixed_window 2s UTC 1700000002000000 0000000009", NOW_NS));
}

/* Another period: the value is not of this limit. */
static void a_value_of_another_period_does_not_count(void **state)
{
	struct algo_limit slots = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {3, 2, WEIR_UNIT_SECOND}});
	struct algo_limit day = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_BASE, .base = 3, .rate = {1, 5, WEIR_UNIT_MINUTE}});

	(void)state;
	assert_true(same(&slots, "sliding_window s 1700000000900000:3", NOW_NS));
	assert_true(same(&slots, "sliding_window s 1700000000900000:1", NOW_NS));
	assert_true(same(&day, "base 7m UTC 1700000060000000:1 1700006400000000:2", NOW_NS));
	assert_true(same(&day, "base 7m UTC 1700006400000000:1", NOW_NS));
}

static void a_day_and_its_window_end_together(void **state)
{
	struct algo_limit limit = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_BASE, .base = 3, .rate = {3, 5, WEIR_UNIT_MINUTE}});
	struct algo_limit less = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_BASE, .base = 1, .rate = {3, 5, WEIR_UNIT_MINUTE}});
	uint64_t now_ns = DAY_NS - 300 * NS_PER_S;

	(void)state;
	assert_true(same(&limit, "base 5m UTC 1700006400000000:2", now_ns));
	expect_text("base 5m UTC 1700006400000000:2 1700006400000000:1:1700006400000000001");
	assert_true(same(&limit,
	                 "base 5m UTC 1700006400000000:2 "
	                 "1700006400000000:1:1700006400000000001",
	                 now_ns + 1000));
	assert_true(same(&less,
	                 "base 5m UTC 1700006400000000:2 "
	                 "1700006400000000:2:1700006400000000001",
	                 now_ns));
	assert_false(same(&less, "base 5m UTC 1700006400000000:3:1700006400000000001", now_ns));
	assert_true(same(&less, "base 5m UTC 1700006400000000:3", now_ns));
}

/* The bounds that are sent are of `at`; Redis's clock is at the first instant after, or before. */
static void bounds_hold_from_their_start_to_before_their_end(void **state)
{
	static const struct weir_limit_options options[] = {
	    {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {9, 2, WEIR_UNIT_SECOND}},
	    {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {9, 20, WEIR_UNIT_SECOND}},
	    {.algorithm = WEIR_ALGORITHM_BASE, .base = 3, .rate = {3, 5, WEIR_UNIT_MINUTE}}};
	static const uint64_t starts_ns[] = {NOW_NS, NOW_NS, DAY_NS - NS_PER_DAY};
	static const uint64_t lengths_ns[] = {2 * NS_PER_S, 2 * NS_PER_S, NS_PER_DAY};

	(void)state;
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		struct algo_limit limit = limit_of(options[i]);
		uint64_t clocks_ns[] = {starts_ns[i] - 1000, starts_ns[i],
		                        starts_ns[i] + lengths_ns[i] - 1000, starts_ns[i] + lengths_ns[i]};

		for (size_t k = 0; k < 4; k++) {
			struct redis_command clock = step_of(&limit, "other", clocks_ns[k]);
			struct redis_command step = step_of(&limit, "key", starts_ns[i] + lengths_ns[i] / 2);
			redisReply *reply;

			freeReplyObject(real_do(&real, "DEL key other"));
			clock.call.op = ALGO_PEEK;
			reply = real_call(&real, (struct redis_command *[]){&clock, &step}, 2);
			freeReplyObject(reply);
			assert_int_equal(real_number(&real, "EXISTS key"), k == 1 || k == 2);
			command_free_swap(&step);
		}
	}
}

/* In a group, too, a question only reads. */
static void a_peek_in_a_group_writes_nothing(void **state)
{
	struct algo_limit bucket = limit_of((struct weir_limit_options){.rate = {5}, .burst = 2});
	struct algo_limit window = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {9, 2, WEIR_UNIT_SECOND}});
	struct redis_command steps[] = {step_of(&window, "key", NOW_NS),
	                                step_of(&bucket, "other", NOW_NS)};

	(void)state;
	freeReplyObject(real_do(&real, "DEL key other"));
	steps[0].call.op = ALGO_PEEK;
	steps[0].group = steps[1].group = 1;
	real_steps(&real, (struct redis_command *[]){&steps[0], &steps[1]}, 2, ends);
	assert_int_equal(ends[0].end, COMMAND_DONE);
	assert_int_equal(ends[1].end, COMMAND_DONE);
	assert_int_equal(real_number(&real, "EXISTS key"), 0);
	assert_int_equal(real_number(&real, "EXISTS other"), 1);
}

/* Trying first takes nothing: with one unit left of each, both pass, once. */
static void a_group_charges_once(void **state)
{
	struct algo_limit bucket = limit_of((struct weir_limit_options){.rate = {5}, .burst = 2});

	(void)state;
	freeReplyObject(real_do(&real, "DEL key other"));
	for (unsigned n = 0; n < 3; n++) {
		struct redis_command steps[] = {step_of(&bucket, "key", NOW_NS),
		                                step_of(&bucket, "other", NOW_NS)};

		steps[0].group = steps[1].group = 1;
		real_steps(&real, (struct redis_command *[]){&steps[0], &steps[1]}, 2, ends);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(ends[i].outcomes[0].allowed, n < 2);
			assert_int_equal(ends[i].outcomes[0].remaining, n == 0);
		}
	}
	expect_text("token_bucket 5/s 2 1700000000400000");
}

static void set_all(const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		freeReplyObject(real_do(&real, "DEL k%d", (int)i));
		if (texts[i])
			freeReplyObject(real_do(&real, "SET k%d %s", (int)i, texts[i]));
	}
}

/* One call of a command on each of these values, whose outcomes are in `ends`. */
static int reply_type(const struct algo_limit *limit, const char *const *texts, size_t n)
{
	static const char *const names[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"};
	struct redis_command steps[8], *list[8];
	redisReply *reply;
	int type;

	for (size_t i = 0; i < n; i++) {
		steps[i] = step_of(limit, names[i], NOW_NS);
		list[i] = &steps[i];
	}
	set_all(texts, n);
	reply = real_call(&real, list, n);
	type = reply->type;
	freeReplyObject(reply);
	set_all(texts, n);
	real_steps(&real, list, n, ends);
	return type;
}

static void expect_ends(const struct algo_limit *limit, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct moment at = moment_given(NOW_NS);
		struct algo_time time = algo_time_at(limit, at);
		struct algo_call call = {.op = ALGO_ACQUIRE, .cost = 1};
		struct algo_decision out;
		struct value value;

		if (value_read(limit, slice_of(texts[i] ? texts[i] : ""), 2, &value) == VALUE_OTHER)
			value.state = (struct algo_state){0, 0};
		algo_step(limit, &call, &time, &value.state, &out);
		assert_int_equal(ends[i].end, COMMAND_DONE);
		assert_int_equal(ends[i].outcomes[0].allowed, out.allowed);
		assert_int_equal(ends[i].outcomes[0].remaining, out.remaining);
		assert_int_equal(ends[i].outcomes[0].reset_after_ns, out.reset_after_ns);
	}
}

/*
 * Keys in use, new, not in use any more, full and with invalid values, in one call, in any order.
 */
static void a_call_grants_each_of_its_keys_by_itself(void **state)
{
	struct algo_limit bucket = limit_of((struct weir_limit_options){.rate = {5}, .burst = 2});
	struct algo_limit window = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {3, 1, WEIR_UNIT_DAY}});
	static const char *const values[2][8] = {
	    {"token_bucket 5/s 2 1700000000100000", NULL, "token_bucket 5/s 2 1699999999900000",
	     "token_bucket 5/s 2 1700000000200000", "token_bucket 5/s 2 1700000000200001",
	     "token_bucket 5/s 2 17000000001x0000", "token_bucket 5/s 2 1700000000200001", NULL},
	    {"fixed_window d UTC 1700006400000000 0000000001", NULL,
	     "fixed_window d UTC 1699920000000000 0000000003",
	     "fixed_window d UTC 1700006400000000 0000000001",
	     "fixed_window d UTC 1700006400000000 0000000003",
	     "fixed_window d UTC 1700006400000000 00000000x2",
	     "fixed_window d UTC 1700006400000000 0000000003", NULL}};
	const struct algo_limit *limits[2] = {&bucket, &window};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		const char *reversed[8];

		for (size_t i = 0; i < 8; i++)
			reversed[7 - i] = values[k][i];
		assert_int_equal(reply_type(limits[k], values[k], 2), REDIS_REPLY_STRING);
		expect_ends(limits[k], values[k], 2);
		assert_int_equal(reply_type(limits[k], values[k], 8), REDIS_REPLY_ARRAY);
		expect_ends(limits[k], values[k], 8);
		assert_int_equal(reply_type(limits[k], reversed, 8), REDIS_REPLY_ARRAY);
		expect_ends(limits[k], reversed, 8);
		assert_int_equal(reply_type(limits[k], values[k] + 4, 1), REDIS_REPLY_ARRAY);
		expect_ends(limits[k], values[k] + 4, 1);
	}
}

/* A number that no script returns fails its own command only. */
static void numbers_of_a_reply_may_be_anything(void **state)
{
	static const double numbers[] = {-1, 0.0 / 0.0, 1e300, -1e300, 0x1p53, 1.0 / 0.0, -0x1p63};
	struct algo_limit limit = limit_of((struct weir_limit_options){.rate = {5}, .burst = 2});
	struct redis_command step = step_of(&limit, "key", NOW_NS);
	struct redis_command *steps[2] = {&step, &step};
	struct buffer bytes = {0};
	struct script_text call;

	(void)state;
	assert_int_equal(command_write(steps, 1, &bytes, &call), WEIR_OK);
	buffer_free(&bytes);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		double row[3] = {numbers[i], 0, 1700000000000000};
		struct redis_reply reply = {.type = REDIS_TEXT, .text = {(char *)row, sizeof row}};

		assert_int_equal(command_read(steps, 2, 0, &reply, &ends[0]), COMMAND_FAILED);
		assert_int_equal(command_read(steps, 2, 1, &reply, &ends[0]), COMMAND_DONE);
		row[2] = numbers[i];
		assert_int_equal(command_clock(&reply, 2), 0);
		reply.text.len--;
		assert_int_equal(command_read(steps, 2, 1, &reply, &ends[0]), COMMAND_FAILED);
	}
}

static int open_redis(void **state)
{
	(void)state;
	real_open(&real);
	return 0;
}

static int close_redis(void **state)
{
	(void)state;
	real_close(&real);
	for (size_t i = 0; i < made_count; i++)
		algo_limit_free(&made[i]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_bucket_is_full_to_the_microsecond),
	    cmocka_unit_test(a_lifetime_is_renewed_where_the_next_block_begins),
	    cmocka_unit_test(a_window_of_another_clock_stays_or_is_shortened),
	    cmocka_unit_test(a_value_of_another_period_does_not_count),
	    cmocka_unit_test(a_day_and_its_window_end_together),
	    cmocka_unit_test(bounds_hold_from_their_start_to_before_their_end),
	    cmocka_unit_test(a_peek_in_a_group_writes_nothing),
	    cmocka_unit_test(a_group_charges_once),
	    cmocka_unit_test(a_call_grants_each_of_its_keys_by_itself),
	    cmocka_unit_test(numbers_of_a_reply_may_be_anything),
	};

	return cmocka_run_group_tests(tests, open_redis, close_redis);
}
