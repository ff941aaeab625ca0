/*
 * Faults of states that are lists at Redis: scripts at a real Redis against the step on all uses in
 * memory, at given times. WEIR_TEST_SEED replays a run.
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

#define START_NS   UINT64_C(1700000000000000000)
#define MANY       10000
#define GROUP      128         /* as uses.lua has it */
#define READ_MOST  (4 * GROUP) /* elements that any step may read, ... */
#define CALLS_MOST 64          /* and commands that it may take */

static struct real real;
static struct command_result ends[CALL_COMMANDS_MAX];

/* A limit with one key, at Redis and in memory. */
struct both {
	struct algo_limit limit;
	struct value twin;
	struct uses_entry list[ALGO_WIDTH_MOST + COMMAND_REPEAT_MAX + 2];
	uint64_t now_ns;
	unsigned steps;
};

static struct both both;

static uint64_t drawn(uint64_t most)
{
	return prng_next() % (most + 1);
}

static void begin(struct weir_limit_options options)
{
	memset(&both, 0, sizeof both);
	assert_int_equal(algo_limit_init(&both.limit, &options, NULL), WEIR_OK);
	both.twin.uses.entries = both.list;
	both.now_ns = START_NS;
	freeReplyObject(real_do(&real, "FLUSHALL"));
}

static void begin_log(uint64_t count, uint64_t seconds)
{
	begin((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                  .rate = {count, seconds, WEIR_UNIT_SECOND}});
}

static void begin_places(uint64_t max, uint64_t lease_s)
{
	begin((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = max, .lease_ns = lease_s * NS_PER_S});
}

static void change(struct weir_limit_options options)
{
	algo_limit_free(&both.limit);
	assert_int_equal(algo_limit_init(&both.limit, &options, NULL), WEIR_OK);
}

static void expect_number(const char *what, uint64_t found, uint64_t expected)
{
	if (found != expected)
		fail_msg("step %u: %s: expected %" PRIu64 ", found %" PRIu64, both.steps, what, expected,
		         found);
}

/* The value equals the twin's state, and has a lifetime. */
static void expect_state(void)
{
	struct buffer expected = {0}, found = {0};
	struct value value;

	expect_number("value", values_get(&real, "key", &both.limit, &value), VALUE_OURS);
	values_text(&both.limit, &both.twin, both.now_ns, &expected);
	values_text(&both.limit, &value, both.now_ns, &found);
	buffer_add(&expected, "", 1);
	buffer_add(&found, "", 1);
	if (strcmp(expected.data, found.data) != 0)
		print_message("step %u\n", both.steps);
	assert_string_equal(found.data, expected.data);
	if (real_number(&real, "EXISTS key"))
		assert_in_range(values_life_ms(&real, "key") + 2,
		                both.twin.uses.count == 0
		                    ? 0
		                    : both.list[both.twin.uses.count - 1].until_ns / NS_PER_MS,
		                (both.now_ns + both.limit.farthest_ns) / NS_PER_MS * 2);
	buffer_free(&expected);
	buffer_free(&found);
	value_free(&value);
}

/* The same at both. Returns the last outcome at Redis; names are in `ends`. */
static const struct algo_decision *step(struct algo_call call, uint32_t repeat)
{
	struct redis_command at_redis = {.limit = &both.limit,
	                                 .key = SLICE("key"),
	                                 .call = call,
	                                 .request_count = repeat,
	                                 .local_time = moment_given(both.now_ns),
	                                 .uses_given_time = true};
	struct algo_time time = algo_time_at(&both.limit, moment_given(both.now_ns));
	unsigned calls = real.calls;

	both.steps++;
	real_steps(&real, (struct redis_command *[]){&at_redis}, 1, ends);
	expect_number("end", ends[0].end, COMMAND_DONE);
	expect_number("calls", real.calls - calls, 1);
	for (uint32_t i = 0; i < repeat; i++) {
		const struct algo_decision *found = &ends[0].outcomes[i];
		struct algo_decision expected;
		uint64_t name = uses_step(&both.limit, &call, &time, &both.twin.uses, &expected);

		if (call.op == ALGO_RESET &&
		    both.limit.record == ALGO_RECORD_LEASES) /* the key is deleted */
			both.twin.uses.count = 0;
		expect_number("allowed", found->allowed, expected.allowed);
		expect_number("remaining", found->remaining, expected.remaining);
		expect_number("retry_after_ns", found->retry_after_ns, expected.retry_after_ns);
		expect_number("reset_after_ns", found->reset_after_ns, expected.reset_after_ns);
		if (call.op == ALGO_ACQUIRE)
			expect_number("name", ends[0].until_ns[i], name);
	}
	return &ends[0].outcomes[repeat - 1];
}

static uint64_t take(uint64_t cost, uint64_t permit)
{
	step((struct algo_call){.op = ALGO_ACQUIRE, .cost = cost, .permit = permit}, 1);
	return ends[0].until_ns[0];
}

static bool give_back(uint64_t cost, uint64_t name, uint64_t permit)
{
	return step((struct algo_call){ALGO_REFUND, cost, .until_ns = name, .permit = permit}, 1)
	    ->allowed;
}

static const struct algo_decision *peek(uint64_t cost)
{
	return step((struct algo_call){ALGO_PEEK, cost}, 1);
}

/* Fills a limit of MANY, a microsecond apart, and takes the last one of them as ever. */
static void take_many(uint64_t *names)
{
	bool is_log = both.limit.record == ALGO_RECORD_LOG;
	struct uses *uses = &both.twin.uses;

	for (size_t i = 0; i < MANY; i++, both.now_ns += 1000) {
		names[i] = both.now_ns + both.limit.window_ns;
		uses->entries[uses->count] = (struct uses_entry){1, names[i], is_log ? names[i] : 1 + i};
		uses->count += i + 1 < MANY;
		if (is_log && i + 1 < MANY)
			uses->until_ns = uses->newest_id = names[i];
	}
	both.now_ns -= 1000;
	values_set(&real, "key", &both.limit, &both.twin, both.now_ns);
	names[MANY - 1] = take(1, MANY);
	both.now_ns += 1000;
	expect_state();
}

/* Traps */

static void requests_of_one_instant_have_names_of_their_own(void **state)
{
	uint64_t names[5];

	(void)state;
	begin_log(5, 60);
	for (size_t i = 0; i < 5; i++)
		names[i] = take(1, 0);
	expect_number("the first is the end", names[0], START_NS + 60 * NS_PER_S);
	for (size_t i = 1; i < 5; i++)
		expect_number("name", names[i], names[i - 1] + 1);
	for (size_t i = 0; i < 5; i++) {
		size_t at = (i * 3 + 1) % 5; /* in the middle, at both ends */

		assert_true(give_back(1, names[at], 0));
		expect_state();
		assert_false(give_back(1, names[at], 0));
		expect_state();
	}
	assert_int_equal(peek(1)->remaining, 5);
	/* And none is used again. */
	expect_number("the next one", take(3, 0), names[4] + 1);
	expect_state();
	/* It goes as others do. */
	both.now_ns += NS_PER_S;
	take(1, 0);
	both.now_ns += 59 * NS_PER_S;
	assert_int_equal(peek(1)->remaining, 4);
	take(2, 0);
	expect_state();
}

static void a_request_of_many_costs_is_one_use(void **state)
{
	(void)state;
	begin_log(100, 60);
	take(70, 0);
	step((struct algo_call){.op = ALGO_ACQUIRE, .cost = 10}, 5);
	expect_state();
	assert_int_equal(real_number(&real, "LLEN key"), 1 + 1 + 3);
	begin_places(100, 60);
	step((struct algo_call){.op = ALGO_ACQUIRE, .cost = 10}, 15);
	expect_state();
	assert_int_equal(real_number(&real, "LLEN key"), 1 + 1);
}

/* 3 at 0 s, 2 at 10 s, 5 at 20 s, full: a cost of 4 has to wait for the second. */
static void a_cost_that_spans_uses_waits_for_as_many_as_it_needs(void **state)
{
	static const uint64_t costs[] = {3, 2, 5};

	(void)state;
	begin_log(10, 60);
	for (size_t i = 0; i < 3; i++, both.now_ns += 10 * NS_PER_S)
		take(costs[i], 0);
	for (uint64_t cost = 1; cost <= 10; cost++)
		expect_number("seconds", peek(cost)->retry_after_ns / NS_PER_S,
		              cost <= 3   ? 30
		              : cost <= 5 ? 40
		                          : 50);
	expect_state();
}

static void a_clock_that_goes_back_neither_frees_nor_locks(void **state)
{
	(void)state;
	begin_log(3, 60);
	take(2, 0);
	both.now_ns -= 30 * NS_PER_S; /* a replica that lags takes over */
	expect_number("it counts as of then", take(1, 0), START_NS + 60 * NS_PER_S + 1);
	expect_state();
	assert_false(peek(1)->allowed);
	both.now_ns -= 3 * NS_PER_DAY; /* it was wrong: all begins now */
	assert_false(step((struct algo_call){ALGO_ACQUIRE, 1}, 1)->allowed);
	expect_state();
	both.now_ns += 60 * NS_PER_S;
	assert_true(step((struct algo_call){ALGO_ACQUIRE, 3}, 1)->allowed);
	expect_state();

	begin_places(5, 60);
	take(1, 7);
	take(1, 8);
	both.now_ns -= 30 * NS_PER_S; /* its lease ends before the others' */
	take(1, 9);
	take(1, 0);
	expect_state();
	assert_true(give_back(1, both.now_ns + 60 * NS_PER_S, 9));
	assert_true(give_back(1, START_NS + 60 * NS_PER_S, 7));
	expect_state();
	both.now_ns -= 3 * NS_PER_DAY;
	take(1, 10);
	expect_state();
	both.now_ns += 60 * NS_PER_S;
	assert_int_equal(peek(1)->remaining, 5);
}

static void units_of_an_ended_lease_are_granted_to_others(void **state)
{
	uint64_t end_ns;

	(void)state;
	begin_places(2, 60);
	end_ns = take(2, 7);
	assert_false(peek(1)->allowed);
	both.now_ns = end_ns - 1000;
	assert_false(step((struct algo_call){ALGO_ACQUIRE, 1, .permit = 8}, 1)->allowed);
	both.now_ns = end_ns;
	assert_true(step((struct algo_call){ALGO_ACQUIRE, 2, .permit = 9}, 1)->allowed);
	/* A late report releases no other entry. */
	assert_false(give_back(2, end_ns, 7));
	expect_state();
	assert_false(peek(1)->allowed);
	assert_true(give_back(2, both.now_ns + 60 * NS_PER_S, 9));
	assert_false(give_back(2, both.now_ns + 60 * NS_PER_S, 9));
	assert_int_equal(real_number(&real, "EXISTS key"), 0);
}

static void a_part_of_a_permit_is_refunded(void **state)
{
	uint64_t name, first;

	(void)state;
	begin_places(10, 60);
	name = take(6, 7);
	take(1, 0);
	assert_true(give_back(4, name, 7));
	expect_state();
	assert_int_equal(peek(1)->remaining, 7);
	assert_true(give_back(1, name, 7));
	step((struct algo_call){ALGO_REFUND_LAST, 1, .until_ns = name, .permit = 7}, 1);
	assert_true(ends[0].outcomes[0].allowed); /* no entry is left that could lose its name */
	take(2, 8);
	step((struct algo_call){ALGO_REFUND_LAST, 1, .until_ns = name, .permit = 8}, 1);
	expect_state();
	assert_int_equal(peek(1)->remaining, 8);
	assert_false(give_back(1, name, 8)); /* the other entry has no name any more */
	assert_true(give_back(5, 0, 0)); /* those without a permit, whenever they end */
	assert_int_equal(peek(1)->remaining, 10);

	begin_log(10, 60);
	first = take(3, 0);
	both.now_ns += NS_PER_S;
	name = take(6, 0);
	assert_true(give_back(1, first, 0)); /* a part, of a request behind another */
	expect_state();
	assert_int_equal(peek(1)->remaining, 2);
	assert_true(give_back(4, name, 0));
	expect_state();
	assert_true(give_back(3, first, 0));
	expect_state();
	assert_false(give_back(3, first, 0));
	assert_true(give_back(1, 0, 0));
	expect_state();
	assert_int_equal(peek(1)->remaining, 9);
}

/* An operator or another limit has left another value at the key. */
static void a_key_of_another_type_begins_anew(void **state)
{
	static const char *const scribbles[] = {
	    "SET key 12",   "HSET key a b",          "RPUSH key 1 2 3",
	    "ZADD key 1 a", "RPUSH key sliding_log", "RPUSH key %s",
	    "SET key %s",   "RPUSH key %s5:5 17",
	};

	(void)state;
	for (unsigned kind = 0; kind < 2; kind++)
		for (size_t i = 0; i < sizeof scribbles / sizeof *scribbles; i++) {
			char header[VALUE_HEADER_MAX];

			if (kind)
				begin_places(5, 60);
			else
				begin_log(5, 60);
			header[value_header(&both.limit, header)] = '\0';
			for (enum algo_op op = ALGO_ACQUIRE; op <= ALGO_RESET; op++) {
				freeReplyObject(real_do(&real, "DEL key"));
				both.twin.uses = (struct uses){.entries = both.list};
				freeReplyObject(real_do(&real, scribbles[i], header));
				if (i + 1 < sizeof scribbles / sizeof *scribbles || op == ALGO_ACQUIRE)
					step((struct algo_call){op, 1}, 1);
			}
			freeReplyObject(real_do(&real, "DEL key"));
			both.twin.uses = (struct uses){.entries = both.list};
			if (i + 1 == sizeof scribbles / sizeof *scribbles)
				continue;
			freeReplyObject(real_do(&real, scribbles[i], header));
			step((struct algo_call){ALGO_ACQUIRE, 1}, 7);
			expect_state();
		}
}

static void scripts_that_redis_has_forgotten_are_loaded_again(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		if (kind)
			begin_places(5, 60);
		else
			begin_log(5, 60);
		take(1, 0);
		freeReplyObject(real_do(&real, "SCRIPT FLUSH"));
		take(2, 0);
		assert_int_equal(peek(1)->remaining, 2);
		expect_state();
	}
}

static void other_parameters_preserve_the_use(void **state)
{
	(void)state;
	begin_log(5, 60);
	take(4, 0);
	change((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                   .rate = {3, 1, WEIR_UNIT_MINUTE}});
	assert_false(step((struct algo_call){ALGO_ACQUIRE, 1}, 1)->allowed);
	change((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                   .rate = {6, 1, WEIR_UNIT_MINUTE}});
	assert_true(step((struct algo_call){ALGO_ACQUIRE, 2}, 1)->allowed);
	expect_state();
	begin_places(5, 60);
	take(4, 7);
	change((struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 3, .lease_ns = 60 * NS_PER_S});
	assert_false(step((struct algo_call){ALGO_ACQUIRE, 1}, 1)->allowed);
	assert_true(give_back(4, START_NS + 60 * NS_PER_S, 7));
	assert_true(step((struct algo_call){ALGO_ACQUIRE, 3}, 1)->allowed);
	expect_state();
}

/* Long lists */

/* A command, and the work that it caused in Redis: elements read, and commands. */
struct watched {
	size_t read, calls, writes;
};

static bool has_word(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

static struct watched watch(struct algo_call call)
{
	redisContext *monitor = redisConnectUnix(real.context->unix_sock.path);
	struct watched watched = {0};
	void *line;
	bool last;

	freeReplyObject(redisCommand(monitor, "MONITOR"));
	step(call, 1);
	freeReplyObject(real_do(&real, "ECHO enough"));
	do {
		const char *text, *lua;
		long long from, to;

		assert_int_equal(redisGetReply(monitor, &line), REDIS_OK);
		text = ((redisReply *)line)->str;
		lua = strstr(text, " lua] ");
		last = has_word(text, "\"enough\"");
		if (lua && !has_word(lua, "TIME")) {
			watched.calls++;
			if (sscanf(lua, " lua] \"LRANGE\" \"key\" \"%lld\" \"%lld\"", &from, &to) == 2) {
				assert_true(from >= 0 && to >= from);
				watched.read += (size_t)(to - from + 1);
			} else if (has_word(lua, "LINDEX")) {
				watched.read++;
			} else {
				watched.writes++;
			}
		}
		freeReplyObject(line);
	} while (!last);
	redisFree(monitor);
	return watched;
}

/* It reads and writes little, however long the list is. */
static struct watched expect_little(struct algo_call call)
{
	struct watched watched = watch(call);

	if (watched.read > READ_MOST || watched.calls > CALLS_MOST)
		fail_msg("operation %u reads %zu elements in %zu commands", call.op, watched.read,
		         watched.calls);
	expect_state();
	return watched;
}

static void a_step_reads_little_of_a_list_of_thousands(void **state)
{
	static uint64_t names[MANY];

	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		if (kind)
			begin_places(MANY, 3600);
		else
			begin_log(MANY, 3600);
		take_many(names);
		expect_number("writes", expect_little((struct algo_call){ALGO_ACQUIRE, 1}).writes, 0);
		expect_number("writes", expect_little((struct algo_call){ALGO_PEEK, MANY / 2}).writes, 0);
		for (size_t i = 0; i < MANY; i += MANY / 7 - 1)
			expect_little((struct algo_call){ALGO_REFUND, 1, names[i], .permit = 1 + i});
		expect_little((struct algo_call){ALGO_REFUND, 1, names[MANY - 1], .permit = MANY});
		expect_little((struct algo_call){ALGO_ACQUIRE, 5});
		expect_little((struct algo_call){ALGO_REFUND, 2});
		expect_little((struct algo_call){ALGO_REFUND, kind ? 3 : MANY / 2});
		/* Most have ended, but a denial writes nothing, and does not look at all of them. */
		both.now_ns = names[MANY / 3] + NS_PER_S / 1000;
		expect_number("writes", expect_little((struct algo_call){ALGO_ACQUIRE, MANY}).writes, 0);
		expect_little((struct algo_call){ALGO_ACQUIRE, 1});
		both.now_ns += 2 * 3600 * NS_PER_S;
		expect_little((struct algo_call){ALGO_ACQUIRE, MANY});
		assert_int_equal(real_number(&real, "LLEN key"), 2);
	}
}

/*
 * A refund of many reads each entry once, to see which are meant. If the entries that stay lie among
 * them, it reads and writes these once more, and never changes one by one.
 */
static void a_refund_of_many_makes_a_few_passes(void **state)
{
	static const struct algo_call refunds[] = {{.op = ALGO_REFUND, .cost = 1},
	                                           {.op = ALGO_REFUND, .cost = MANY / 4},
	                                           {.op = ALGO_REFUND, .cost = MANY}};

	(void)state;
	for (unsigned every = 1; every <= 3; every++) { /* one of so many has no permit */
		begin_places(MANY, 3600);
		for (unsigned i = 0; i < MANY; i++, both.now_ns += NS_PER_MS)
			take(1, i % every == 0 ? 0 : i);
		for (size_t i = 0; i < sizeof refunds / sizeof *refunds; i++) {
			struct watched watched = watch(refunds[i]);

			assert_in_range(watched.read, 1, 2 * MANY + READ_MOST);
			assert_in_range(watched.writes, 1, CALLS_MOST);
			expect_state();
		}
		assert_int_equal(real_number(&real, "EXISTS key"), every > 1);
	}
}

static void a_list_takes_as_much_memory_as_its_uses(void **state)
{
	static uint64_t names[MANY];

	(void)state;
	begin_log(MANY, 3600);
	take_many(names);
	assert_in_range(real_number(&real, "MEMORY USAGE key SAMPLES 0"), 1, MANY * 24);
	/* Acquires and refunds do not make the list longer, ... */
	for (unsigned i = 0; i < 3 * GROUP; i++, both.now_ns += 1000) {
		give_back(1, names[i], 0);
		names[i] = take(1, 0);
	}
	expect_state();
	assert_int_equal(real_number(&real, "LLEN key"), 1 + MANY);
	/* ... and the rests of groups are joined, so the first element does not grow. */
	for (size_t i = 3 * GROUP; i < MANY; i++)
		if (i % 100 != 0)
			give_back(1, names[i], 0);
	expect_state();
}

/* Any order of all that can be asked. */
static void lists_of_thousands_decide_as_memory_does(void **state)
{
	static const struct weir_limit_options options[2][2] = {
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {1200, 20, WEIR_UNIT_SECOND}},
	     {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {1100, 20, WEIR_UNIT_SECOND}}},
	    {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1200, .lease_ns = 20 * NS_PER_S},
	     {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1100, .lease_ns = 20 * NS_PER_S}}};
	unsigned grouped = 0;

	(void)state;
	for (unsigned run = 0; run < 4; run++) {
		struct {
			uint64_t name, permit;
		} known[256] = {{0}};
		bool has_ns = run / 2;

		begin(options[run % 2][0]);
		for (unsigned i = 0; i < 3000; i++) {
			uint64_t roll = drawn(999), at = drawn(255);
			struct algo_call call = {.cost = drawn(3) == 0 ? 1 + drawn(4) : 1};
			uint32_t repeat = 1;

			both.now_ns += drawn(14 * NS_PER_MS) * (roll == 0 ? 500 : 1);
			if (roll < 100)
				both.now_ns -= drawn(20 * NS_PER_MS);
			else if (roll == 100)
				both.now_ns -= 10 * NS_PER_S;
			else if (roll == 101)
				both.now_ns -= 3 * NS_PER_DAY;
			if (!has_ns)
				both.now_ns -= both.now_ns % 1000;
			if (roll == 102)
				change(options[run % 2][drawn(1)]);
			if (roll == 103) {
				call.op = ALGO_RESET;
			} else if (roll < 700) {
				call.op = ALGO_ACQUIRE;
				call.permit = drawn(1) ? 1 + drawn(UINT32_MAX) : 0;
				if (!call.permit && drawn(20) == 0)
					repeat = (uint32_t)(1 + drawn(300));
			} else if (roll < 750) {
				call.op = ALGO_PEEK;
				call.cost = 1 + drawn(both.limit.quota - 1);
			} else {
				call.op = ALGO_REFUND;
				if (roll < 980) {
					call.until_ns = known[at].name;
					call.permit = known[at].permit;
					if (run % 2 && call.permit && drawn(1))
						call.op = ALGO_REFUND_LAST;
				} else {
					call.cost += roll == 990 ? drawn(300) : drawn(2);
				}
			}
			step(call, repeat);
			for (uint32_t k = 0; k < repeat && call.op == ALGO_ACQUIRE; k++)
				if (ends[0].until_ns[k] != 0 && drawn(repeat / 20) == 0) {
					known[at].name = ends[0].until_ns[k];
					known[at].permit = call.permit;
				}
			if (i % 5 == 0)
				expect_state();
			grouped += both.twin.uses.count > 2 * GROUP;
		}
		algo_limit_free(&both.limit);
	}
	assert_true(grouped > 1000);
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
	    cmocka_unit_test(requests_of_one_instant_have_names_of_their_own),
	    cmocka_unit_test(a_request_of_many_costs_is_one_use),
	    cmocka_unit_test(a_cost_that_spans_uses_waits_for_as_many_as_it_needs),
	    cmocka_unit_test(a_clock_that_goes_back_neither_frees_nor_locks),
	    cmocka_unit_test(units_of_an_ended_lease_are_granted_to_others),
	    cmocka_unit_test(a_part_of_a_permit_is_refunded),
	    cmocka_unit_test(a_key_of_another_type_begins_anew),
	    cmocka_unit_test(scripts_that_redis_has_forgotten_are_loaded_again),
	    cmocka_unit_test(other_parameters_preserve_the_use),
	    cmocka_unit_test(a_step_reads_little_of_a_list_of_thousands),
	    cmocka_unit_test(a_refund_of_many_makes_a_few_passes),
	    cmocka_unit_test(a_list_takes_as_much_memory_as_its_uses),
	    cmocka_unit_test(lists_of_thousands_decide_as_memory_does),
	};

	return cmocka_run_group_tests(tests, open_redis, close_redis);
}
