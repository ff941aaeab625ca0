/*
 * Random traces: scripts at a real Redis against the steps of `algo` on a state in memory, at given
 * times. WEIR_TEST_SEED replays one.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "algo/algorithm.h"
#include "algo/rates/bucket.h"
#include "base/prng.h"
#include "values.h"

#define START_NS UINT64_C(1700000000000000000)
#define KEYS     4
#define LIMITS   2 /* of a kind, with other parameters */
#define STEPS    400
#define NAMES    32 /* of requests that a refund may name */

static struct real real;
static struct command_result ends[CALL_COMMANDS_MAX];

struct kind {
	const char *name;
	struct weir_limit_options options[LIMITS];
	uint64_t pace_ns; /* between two calls, about */
	bool is_adhoc;
};

static const struct kind kinds[] = {
    {"token_bucket", {{.rate = {5}, .burst = 10}, {.rate = {9}, .burst = 4}}, NS_PER_S / 9},
    {"leaky_bucket",
     {{.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {7, 3}, .burst = 5},
      {.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {8, 3}, .burst = 5}},
     NS_PER_S / 3},
    {"parts beyond 53 bits",
     {{.rate = {UINT32_MAX - 4, 366, WEIR_UNIT_DAY}, .burst = UINT32_MAX},
      {.rate = {UINT32_MAX - 16, 366, WEIR_UNIT_DAY}, .burst = 3}},
     NS_PER_MS},
    {"pacer",
     {{.algorithm = WEIR_ALGORITHM_PACER, .rate = {5}, .slack = 2, .max_wait_ns = NS_PER_S},
      {.algorithm = WEIR_ALGORITHM_PACER, .rate = {3}, .slack = 1, .max_wait_ns = NS_PER_S}},
     NS_PER_S / 6},
    {"leaky_queue",
     {{.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {5}, .burst = 4},
      {.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {6}, .burst = 8}},
     NS_PER_S / 6},
    {"pacer, waits that differ by less than a turn: one stored value",
     {{.algorithm = WEIR_ALGORITHM_PACER,
       .rate = {5, 1, WEIR_UNIT_HOUR},
       .slack = 2,
       .max_wait_ns = 1000 * NS_PER_S},
      {.algorithm = WEIR_ALGORITHM_PACER,
       .rate = {5, 1, WEIR_UNIT_HOUR},
       .slack = 2,
       .max_wait_ns = 1400 * NS_PER_S}},
     240 * NS_PER_S},
    {"commands that bring their limits: one stored value",
     {{.rate = {600, 1, WEIR_UNIT_MINUTE}, .burst = 600},
      {.rate = {10, 20, WEIR_UNIT_HOUR}, .burst = 10}},
     NS_PER_S / 10,
     true},
    {"commands that bring their limits, in hours",
     {{.rate = {4, 7, WEIR_UNIT_HOUR}, .burst = 9},
      {.rate = {60, 5, WEIR_UNIT_HOUR}, .burst = 100}},
     300 * NS_PER_S,
     true},
    {"warm_up",
     {{.algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {5}, .max_wait_ns = NS_PER_S},
      {.algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {7}, .max_wait_ns = NS_PER_S}},
     NS_PER_S / 6},
    {"fixed_window",
     {{.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {20}},
      {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {9}}},
     NS_PER_S / 7},
    {"fixed_window of 7 s in a zone",
     {{.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {20, 7}, .timezone = "Asia/Kathmandu"},
      {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {5, 7}, .timezone = "Asia/Kathmandu"}},
     NS_PER_S / 2},
    {"resetting_bucket",
     {{.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {9}},
      {.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {5}}},
     NS_PER_S / 7},
    {"sliding_window",
     {{.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {9}, .slots = 7},
      {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5}, .slots = 7}},
     NS_PER_S / 9},
    {"sliding_window, slots of whole microseconds",
     {{.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {20, 2}, .slots = 10},
      {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5, 2}, .slots = 10}},
     NS_PER_S / 9},
    {"sliding_counter",
     {{.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {9}},
      {.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {6}}},
     NS_PER_S / 9},
    {"sliding_counter, products beyond 53 bits",
     {{.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {UINT32_MAX, 366, WEIR_UNIT_DAY}},
      {.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {UINT32_MAX - 5, 366, WEIR_UNIT_DAY}}},
     17 * NS_PER_DAY},
    {"sliding_log",
     {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {9}},
      {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {5}}},
     NS_PER_S / 9},
    {"sliding_log of thousands",
     {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {3000, 20, WEIR_UNIT_SECOND}},
      {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {2500, 20, WEIR_UNIT_SECOND}}},
     NS_PER_S / 2},
    {"base",
     {{.algorithm = WEIR_ALGORITHM_BASE, .base = 9, .rate = {3, 2, WEIR_UNIT_HOUR}},
      {.algorithm = WEIR_ALGORITHM_BASE, .base = 5, .rate = {4, 2, WEIR_UNIT_HOUR}}},
     1800 * NS_PER_S},
    {"base, nothing free, windows longer than a day",
     {{.algorithm = WEIR_ALGORITHM_BASE, .base = 1, .rate = {5, 30, WEIR_UNIT_HOUR}},
      {.algorithm = WEIR_ALGORITHM_BASE, .base = 4, .rate = {7, 30, WEIR_UNIT_HOUR}}},
     3600 * NS_PER_S},
    {"concurrency",
     {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 9, .lease_ns = NS_PER_S},
      {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5, .lease_ns = NS_PER_S}},
     NS_PER_S / 9},
    {"concurrency of thousands",
     {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 3000, .lease_ns = 60 * NS_PER_S},
      {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 2500, .lease_ns = 60 * NS_PER_S}},
     NS_PER_MS},
};

/* The same in memory. */
struct twin {
	struct value value; /* its list has room for all */
	size_t limit;       /* that it was written under */
	uint64_t former_ns; /* the end of a warm_up before a denial converted it, or 0 */
};

/* Whether a value that was written under one of them has another head than those of the other. */
static bool heads_differ(const struct algo_limit *one, const struct algo_limit *other)
{
	struct algo_layout a = one->algorithm->layout(one), b = other->algorithm->layout(other);

	return !one->is_adhoc && (a.first != b.first || a.second != b.second);
}

/* A use that a refund may name. */
struct taken {
	uint64_t until_ns, permit;
};

struct trace {
	const struct kind *kind;
	struct algo_limit limits[LIMITS];
	struct twin twins[KEYS];
	uint64_t now_ns;
	bool has_ns;   /* times are no whole microseconds */
	unsigned line; /* for messages */
	size_t limit;  /* in force */
};

static uint64_t drawn(uint64_t most)
{
	return prng_next() % (most + 1);
}

/* Use that a conversion hides is not forgotten: nothing passes, and nothing is refunded. */
static void twin_hidden(const struct algo_limit *limit, const struct algo_call *call,
                        const struct algo_time *time, uint64_t hidden_ns, struct algo_state *word,
                        struct algo_decision *out)
{
	struct algo_call none = *call;

	if (!algo_has_step(limit, bucket_step))
		hidden_ns = 0;
	if (call->op == ALGO_REFUND)
		none.cost = 0;
	algo_step(limit, &none, time, word, out);
	out->reset_after_ns += hidden_ns;
	if (call->op == ALGO_REFUND)
		algo_decision_refund(out, call, false);
	else
		out->retry_after_ns += hidden_ns;
}

static uint64_t twin_step(struct trace *trace, struct twin *twin, const struct algo_call *call,
                          struct algo_decision *out)
{
	const struct algo_limit *limit = &trace->limits[trace->limit];
	struct algo_time time = algo_time_at(limit, moment_given(trace->now_ns));
	struct algo_state word;
	uint64_t hidden_ns = 0, former_ns = twin->former_ns;
	struct algo_call named = *call;
	bool changed, converts = false;

	if (limit->record != ALGO_RECORD_NONE) {
		uint64_t name_ns = uses_step(limit, call, &time, &twin->value.uses, out);

		if (call->op == ALGO_RESET && limit->record != ALGO_RECORD_LOG) /* the key is deleted */
			twin->value.uses.until_ns = twin->value.uses.count = 0;
		return name_ns;
	}
	word = twin->value.state;
	if (limit->algorithm->convert && heads_differ(&trace->limits[twin->limit], limit) &&
	    call->op != ALGO_RESET && word.until_ns > trace->now_ns) {
		struct algo_layout from = limit->algorithm->layout(&trace->limits[twin->limit]);

		former_ns = former_ns ? former_ns : word.until_ns;
		hidden_ns = algo_convert_now(limit, &from, trace->now_ns, &word);
		hidden_ns -= word.until_ns;
		converts = true;
	}
	if (call->op == ALGO_REFUND && call->until_ns != 0 && call->until_ns == former_ns &&
	    word.until_ns > trace->now_ns)
		named.until_ns = word.until_ns;
	if (hidden_ns > 0) {
		twin_hidden(limit, call, &time, hidden_ns, &word, out);
		return 0;
	}
	changed = algo_step(limit, &named, &time, &word, out);
	if (call->op == ALGO_ACQUIRE && call->cost == 0) /* a question, which writes nothing at Redis */
		return 0;
	if (!changed && (!converts || call->op != ALGO_ACQUIRE))
		return 0;
	twin->former_ns = changed || algo_has_step(limit, bucket_step) ? 0 : former_ns;
	twin->limit = trace->limit;
	twin->value.state = word;
	return word.until_ns;
}

static void expect_number(const struct trace *trace, const char *what, uint64_t found,
                          uint64_t expected)
{
	if (found == expected)
		return;
	print_message("%s, step %u: %s: expected %" PRIu64 ", found %" PRIu64 "\n", trace->kind->name,
	              trace->line, what, expected, found);
	fail();
}

static void expect_outcome(const struct trace *trace, const struct algo_decision *found,
                           const struct algo_decision *expected)
{
	expect_number(trace, "allowed", found->allowed, expected->allowed);
	expect_number(trace, "reason", found->reason, expected->reason);
	expect_number(trace, "remaining", found->remaining, expected->remaining);
	expect_number(trace, "retry_after_ns", found->retry_after_ns, expected->retry_after_ns);
	expect_number(trace, "reset_after_ns", found->reset_after_ns, expected->reset_after_ns);
	expect_number(trace, "wait_ns", found->wait_ns, expected->wait_ns);
}

/* When a state is not in use any more. */
static uint64_t ends_ms(const struct value *value)
{
	uint64_t until_ns = u64_max(value->state.until_ns, value->uses.until_ns);

	for (size_t i = 0; i < value->uses.count; i++)
		until_ns = u64_max(until_ns, value->uses.entries[i].until_ns);
	return until_ns / NS_PER_MS;
}

static void expect_life(const struct trace *trace, const char *key, uint64_t ends_ms)
{
	uint64_t found_ms = values_life_ms(&real, key);

	if (found_ms + 2 < ends_ms) {
		print_message("%s, step %u: %s is gone %" PRIu64 " ms before its state ends\n",
		              trace->kind->name, trace->line, key, ends_ms - found_ms);
		fail();
	}
}

/* The value at Redis equals the twin's state, and lives as long. */
static void expect_state(const struct trace *trace, size_t number)
{
	const struct algo_limit *limit = &trace->limits[trace->limit];
	const struct twin *twin = &trace->twins[number];
	struct buffer expected = {0}, found = {0};
	struct value value;
	char key[16];
	uint64_t life_ms;

	snprintf(key, sizeof key, "key%zu", number);
	assert_int_not_equal(values_get(&real, key, limit, &value), VALUE_OTHER);
	if (twin->limit == trace->limit || limit->is_adhoc || limit->record != ALGO_RECORD_NONE) {
		values_text(limit, &twin->value, trace->now_ns, &expected);
		values_text(limit, &value, trace->now_ns, &found);
		buffer_add(&expected, "", 1);
		buffer_add(&found, "", 1);
		if (strcmp(found.data, expected.data) != 0)
			print_message("%s, step %u: %s\n", trace->kind->name, trace->line, key);
		assert_string_equal(found.data, expected.data);
		life_ms = ends_ms(&twin->value);
		if (expected.len > 1 &&
		    life_ms > trace->now_ns / NS_PER_MS + 2) /* the state is still in use */
			expect_life(trace, key, life_ms);
	}
	buffer_free(&expected);
	buffer_free(&found);
	value_free(&value);
}

static struct algo_call a_call(const struct trace *trace, const struct taken *names)
{
	const struct algo_limit *limit = &trace->limits[trace->limit];
	uint64_t roll = drawn(19);
	struct algo_call call = {.op = roll < 13   ? ALGO_ACQUIRE
	                               : roll < 15 ? ALGO_PEEK
	                               : roll < 19 ? ALGO_REFUND
	                                           : ALGO_RESET};

	call.cost = drawn(3) == 0 ? drawn(u64_min(limit->quota, 6)) : 1;
	if (limit->quota > 1000 && drawn(1) == 0)
		call.cost = drawn(limit->quota);
	if (call.op == ALGO_REFUND && drawn(1) == 0) {
		const struct taken *taken = &names[drawn(NAMES - 1)];

		call.until_ns = taken->until_ns;
		call.permit = taken->permit;
		if (limit->record == ALGO_RECORD_LEASES && call.permit && drawn(1))
			call.op = ALGO_REFUND_LAST;
	} else if (call.op == ALGO_ACQUIRE && drawn(1) == 0) {
		call.permit = 1 + drawn(9);
	}
	if (limit->paced && algo_op_requests(call.op) && drawn(3) == 0)
		call.max_wait_ns = drawn(2) == 0 ? WEIR_ZERO : drawn(NS_PER_S);
	if (limit->record == ALGO_RECORD_LOG && drawn(3) == 0)
		call.op = algo_op_replacing(call.op);
	return call;
}

/* A command of one request or several. */
static struct redis_command a_step(const struct trace *trace, const struct taken *names,
                                   char name[16])
{
	struct redis_command step = {
	    .limit = &trace->limits[trace->limit],
	    .key = {name, (size_t)snprintf(name, 16, "key%zu", drawn(KEYS - 1))},
	    .call = a_call(trace, names),
	    .request_count = 1,
	    .local_time = moment_given(trace->now_ns),
	    .uses_given_time = true,
	    /* By the scripts that know of chunks, where there are none. */
	    .settlement = {.may_have_chunks = drawn(2) == 0}};

	if (step.call.op == ALGO_ACQUIRE && step.call.permit == 0 && drawn(2) == 0)
		step.request_count = (uint32_t)(1 + drawn(drawn(9) == 0 ? COMMAND_REPEAT_MAX - 1 : 8));
	return step;
}

/* A call of so many commands, at Redis and in memory. */
static void steps_both(struct trace *trace, struct taken *names, size_t n)
{
	struct redis_command steps[CALL_COMMANDS_MAX], *list[CALL_COMMANDS_MAX] = {NULL};
	char keys[CALL_COMMANDS_MAX][16];

	for (size_t i = 0; i < n; i++) {
		steps[i] = a_step(trace, names, keys[i]);
		list[i] = &steps[i];
	}
	real_steps(&real, list, n, ends);
	for (size_t i = 0; i < n; i++) {
		struct twin *twin = &trace->twins[keys[i][3] - '0'];

		expect_number(trace, "end", ends[i].end, COMMAND_DONE);
		for (uint32_t k = 0; k < steps[i].request_count; k++) {
			struct algo_decision expected;
			uint64_t name_ns = twin_step(trace, twin, &steps[i].call, &expected);

			expect_outcome(trace, &ends[i].outcomes[k], &expected);
			if (name_ns && expected.allowed && algo_op_consumes(steps[i].call.op)) {
				expect_number(trace, "name", ends[i].until_ns[k], name_ns);
				names[drawn(NAMES - 1)] = (struct taken){name_ns, steps[i].call.permit};
			}
		}
	}
	for (size_t i = 0; i < n; i++)
		expect_state(trace, (size_t)(keys[i][3] - '0'));
}

/* In calls of up to `most` commands. */
static void run_kind(const struct kind *kind, bool has_ns, size_t most)
{
	struct trace trace = {.kind = kind, .now_ns = START_NS, .has_ns = has_ns};
	static struct uses_entry lists[KEYS][ALGO_WIDTH_MOST + COMMAND_REPEAT_MAX + 2];
	struct taken names[NAMES] = {0};

	freeReplyObject(real_do(&real, "FLUSHALL"));
	for (size_t i = 0; i < LIMITS; i++) {
		assert_int_equal(algo_limit_init(&trace.limits[i], &kind->options[i], NULL), WEIR_OK);
		trace.limits[i].is_adhoc = kind->is_adhoc;
	}
	for (size_t i = 0; i < KEYS; i++)
		trace.twins[i].value.uses.entries = lists[i];
	for (; trace.line < STEPS; trace.line++) {
		uint64_t roll = drawn(60);

		if (roll < 50) /* else at the same time */
			trace.now_ns += drawn(kind->pace_ns) * (roll == 0 ? 20 : 1);
		if (roll == 1) /* another server's clock, which is behind */
			trace.now_ns -= u64_min(kind->pace_ns * drawn(8), ALGO_SKEW_NS / 8);
		if (!has_ns)
			trace.now_ns -= trace.now_ns % 1000;
		if (roll == 2)
			trace.limit = !trace.limit;
		steps_both(&trace, names, 1 + drawn(most - 1));
	}
	for (size_t i = 0; i < LIMITS; i++)
		algo_limit_free(&trace.limits[i]);
}

static void scripts_decide_as_memory_does(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		run_kind(&kinds[i], false, 1);
		run_kind(&kinds[i], true, 1);
	}
}

/* Uses lists, whose commands are never overtaken because of a swap. */
static void steps_of_one_call_follow_one_another(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		enum weir_algorithm algorithm = kinds[i].options[0].algorithm;

		if (algorithm == WEIR_ALGORITHM_SLIDING_LOG || algorithm == WEIR_ALGORITHM_CONCURRENCY) {
			run_kind(&kinds[i], false, 12);
			run_kind(&kinds[i], true, 12);
		}
	}
}

/* Groups */

/* Limits of all kinds on one key each: all of them take, or none. */
static void groups_are_all_or_nothing(void **state)
{
	enum { N = sizeof kinds / sizeof *kinds };
	static struct algo_limit limits[N];
	static struct uses_entry lists[N][ALGO_WIDTH_MOST + 2];
	struct twin twins[N] = {0};
	uint64_t now_ns = START_NS;
	unsigned passed = 0, withheld = 0;

	(void)state;
	freeReplyObject(real_do(&real, "FLUSHALL"));
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(algo_limit_init(&limits[i], &kinds[i].options[0], NULL), WEIR_OK);
		twins[i].value.uses.entries = lists[i];
	}
	for (unsigned round = 0; round < 300; round++) {
		struct redis_command steps[N], *list[N];
		char names[N][16];
		size_t n = 0, of[N];
		bool all = true;

		now_ns += drawn(NS_PER_S / 5);
		if (round % 2 == 0) /* as Redis's clock has it */
			now_ns -= now_ns % 1000;
		for (size_t i = 0; i < N; i++) {
			struct algo_call peek = {.op = ALGO_PEEK, .cost = 1};
			struct algo_decision out;

			if (drawn(3) != 0)
				continue;
			steps[n] = (struct redis_command){
			    .limit = &limits[i],
			    .key = {names[n], (size_t)snprintf(names[n], sizeof names[n], "one%zu", i)},
			    .call = {.op = ALGO_ACQUIRE, .cost = 1},
			    .request_count = 1,
			    .group = round + 1,
			    .local_time = moment_given(now_ns),
			    .uses_given_time = true};
			list[n] = &steps[n];
			of[n++] = i;
			twin_step(&(struct trace){.limits = {limits[i]}, .now_ns = now_ns}, &twins[i], &peek,
			          &out);
			all = all && out.allowed;
		}
		if (n < 2)
			continue;
		real_steps(&real, list, n, ends);
		for (size_t k = 0; k < n; k++) {
			struct algo_call call = {.op = all ? ALGO_ACQUIRE : ALGO_PEEK, .cost = 1};
			struct trace trace = {.kind = &kinds[of[k]], .limits = {limits[of[k]]},
			                      .now_ns = now_ns, .line = round};
			struct algo_decision out;

			twin_step(&trace, &twins[of[k]], &call, &out);
			if (all || out.allowed)
				expect_number(&trace, "end", ends[k].end, all ? COMMAND_DONE : COMMAND_WITHHELD);
			else if (ends[k].end != COMMAND_UNDECIDED) /* it was refused before it could decide */
				expect_number(&trace, "end", ends[k].end, COMMAND_DONE);
			expect_outcome(&trace, &ends[k].outcomes[0], &out);
			withheld += ends[k].end == COMMAND_WITHHELD;
		}
		passed += all;
	}
	assert_true(passed > 20);
	assert_true(withheld > 20);
	for (size_t i = 0; i < N; i++)
		algo_limit_free(&limits[i]);
}

static int open_redis(void **state)
{
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 1;

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
	    cmocka_unit_test(scripts_decide_as_memory_does),
	    cmocka_unit_test(steps_of_one_call_follow_one_another),
	    cmocka_unit_test(groups_are_all_or_nothing),
	};

	return cmocka_run_group_tests(tests, open_redis, close_redis);
}
