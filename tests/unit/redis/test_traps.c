/* Mistakes of other limiters' scripts, by name, at a real Redis and its own clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os/os.h"
#include "kinds.h"
#include "real.h"

static struct real real;
static struct command_result ends[CALL_COMMANDS_MAX];

static struct moment now(void)
{
	return moment_given(os_wall_ns());
}

static const struct algo_decision *take_at(const struct algo_limit *limit, const char *key,
                                           uint64_t cost, struct moment at)
{
	struct redis_command step = {.limit = limit,
	                             .key = slice_of(key),
	                             .call = {.op = ALGO_ACQUIRE, .cost = cost},
	                             .request_count = 1,
	                             .local_time = at};

	real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
	assert_int_equal(ends[0].end, COMMAND_DONE);
	return &ends[0].outcomes[0];
}

static const struct algo_decision *take(const struct algo_limit *limit, const char *key,
                                        uint64_t cost)
{
	return take_at(limit, key, cost, now());
}

static long long info(const char *section, const char *name)
{
	redisReply *reply = real_do(&real, "INFO %s", section);
	char *at = strstr(reply->str, name);
	long long number;

	assert_non_null(at);
	number = atoll(at + strlen(name));
	freeReplyObject(reply);
	return number;
}

static void set(const char *key, const char *value)
{
	freeReplyObject(real_do(&real, "SET %s %s", key, value));
}

static void a_key_without_a_lifetime_denies_for_ever(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		for (unsigned hit = 0; hit < 8; hit++) {
			take(&limits[i], "key", 1);
			assert_true(real_number(&real, "PTTL key") > 0);
			if (hit == 7)
				freeReplyObject(real_do(&real, "DEL key"));
		}
}

static void a_window_that_every_hit_prolongs_never_ends(void **state)
{
	struct algo_limit window = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {100, 1, WEIR_UNIT_HOUR}});
	long long end_ms;

	(void)state;
	take(&window, "key", 1);
	end_ms = real_number(&real, "PEXPIRETIME key");
	for (unsigned i = 0; i < 50; i++) {
		take(&window, "key", 1);
		assert_int_equal(real_number(&real, "PEXPIRETIME key"), end_ms);
	}
	assert_in_range(end_ms - (long long)(os_wall_ns() / NS_PER_MS), 3590000, 3600100);
	freeReplyObject(real_do(&real, "DEL key"));
}

/* A lifetime is renewed at most once in a block, though its state moves with every hit. */
static void a_lifetime_is_not_renewed_on_every_hit(void **state)
{
	struct algo_limit limit =
	    limit_of((struct weir_limit_options){.rate = {1000, 1, WEIR_UNIT_MINUTE}, .burst = 1000});
	unsigned renewed = 0;
	long long end_ms = 0, sets = info("commandstats", "cmdstat_set:calls=");

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		long long found;

		assert_true(take(&limit, "key", 1)->allowed);
		found = real_number(&real, "PEXPIRETIME key");
		renewed += found != end_ms;
		end_ms = found;
	}
	assert_in_range(renewed, 1, 3);
	assert_in_range(info("commandstats", "cmdstat_set:calls=") - sets, 1, 3);
	freeReplyObject(real_do(&real, "DEL key"));
}

/* When the state of a bucket ends: its first field of 16 digits or more. */
static long long state_end_ms(const char *key)
{
	redisReply *reply = real_do(&real, "GET %s", key);
	const char *at = reply->str;
	char digits[14] = {0};

	while (strcspn(at, " ") < 16)
		at += strcspn(at, " ") + 1;
	memcpy(digits, at, 13);
	freeReplyObject(reply);
	return atoll(digits);
}

/* Redis forgets a key when its lifetime ends, and grants again all that its state still counts. */
static void a_lifetime_by_the_present_parameters_ends_before_the_use_of_others(void **state)
{
	static const struct {
		struct weir_limit_options fast, slow; /* they share one stored value */
		bool is_adhoc;
		uint64_t units;
	} pairs[] = {
	    {{.rate = {600, 1, WEIR_UNIT_MINUTE}}, {.rate = {10, 20, WEIR_UNIT_HOUR}}, true, 4},
	    {{.rate = {10, 20, WEIR_UNIT_HOUR}}, {.rate = {7, 31, WEIR_UNIT_HOUR}, .burst = 5}, true, 5},
	    {{.algorithm = WEIR_ALGORITHM_PACER,
	      .rate = {1, 20, WEIR_UNIT_HOUR},
	      .slack = WEIR_ZERO,
	      .max_wait_ns = NS_PER_S},
	     {.algorithm = WEIR_ALGORITHM_PACER,
	      .rate = {1, 20, WEIR_UNIT_HOUR},
	      .slack = WEIR_ZERO,
	      .max_wait_ns = 71999 * NS_PER_S},
	     false,
	     1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct algo_limit fast = limit_of(pairs[i].fast), slow = limit_of(pairs[i].slow);

		fast.is_adhoc = slow.is_adhoc = pairs[i].is_adhoc;
		assert_true(take(&fast, "key", 1)->allowed);
		for (uint64_t taken = 0; taken < pairs[i].units; taken++) {
			take(&slow, "key", 1);
			assert_true(real_number(&real, "PEXPIRETIME key") >= state_end_ms("key"));
			take(&fast, "key", 1);
			assert_true(real_number(&real, "PEXPIRETIME key") >= state_end_ms("key"));
		}
		freeReplyObject(real_do(&real, "DEL key"));
		algo_limit_free(&fast);
		algo_limit_free(&slow);
	}
}

/* burst / rate in whole seconds is 0: the key would be gone at once, or the command an error. */
static void a_lifetime_of_zero_for_a_high_rate_with_a_small_burst(void **state)
{
	struct weir_limit_options fast[] = {
	    {.rate = {100}, .burst = 10},
	    {.rate = {1000000}, .burst = 1},
	    {.rate = {UINT32_MAX, 1, WEIR_UNIT_MILLISECOND}, .burst = 1},
	    {.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {3, 1, WEIR_UNIT_NANOSECOND}},
	    {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {3, 1, WEIR_UNIT_MILLISECOND}}};

	(void)state;
	for (size_t i = 0; i < sizeof fast / sizeof *fast; i++) {
		struct algo_limit limit = limit_of(fast[i]);

		assert_true(take(&limit, "key", 1)->allowed);
		freeReplyObject(real_do(&real, "DEL key"));
		algo_limit_free(&limit);
	}
}

static void a_denial_writes_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		long long dirty;
		unsigned tries = 0;

		while (take(&limits[i], "key", 1)->allowed && tries < 100)
			tries++;
		dirty = info("persistence", "rdb_changes_since_last_save:");
		for (unsigned k = 0; k < 5; k++)
			if (take(&limits[i], "key", 1)->allowed) /* after so long */
				dirty = info("persistence", "rdb_changes_since_last_save:");
		assert_int_equal(info("persistence", "rdb_changes_since_last_save:"), dirty);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

static bool refund(const struct algo_limit *limit, const char *key, uint64_t cost,
                   uint64_t until_ns)
{
	struct redis_command step = {.limit = limit,
	                             .key = slice_of(key),
	                             .call = {.op = ALGO_REFUND, .cost = cost, .until_ns = until_ns},
	                             .request_count = 1,
	                             .local_time = now()};

	real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
	assert_int_equal(ends[0].end, COMMAND_DONE);
	return ends[0].outcomes[0].allowed;
}

/* Short states, which a script refunds as a whole. */
static const size_t short_kinds[] = {0, 1, 2, 3, 5, 6, 7, 8, 10};

#define SHORT_KINDS (sizeof short_kinds / sizeof *short_kinds)

/* Read, decided here and swapped, it would lose against a server that is nearer to Redis. */
static void a_request_and_its_refund_are_one_call_each(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHORT_KINDS; i++) {
		const struct algo_limit *limit = &limits[short_kinds[i]];
		unsigned before;
		uint64_t name_ns;

		before = real.calls;
		take(limit, "key", 1);
		assert_int_equal(real.calls, before + 1);
		name_ns = ends[0].until_ns[0];
		before = real.calls;
		assert_true(refund(limit, "key", 1, i % 2 ? name_ns : 0));
		assert_int_equal(real.calls, before + 1);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

/* They are of one kind at some limits, and differ in nothing else but the key. */
static void a_refund_behind_an_acquire_of_the_same_call_is_no_acquire(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHORT_KINDS; i++) {
		const struct algo_limit *limit = &limits[short_kinds[i]];
		uint64_t remaining = take(limit, "key", 1)->remaining;
		struct redis_command acquire = {.limit = limit,
		                                .key = SLICE("other"),
		                                .call = {.op = ALGO_ACQUIRE, .cost = 1},
		                                .request_count = 1,
		                                .local_time = now()};
		struct redis_command refund = acquire;

		refund.key = SLICE("key");
		refund.call.op = ALGO_REFUND;
		real_steps(&real, (struct redis_command *[]){&acquire, &refund}, 2, ends);
		assert_int_equal(take(limit, "key", 1)->remaining, remaining);
		freeReplyObject(real_do(&real, "DEL key other"));
	}
}

/* Nothing in use, another name, a cost of 0; and no key comes of it. */
static void a_refund_of_nothing_writes_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHORT_KINDS; i++) {
		const struct algo_limit *limit = &limits[short_kinds[i]];
		long long dirty = info("persistence", "rdb_changes_since_last_save:");

		assert_true(refund(limit, "key", 1, 0));
		assert_int_equal(info("persistence", "rdb_changes_since_last_save:"), dirty);
		take(limit, "key", 1);
		dirty = info("persistence", "rdb_changes_since_last_save:");
		assert_true(refund(limit, "key", 0, 0));
		assert_false(refund(limit, "key", 1, 1000 * NS_PER_S + 1)); /* long ago */
		assert_int_equal(info("persistence", "rdb_changes_since_last_save:"), dirty);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

/* A refund neither prolongs a key's life nor makes it endless. */
static void a_refund_leaves_the_lifetime(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHORT_KINDS; i++) {
		const struct algo_limit *limit = &limits[short_kinds[i]];
		long long end_ms;

		for (unsigned n = 0; n < 3; n++)
			take(limit, "key", 1);
		end_ms = real_number(&real, "PEXPIRETIME key");
		refund(limit, "key", 1, 0);
		if (real_number(&real, "EXISTS key") == 1) /* of some that was all */
			assert_int_equal(real_number(&real, "PEXPIRETIME key"), end_ms);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

/* A conversion without a charge or a refund forgets no use. */
static void a_burst_that_is_lowered_and_raised_again_grants_no_more(void **state)
{
	static const struct weir_limit_options pairs[][2] = {
	    {{.rate = {30, 1, WEIR_UNIT_DAY}, .burst = 30}, {.rate = {30, 1, WEIR_UNIT_DAY}, .burst = 20}},
	    {{.algorithm = WEIR_ALGORITHM_PACER, .rate = {30, 1, WEIR_UNIT_DAY}, .slack = 29},
	     {.algorithm = WEIR_ALGORITHM_PACER, .rate = {30, 1, WEIR_UNIT_DAY}, .slack = 9}},
	    {{.algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {600, 1, WEIR_UNIT_HOUR}, .max_wait_ns = 60 * NS_PER_S},
	     {.algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {600, 1, WEIR_UNIT_HOUR}, .max_wait_ns = NS_PER_S}}};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct algo_limit high = limit_of(pairs[i][0]), low = limit_of(pairs[i][1]);
		uint64_t granted = 0;

		while (take(&high, "key", 1)->allowed)
			assert_true(++granted <= 200);
		assert_true(granted > 1);
		assert_false(take(&low, "key", 1)->allowed);
		refund(&low, "key", 1, NS_PER_S); /* of nothing that is there */
		refund(&low, "key", 0, 0);
		if (take(&high, "key", 1)->allowed)
			fail_msg("pair %zu", i);
		refund(&high, "key", 1, 0);
		assert_true(take(&high, "key", 1)->allowed);
		assert_false(take(&high, "key", 1)->allowed);
		freeReplyObject(real_do(&real, "DEL key"));
		algo_limit_free(&high);
		algo_limit_free(&low);
	}
}

/* A window that is not the calendar's gets no refund, even if this server's clock is wrong. */
static struct algo_decision warm_step(const struct algo_limit *limit, struct algo_call call,
                                      uint64_t now_ns)
{
	struct redis_command step = {.limit = limit,
	                             .key = SLICE("key"),
	                             .call = call,
	                             .request_count = 1,
	                             .local_time = moment_given(now_ns),
	                             .uses_given_time = true};

	real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
	assert_int_equal(ends[0].end, COMMAND_DONE);
	return ends[0].outcomes[0];
}

/* A key of warm_up that has 6 s to wait, of which other parameters allow one second. */
static void a_converted_state_counts_down_and_is_refunded(void **state)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {600, 1, WEIR_UNIT_HOUR}, .max_wait_ns = 60 * NS_PER_S};
	struct algo_call take = {.op = ALGO_ACQUIRE, .cost = 1}, peek = {.op = ALGO_PEEK, .cost = 1};
	struct algo_call refund = {.op = ALGO_REFUND, .cost = 1};
	uint64_t now_ns = UINT64_C(1800000000) * NS_PER_S, retry_ns;
	struct algo_limit before = limit_of(options), after;

	(void)state;
	options.cold = 2;
	options.max_wait_ns = NS_PER_S;
	after = limit_of(options);
	for (int denied = 0; denied < 2; denied++) {
		warm_step(&before, take, now_ns);
		assert_true(warm_step(&before, take, now_ns).allowed);
		refund.until_ns = ends[0].until_ns[0];
		retry_ns = warm_step(&after, peek, now_ns).retry_after_ns;
		assert_in_range(retry_ns, 11 * NS_PER_S, 30 * NS_PER_S);
		assert_int_equal(warm_step(&after, peek, now_ns + NS_PER_S).retry_after_ns,
		                 retry_ns - NS_PER_S);
		if (denied)
			assert_int_equal(warm_step(&after, take, now_ns).retry_after_ns, retry_ns);
		assert_int_equal(warm_step(&after, peek, now_ns + NS_PER_S).retry_after_ns,
		                 retry_ns - NS_PER_S);
		assert_true(warm_step(&after, refund, now_ns + NS_PER_S).allowed);
		assert_in_range(warm_step(&after, peek, now_ns + NS_PER_S).retry_after_ns, NS_PER_S,
		                retry_ns - 7 * NS_PER_S);
		assert_false(warm_step(&after, refund, now_ns + NS_PER_S).allowed);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

/* Another server holds 7 units of the bucket, which the present parameters have made smaller. */
static void a_peek_beside_chunks_writes_nothing_under_other_parameters(void **state)
{
	struct algo_limit before = limit_of((struct weir_limit_options){
	    .rate = {100, 1, WEIR_UNIT_HOUR}, .burst = 100});
	struct algo_limit after = limit_of((struct weir_limit_options){
	    .rate = {50, 1, WEIR_UNIT_HOUR}, .burst = 50});
	uint64_t now_ns = os_wall_ns();
	struct redis_command peek = {.limit = &after,
	                             .key = SLICE("key"),
	                             .call = {.op = ALGO_PEEK, .cost = 1},
	                             .request_count = 1,
	                             .local_time = moment_given(now_ns)};
	redisReply *was, *is;

	(void)state;
	take(&before, "key", 10);
	freeReplyObject(real_do(&real, "APPEND key ;000000000000004:7:0:1:%llu",
	                        (unsigned long long)(now_ns / 1000 + 3600000000)));
	was = real_do(&real, "GET key");
	real_steps(&real, (struct redis_command *[]){&peek}, 1, ends);
	assert_int_equal(ends[0].end, COMMAND_DONE);
	assert_int_equal(ends[0].outcomes[0].remaining, 50 - 10 - 7);
	is = real_do(&real, "GET key");
	assert_string_equal(is->str, was->str);
	freeReplyObject(was);
	freeReplyObject(is);
	assert_int_equal(take(&after, "key", 1)->remaining, 50 - 10 - 7 - 1);
	freeReplyObject(real_do(&real, "DEL key"));
}

static void a_refund_finds_the_window_by_the_clock_of_redis(void **state)
{
	struct algo_limit limit = limit_of(
	    (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {1000, 1, WEIR_UNIT_YEAR}});
	struct moment at[] = {now(), moment_given(now().now_ns - limit.period_ns),
	                      moment_given(now().now_ns + limit.period_ns)};

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		uint64_t end_us = os_wall_ns() / 1000 + 60000000;
		struct redis_command step = {
		    .limit = &limit,
		    .key = SLICE("key"),
		    .call = {.op = ALGO_REFUND, .cost = 1, .until_ns = i % 2 ? end_us * 1000 : 0},
		    .request_count = 1,
		    .local_time = at[i / 2]};

		freeReplyObject(real_do(&real, "SET key fixed_window%byear%bUTC%b%llu%b0000000005 PX 90000",
		                        " ", (size_t)1, " ", (size_t)1, " ", (size_t)1,
		                        (unsigned long long)end_us, " ", (size_t)1));
		real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
		assert_int_equal(ends[0].end, COMMAND_DONE);
		assert_int_equal(ends[0].outcomes[0].remaining, i % 2 ? 995 : 996);
		assert_int_equal(take(&limit, "key", 1)->remaining, i % 2 ? 994 : 995);
		assert_true(ends[0].outcomes[0].reset_after_ns > 61 * NS_PER_S);
		freeReplyObject(real_do(&real, "DEL key"));
	}
	algo_limit_free(&limit);
}

/* The clock was set back: half a second ago it was later, when the older slot was over. */
static void a_refund_takes_from_no_expired_slot(void **state)
{
	struct algo_limit limit = limit_of(
	    (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {9}, .slots = 10});
	struct redis_command step = {.limit = &limit,
	                             .key = SLICE("key"),
	                             .call = {.op = ALGO_REFUND, .cost = 4},
	                             .request_count = 1,
	                             .local_time = moment_given(1700000000 * NS_PER_S),
	                             .uses_given_time = true};
	redisReply *reply;

	(void)state;
	freeReplyObject(
	    real_do(&real, "SET key %s", "sliding_window s 1700000000300000:3 1700000001500000:2"));
	real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
	assert_int_equal(ends[0].outcomes[0].remaining, 9);
	reply = real_do(&real, "GET key");
	assert_string_equal(reply->str, "sliding_window s 1700000000300000:3 1700000001500000:0");
	freeReplyObject(reply);
	freeReplyObject(real_do(&real, "DEL key"));
	algo_limit_free(&limit);
}

/* The clock was set back by more than a window, and comes forward again. */
static void an_empty_refund_shortens_no_window(void **state)
{
	struct algo_limit limit =
	    limit_of((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {9}});
	const char *before = "fixed_window s UTC 1700000031000000 0000000009";

	(void)state;
	for (unsigned knows_chunks = 0; knows_chunks < 2; knows_chunks++) {
		struct redis_command step = {
		    .limit = &limit,
		    .key = SLICE("key"),
		    .call = {.op = ALGO_REFUND, .cost = 1, .until_ns = 1700000030 * NS_PER_S},
		    .request_count = 1,
		    .local_time = moment_given(1700000028 * NS_PER_S),
		    .uses_given_time = true,
		    .settlement = {.may_have_chunks = knows_chunks}};
		redisReply *reply;

		freeReplyObject(real_do(&real, "SET key %s", before));
		real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
		assert_false(ends[0].outcomes[0].allowed);
		reply = real_do(&real, "GET key");
		assert_string_equal(reply->str, before);
		freeReplyObject(reply);
	}
	freeReplyObject(real_do(&real, "DEL key"));
	algo_limit_free(&limit);
}

/*
 * An acquire after a clock that was ahead: an entry that has ended by then stays free when the
 * clock lags.
 */
static void an_expired_entry_does_not_count_again(void **state)
{
	static const unsigned at_ms[] = {2000, 500, 1600, 1000};
	struct algo_limit limit = limit_of(
	    (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5, .lease_ns = NS_PER_S});

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct redis_command step = {.limit = &limit,
		                             .key = SLICE("key"),
		                             .call = {.op = i < 3 ? ALGO_ACQUIRE : ALGO_PEEK, .cost = 1},
		                             .request_count = 1,
		                             .local_time =
		                                 moment_given(1700000000 * NS_PER_S + at_ms[i] * NS_PER_MS),
		                             .uses_given_time = true};

		real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
		assert_true(ends[0].outcomes[0].allowed);
	}
	assert_int_equal(ends[0].outcomes[0].remaining, 3);
	freeReplyObject(real_do(&real, "DEL key"));
	algo_limit_free(&limit);
}

/* A denial by other parameters finds a state that is over; then the clock lags, and the state counts again. */
static void an_expired_state_keeps_its_parameters(void **state)
{
	struct algo_limit pair[] = {
	    limit_of((struct weir_limit_options){.rate = {5}, .burst = 4}),
	    limit_of((struct weir_limit_options){.rate = {1}, .burst = 4}),
	};
	static const struct {
		unsigned limit, at_ms, cost;
		bool allowed;
	} calls[] = {{0, 0, 4, true}, {1, 1000, 5, false}, {0, 500, 2, true}, {0, 500, 1, false}};

	(void)state;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		struct redis_command step = {
		    .limit = &pair[calls[i].limit],
		    .key = SLICE("key"),
		    .call = {.op = ALGO_ACQUIRE, .cost = calls[i].cost},
		    .request_count = 1,
		    .local_time = moment_given(1700000000 * NS_PER_S + calls[i].at_ms * NS_PER_MS),
		    .uses_given_time = true};

		real_steps(&real, (struct redis_command *[]){&step}, 1, ends);
		assert_int_equal(ends[0].outcomes[0].allowed, calls[i].allowed);
	}
	freeReplyObject(real_do(&real, "DEL key"));
	algo_limit_free(&pair[0]);
	algo_limit_free(&pair[1]);
}

/* A mark beside the key shows that the permit is spent: both are written in one call, or none. */
static void a_permit_is_refunded_once_and_in_one_call(void **state)
{
	struct algo_limit mark = limit_of((struct weir_limit_options){.rate = {1, 1, WEIR_UNIT_HOUR}});

	(void)state;
	mark.is_adhoc = true;
	for (size_t i = 0; i < SHORT_KINDS; i++) {
		const struct algo_limit *limit = &limits[short_kinds[i]];

		take(limit, "key", 1);
		for (unsigned n = 0; n < 2; n++) {
			struct redis_command steps[] = {
			    {.limit = &mark,
			     .key = SLICE("mark"),
			     .call = {.op = ALGO_ACQUIRE, .cost = 1},
			     .request_count = 1,
			     .group = 1,
			     .local_time = now()},
			    {.limit = limit,
			     .key = SLICE("key"),
			     .call = {.op = ALGO_REFUND, .cost = 1},
			     .request_count = 1,
			     .group = 1,
			     .local_time = now()},
			};
			unsigned before = real.calls;

			real_steps(&real, (struct redis_command *[]){&steps[0], &steps[1]}, 2, ends);
			assert_int_equal(real.calls, before + 1);
			assert_int_equal(ends[0].outcomes[0].allowed, n == 0);
			assert_int_equal(ends[1].end, n == 0 ? COMMAND_DONE : COMMAND_WITHHELD);
			take(limit, "key", 1);
		}
		freeReplyObject(real_do(&real, "DEL key mark"));
	}
	algo_limit_free(&mark);
}

/* Requests of two connections: more in one call than there are units. */
static void a_key_that_comes_twice_in_a_call_is_granted_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHORT_KINDS; i++) {
		const struct algo_limit *limit = &limits[short_kinds[i]];
		struct redis_command steps[2];
		unsigned alone = 0, both = 0;

		while (take(limit, "key", 1)->allowed)
			alone++;
		freeReplyObject(real_do(&real, "DEL key"));
		for (size_t k = 0; k < 2; k++)
			steps[k] = (struct redis_command){.limit = limit,
			                                  .key = SLICE("key"),
			                                  .call = {.op = ALGO_ACQUIRE, .cost = 1},
			                                  .request_count = 20,
			                                  .local_time = now()};
		real_steps(&real, (struct redis_command *[]){&steps[0], &steps[1]}, 2, ends);
		for (size_t k = 0; k < 40; k++)
			both += ends[k / 20].outcomes[k % 20].allowed;
		assert_int_equal(both, alone);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

/* The bounds that are sent are of our clock, but Redis's counts. */
static void a_clock_ten_seconds_apart_is_corrected(void **state)
{
	struct algo_limit limit = limit_of((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {1000000, 2, WEIR_UNIT_SECOND}});
	static const int64_t apart_s[] = {-10, 10, 0};
	char window[64];

	(void)state;
	freeReplyObject(real_do(&real, "DEL key"));
	for (size_t i = 0; i < 3; i++) {
		redisReply *reply = NULL;
		uint64_t before, reset_ns;
		struct moment at;

		do {
			freeReplyObject(reply);
			before = os_wall_ns();
			at = moment_given(before + (uint64_t)(apart_s[i] * (int64_t)NS_PER_S));
			reset_ns = take_at(&limit, "key", 1, at)->reset_after_ns;
			reply = real_do(&real, "GET key");
		} while (os_wall_ns() >= ends[0].until_ns[0]); /* its window is over, and it may be gone */
		assert_in_range(reset_ns, 0, 2 * NS_PER_S);
		assert_in_range(ends[0].until_ns[0], before, os_wall_ns() + 2 * NS_PER_S);
		assert_int_equal(ends[0].until_ns[0] % (2 * NS_PER_S), 0);
		snprintf(window, sizeof window, "fixed_window 2s UTC %llu ",
		         (unsigned long long)ends[0].until_ns[0] / 1000);
		assert_non_null(reply->str);
		assert_memory_equal(reply->str, window, strlen(window));
		freeReplyObject(reply);
	}
	algo_limit_free(&limit);
}

static void no_key_is_used_that_is_not_declared(void **state)
{
	redisContext *monitor = redisConnectUnix(real.context->unix_sock.path);
	void *line;
	unsigned seen = 0;

	(void)state;
	freeReplyObject(redisCommand(monitor, "MONITOR"));
	for (size_t i = 0; i < KINDS; i++) {
		char key[16];

		snprintf(key, sizeof key, "{one}:%zu", i);
		take(&limits[i], key, 1);
		take(&limits[i], key, 2);
	}
	freeReplyObject(real_do(&real, "ECHO enough"));
	while (redisGetReply(monitor, &line) == REDIS_OK) {
		const char *text = ((redisReply *)line)->str, *lua = strstr(text, " lua] ");
		bool last = strstr(text, "enough") != NULL;

		/* The second word of each command of a script is a key; lifetimes are points in time. */
		if (lua && strncmp(lua + 6, "\"TIME\"", 6) != 0) {
			assert_non_null(strstr(lua, "\" \"{one}:"));
			assert_null(strstr(lua, "\"PX\""));
			assert_null(strstr(lua, "PEXPIRE\""));
			seen++;
		}
		freeReplyObject(line);
		if (last)
			break;
	}
	assert_true(seen > 2 * KINDS);
	redisFree(monitor);
	freeReplyObject(real_do(&real, "FLUSHALL"));
}

static void an_ordinary_key_takes_160_bytes_at_most(void **state)
{
	static const size_t ordinary[] = {0, 1, 2, 3, 5, 6};
	static const char key[] = "weir:{192.168.123.234}:login-by-ip";

	(void)state;
	for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++) {
		take(&limits[ordinary[i]], key, 1);
		assert_in_range(real_number(&real, "MEMORY USAGE %s", key), 1, 160);
		freeReplyObject(real_do(&real, "DEL %s", key));
	}
}

static void a_script_that_redis_has_forgotten_is_loaded_again(void **state)
{
	(void)state;
	assert_true(take(&limits[0], "key", 1)->allowed);
	freeReplyObject(real_do(&real, "SCRIPT FLUSH"));
	assert_int_equal(take(&limits[0], "key", 1)->remaining, 8);
	freeReplyObject(real_do(&real, "DEL key"));
}

/* A value of another type or limit, or one scribbled by an operator: the key begins anew. */
static void an_invalid_value_is_replaced(void **state)
{
	static const char *const texts[] = {"",
	                                    "nonsense",
	                                    "token_bucket 5/m 10 ",
	                                    "token_bucket 5/m 10 x",
	                                    "token_bucket 5/m 10 inf",
	                                    "token_bucket 5/m 10 99999999999999999999",
	                                    "fixed_window d UTC 1 2",
	                                    "sliding_window m 1:1",
	                                    "sliding_log m :::: ::",
	                                    "base m UTC 0",
	                                    "sliding_window m 1795341598000000:0 1795341599000000:0",
	                                    "token_bucket 5/m",
	                                    "warm_up 5/m 9 1 1 1 1"};

	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
			set("key", texts[k]);
			assert_true(take(&limits[i], "key", 1)->allowed);
			assert_true(real_number(&real, "PTTL key") > 0);
			freeReplyObject(real_do(&real, "DEL key"));
		}
		freeReplyObject(real_do(&real, "RPUSH key 1 2 3"));
		assert_true(take(&limits[i], "key", 1)->allowed);
		freeReplyObject(real_do(&real, "DEL key"));
	}
}

static int open_redis(void **state)
{
	(void)state;
	kinds_open();
	real_open(&real);
	return 0;
}

static int close_redis(void **state)
{
	(void)state;
	real_close(&real);
	kinds_close();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_without_a_lifetime_denies_for_ever),
	    cmocka_unit_test(a_window_that_every_hit_prolongs_never_ends),
	    cmocka_unit_test(a_lifetime_is_not_renewed_on_every_hit),
	    cmocka_unit_test(a_lifetime_by_the_present_parameters_ends_before_the_use_of_others),
	    cmocka_unit_test(a_lifetime_of_zero_for_a_high_rate_with_a_small_burst),
	    cmocka_unit_test(a_denial_writes_nothing),
	    cmocka_unit_test(a_request_and_its_refund_are_one_call_each),
	    cmocka_unit_test(a_refund_behind_an_acquire_of_the_same_call_is_no_acquire),
	    cmocka_unit_test(a_refund_of_nothing_writes_nothing),
	    cmocka_unit_test(a_refund_leaves_the_lifetime),
	    cmocka_unit_test(a_converted_state_counts_down_and_is_refunded),
	    cmocka_unit_test(a_peek_beside_chunks_writes_nothing_under_other_parameters),
	    cmocka_unit_test(a_refund_finds_the_window_by_the_clock_of_redis),
	    cmocka_unit_test(a_refund_takes_from_no_expired_slot),
	    cmocka_unit_test(a_burst_that_is_lowered_and_raised_again_grants_no_more),
	    cmocka_unit_test(an_empty_refund_shortens_no_window),
	    cmocka_unit_test(an_expired_entry_does_not_count_again),
	    cmocka_unit_test(an_expired_state_keeps_its_parameters),
	    cmocka_unit_test(a_permit_is_refunded_once_and_in_one_call),
	    cmocka_unit_test(a_key_that_comes_twice_in_a_call_is_granted_once),
	    cmocka_unit_test(a_clock_ten_seconds_apart_is_corrected),
	    cmocka_unit_test(no_key_is_used_that_is_not_declared),
	    cmocka_unit_test(an_ordinary_key_takes_160_bytes_at_most),
	    cmocka_unit_test(a_script_that_redis_has_forgotten_is_loaded_again),
	    cmocka_unit_test(an_invalid_value_is_replaced),
	};

	return cmocka_run_group_tests(tests, open_redis, close_redis);
}
