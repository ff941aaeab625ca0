/*
 * Servers that hold chunks of one key at a real Redis, at given times. At random they acquire,
 * peek, refund and reset; their commands overtake one another, get lost, or are carried out late;
 * servers end. WEIR_TEST_SEED replays a run.
 *
 * Beside each run stands the exact state of all grants, as one server would have it. No grant may
 * exceed the limit by that state.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/rates/bucket.h"
#include "base/prng.h"
#include "base/hash.h"
#include "redis/cache/chunks.h"
#include "values.h"

#define START_NS UINT64_C(1700000000000000000)
#define KEY      "chunks"
#define SERVERS  4
#define OPEN     3 /* commands that a server has under way at once */
#define EVENTS   1500

static struct real real;
static uint64_t local_of_all; /* units that were granted from chunks */

enum stage {
	NONE,
	WRITTEN,
	CARRIED_OUT,
};

/* A command under way, of a thread of its own. */
struct open_step {
	enum stage stage;
	struct redis_command step; /* its key must stay */
	struct buffer bytes;
	struct script_text call;
	redisReply *reply;
	struct store_operation
	    *settling; /* the operation that settles the chunk; NULL for a client's request */
	uint64_t asked_ns, clock_ns;
};

struct server {
	struct chunks *chunks;
	struct open_step open[OPEN];
	struct redis_command late; /* which Redis carries out after the server has abandoned it */
	bool has_late;
	uint64_t skew_ns; /* its clock is so much ahead */
};

struct kind {
	const char *name;
	struct weir_limit_options options;
	uint64_t chunk, pace_ns;
	bool is_slow; /* nothing leaks during a run */
};

static const struct kind kinds[] = {
    {"token_bucket", {.rate = {1000, 1, WEIR_UNIT_SECOND}, .burst = 100}, 20, NS_PER_MS},
    {"token_bucket of fractions", {.rate = {7, 3, WEIR_UNIT_SECOND}, .burst = 40}, 7, NS_PER_S / 4},
    {"slow bucket", {.rate = {10000, 1, WEIR_UNIT_DAY}, .burst = 10000}, 50, NS_PER_MS, true},
    {"fixed_window",
     {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {200, 1, WEIR_UNIT_SECOND}},
     20,
     5 * NS_PER_MS},
    {"long window",
     {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {10000, 1, WEIR_UNIT_DAY}},
     50,
     NS_PER_MS,
     true},
    {"resetting_bucket",
     {.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {100, 1, WEIR_UNIT_SECOND}},
     30,
     9 * NS_PER_MS},
};

enum { WITH_REFUNDS = 1, WITH_FAULTS = 2 };

struct run {
	const struct kind *kind;
	unsigned what;
	struct algo_limit limit;
	struct server servers[SERVERS];
	uint64_t now_ns;
	struct algo_state exact; /* of all grants; for a window the units and its end: */
	uint64_t used, window_ns;
	uint64_t granted, local;
	bool stops; /* the servers end */
	unsigned line;
};

static uint64_t drawn(uint64_t most)
{
	return prng_next() % (most + 1);
}

static uint64_t local_ns(const struct run *run, const struct server *server)
{
	return run->now_ns - START_NS + NS_PER_DAY + server->skew_ns;
}

static void fail_run(const struct run *run, const char *what)
{
	fail_msg("%s, event %u: %s", run->kind->name, run->line, what);
}

static bool is_bucket(const struct run *run)
{
	return algo_has_step(&run->limit, bucket_step);
}

static struct algo_decision exact_step(struct run *run, enum algo_op op, uint64_t cost)
{
	const struct algo_call call = {.op = op, .cost = cost};
	struct algo_time time = algo_time_at(&run->limit, moment_given(run->now_ns));
	struct algo_decision out;

	algo_step(&run->limit, &call, &time, &run->exact, &out);
	return out;
}

/* The units granted now; `name_ns` is the end of their window. */
static void count(struct run *run, uint64_t cost, uint64_t name_ns)
{
	run->granted += cost;
	if (is_bucket(run)) {
		if (!exact_step(run, ALGO_ACQUIRE, cost).allowed)
			fail_run(run, "more was granted than the limit allows");
		return;
	}
	if (run->window_ns != name_ns) {
		if (name_ns < run->window_ns)
			fail_run(run, "a window that is over grants");
		run->used = 0;
	}
	run->window_ns = name_ns;
	run->used += cost;
	if (run->used > run->limit.quota)
		fail_run(run, "more was granted than the limit allows");
}

static void forget(struct run *run, enum algo_op op, uint64_t cost)
{
	if (is_bucket(run))
		exact_step(run, op, cost);
	else if (run->now_ns < run->window_ns)
		run->used = op == ALGO_RESET ? 0 : sat_sub(run->used, cost);
}

/* The units that could still be granted. */
static uint64_t remaining(struct run *run)
{
	if (is_bucket(run))
		return exact_step(run, ALGO_PEEK, 1).remaining;
	return run->limit.quota - (run->now_ns < run->window_ns ? run->used : 0);
}

static struct store_operation make_operation(const struct run *run, enum algo_op op, uint64_t cost)
{
	return (struct store_operation){
	    .step = {.limit = &run->limit,
	             .key = {.hash = hash_bytes(&(struct hash_key){1, 2}, KEY, strlen(KEY))},
	             .call = {.op = op, .cost = cost},
	             .at = moment_given(run->now_ns)},
	    .limit_name = "l",
	    .key_name = SLICE(KEY),
	};
}

/* Steps */

static void write_step(struct run *run, struct server *server, struct open_step *open)
{
	open->asked_ns = local_ns(run, server);
	open->step.local_time = moment_given(run->now_ns);
	open->step.written_at_ns = open->asked_ns;
	if (open->step.chunk_use.is_registered)
		chunk_write_settlement(server->chunks, &open->step, open, run->stops);
	open->stage = WRITTEN;
}

static void begin_step(struct run *run, struct server *server,
                       const struct store_operation *operation, bool takes,
                       struct store_operation *settling)
{
	struct open_step *open = NULL;

	for (size_t i = 0; i < OPEN && !open; i++)
		if (server->open[i].stage == NONE)
			open = &server->open[i];
	assert_non_null(open);
	*open = (struct open_step){
	    .step = {.limit = operation->step.limit,
	             .key = SLICE(KEY),
	             .call = operation->step.call,
	             .request_count = 1,
	             .uses_given_time = true,
	             .chunk_use = {.name = chunk_name(operation),
	                           .is_made_to_settle = settling != NULL}},
	    .settling = settling,
	};
	if (takes && drawn(3) == 0)
		open->step.request_count = 1 + (uint32_t)drawn(8);
	chunk_register(server->chunks, &open->step, open);
	open->step.chunk_use.takes_chunk = takes && open->step.chunk_use.is_registered &&
	                                   chunk_allocate_settling(server->chunks, operation);
	write_step(run, server, open);
}

static void carry_out(struct run *run, struct open_step *open)
{
	struct redis_command *steps[1] = {&open->step};

	/* As it was written, at the time of now. */
	open->step.local_time = moment_given(run->now_ns);
	open->reply = real_call(&real, steps, 1);
	open->stage = CARRIED_OUT;
}

static void end_step(struct run *run, struct server *server, struct open_step *open, bool answered)
{
	if (open->step.chunk_use.is_registered)
		chunk_record_end(server->chunks, &open->step, open, local_ns(run, server),
		                 answered ? open->clock_ns : 0);
	if (open->settling)
		open->settling->done(open->settling);
	if (open->reply)
		freeReplyObject(open->reply);
	command_free_swap(&open->step);
	open->stage = NONE;
}

/* The outcome of a command that Redis has carried out, even if its reply is lost. */
static void judge(struct run *run, struct open_step *open, struct command_result *end)
{
	struct redis_command *steps[1] = {&open->step};
	struct redis_reply *reply = real_reply(open->reply);

	open->clock_ns = command_clock(reply, 1);
	command_read(steps, 1, 0, reply, end);
	real_free(reply);
	if (end->end != COMMAND_DONE)
		return;
	if (open->step.call.op == ALGO_ACQUIRE)
		for (uint32_t i = 0; i < open->step.request_count; i++)
			if (end->outcomes[i].allowed)
				count(run, open->step.call.cost, end->until_ns[i]);
}

/* Grants and refunds count from when they are carried out. */
static void carry_out_and_judge(struct run *run, struct server *server, struct open_step *open,
                                bool reply_arrives)
{
	static struct command_result end;

	if ((open->step.call.op == ALGO_REFUND && open->step.call.cost > 0) ||
	    open->step.call.op == ALGO_RESET)
		forget(run, open->step.call.op, open->step.call.cost);
	carry_out(run, open);
	judge(run, open, &end);
	if (end.end == COMMAND_AGAIN || end.end == COMMAND_LATER) {
		freeReplyObject(open->reply);
		open->reply = NULL;
		if (reply_arrives)
			write_step(run, server, open);
		return;
	}
	if (end.end != COMMAND_DONE)
		fail_run(run, "a step failed");
	if (open->step.call.op == ALGO_ACQUIRE && !end.outcomes[open->step.request_count - 1].allowed &&
	    end.outcomes[open->step.request_count - 1].retry_after_ns == 0)
		fail_run(run, "a denial that does not say when");
}

/* Events */

static bool has_room(const struct server *server)
{
	for (size_t i = 0; i < OPEN; i++)
		if (server->open[i].stage == NONE)
			return true;
	return false;
}

static void request(struct run *run, struct server *server)
{
	uint64_t roll = drawn(run->what & WITH_REFUNDS ? 39 : 29);
	uint64_t cost = drawn(3) == 0 ? 1 + drawn(run->kind->chunk + 5) : 1;
	struct store_operation operation;

	if (roll < 25)
		operation = make_operation(run, ALGO_ACQUIRE, cost);
	else if (roll < 30)
		operation = make_operation(run, ALGO_PEEK, cost);
	else if (roll < 39)
		operation = make_operation(run, ALGO_REFUND, cost);
	else
		operation = make_operation(run, ALGO_RESET, 0);
	if (roll < 3)
		operation.step.call.permit = 1 + drawn(1000);
	if (chunk_applies(&operation)) {
		enum cache_answer answer = chunk_answer(server->chunks, &operation, local_ns(run, server),
		                                        &server->open[drawn(OPEN - 1)]);

		if (answer == CACHE_ANSWERED && operation.step.call.op == ALGO_ACQUIRE) {
			run->local++;
			count(run, cost, operation.until_ns);
		}
		if (answer == CACHE_ANSWERED)
			return;
		begin_step(run, server, &operation, answer == CACHE_REQUEST_CHUNK, NULL);
		return;
	}
	begin_step(run, server, &operation, false, NULL);
}

/* A server without chunks takes all that it gets, by ones. */
static void exhaust(struct run *run)
{
	struct redis_command step = {.limit = &run->limit,
	                             .key = SLICE(KEY),
	                             .uses_given_time = true,
	                             .request_count =
	                                 (uint32_t)u64_min(run->limit.quota, COMMAND_REPEAT_MAX),
	                             .call = {.op = ALGO_ACQUIRE, .cost = 1},
	                             .local_time = moment_given(run->now_ns)};
	static struct command_result end;

	real_steps(&real, (struct redis_command *[]){&step}, 1, &end);
	for (uint32_t i = 0; i < step.request_count && end.outcomes[i].allowed; i++)
		count(run, 1, end.until_ns[i]);
}

/* Settles a chunk whose time it is, or any. */
static void settle(struct run *run, struct server *server, bool all)
{
	uint64_t next_ns;

	for (size_t i = 0; i < OPEN; i++) {
		struct store_operation *operation =
		    has_room(server) ? chunk_release_idle(server->chunks, &server->open[i],
		                                          local_ns(run, server), all, &next_ns)
		                     : NULL;

		if (operation)
			begin_step(run, server, operation, false, operation);
	}
}

static void go_on(struct run *run, struct server *server, struct open_step *open)
{
	bool fails = (run->what & WITH_FAULTS) && drawn(30) == 0;

	if (server->has_late && drawn(20) == 0) {
		struct redis_command *late[1] = {&server->late};

		server->late.local_time = moment_given(run->now_ns);
		freeReplyObject(real_call(&real, late, 1));
		server->has_late = false;
	}
	if (open->stage == CARRIED_OUT || (open->stage == WRITTEN && fails && drawn(1) == 0)) {
		if (open->stage == WRITTEN && open->step.call.op == ALGO_ACQUIRE &&
		    !open->step.attempt.swap) {
			server->late = open->step;
			server->has_late = true;
		}
		end_step(run, server, open, open->stage == CARRIED_OUT && !fails);
	} else if (open->stage == WRITTEN) {
		carry_out_and_judge(run, server, open, true);
	}
}

static void finish(struct run *run)
{
	for (size_t i = 0; i < SERVERS; i++)
		for (size_t j = 0; j < OPEN; j++)
			while (run->servers[i].open[j].stage != NONE) {
				struct open_step *open = &run->servers[i].open[j];

				if (open->stage == CARRIED_OUT)
					end_step(run, &run->servers[i], open, true);
				else
					carry_out_and_judge(run, &run->servers[i], open, true);
			}
}

/* All that is not used has to be there again, at once or, of a server that ended, in the end. */
static void expect_all_returned(struct run *run)
{
	uint64_t expected = remaining(run);
	struct redis_command step = {.limit = &run->limit,
	                             .key = SLICE(KEY),
	                             .request_count = 1,
	                             .uses_given_time = true,
	                             .call = {.op = ALGO_PEEK, .cost = 1},
	                             .local_time = moment_given(run->now_ns)};
	static struct command_result end;

	real_steps(&real, (struct redis_command *[]){&step}, 1, &end);
	if (end.outcomes[0].remaining > expected)
		fail_run(run, "in the end more remains than was left");
	if (!(run->what & (WITH_FAULTS | WITH_REFUNDS)) && run->kind->is_slow &&
	    end.outcomes[0].remaining != expected)
		fail_msg("%s: %" PRIu64 " remain of %" PRIu64, run->kind->name, end.outcomes[0].remaining,
		         expected);
}

/* After `retry_after` a request passes, if no other came. */
static void expect_progress(struct run *run)
{
	struct store_operation operation = make_operation(run, ALGO_ACQUIRE, run->limit.quota);
	static struct command_result end;

	for (unsigned tries = 0;; tries++) {
		struct redis_command step = {.limit = &run->limit,
		                             .key = SLICE(KEY),
		                             .call = operation.step.call,
		                             .request_count = 1,
		                             .uses_given_time = true,
		                             .local_time = moment_given(run->now_ns)};

		real_steps(&real, (struct redis_command *[]){&step}, 1, &end);
		if (end.outcomes[0].allowed)
			break;
		if (tries == 1 && !(run->what & WITH_FAULTS))
			fail_run(run, "denied after retry_after");
		if (tries > 400) /* of a server that ended */
			fail_run(run, "nothing comes back");
		run->now_ns += end.outcomes[0].retry_after_ns;
	}
}

static void run_kind(const struct kind *kind, unsigned what)
{
	struct run run = {.kind = kind, .what = what, .now_ns = START_NS};
	uint64_t pace_ns = kind->pace_ns * (1 + drawn(1) * drawn(15)); /* some runs are crowded */

	freeReplyObject(real_do(&real, "FLUSHALL"));
	assert_int_equal(algo_limit_init(&run.limit, &kind->options, NULL), WEIR_OK);
	run.limit.identity = 1;
	run.limit.chunk = kind->chunk;
	for (size_t i = 0; i < SERVERS; i++) {
		run.servers[i].chunks = chunks_open();
		run.servers[i].skew_ns = drawn(10 * NS_PER_S);
	}
	for (; run.line < EVENTS; run.line++) {
		struct server *server = &run.servers[drawn(SERVERS - 1)];
		uint64_t roll = drawn(99);

		run.now_ns += drawn(1) * drawn(pace_ns) * (roll == 0 && !kind->is_slow ? 100 : 1);
		run.now_ns -= run.now_ns % 1000;
		if (roll < 50 && has_room(server))
			request(&run, server);
		else if (roll == 50 && !kind->is_slow)
			exhaust(&run);
		else if (roll < 97)
			for (size_t i = 0; i < 6; i++)
				go_on(&run, server, &server->open[drawn(OPEN - 1)]);
		else
			settle(&run, server, drawn(1) == 0);
		if ((what & WITH_FAULTS) && drawn(500) == 0) { /* the server ends, and another begins */
			for (size_t i = 0; i < OPEN; i++)
				if (server->open[i].stage != NONE)
					end_step(&run, server, &server->open[i], false);
			chunks_close(server->chunks);
			server->chunks = chunks_open();
		}
	}
	finish(&run);
	run.stops = true;
	for (size_t i = 0; i < SERVERS; i++)
		for (size_t j = 0; j < 2; j++) { /* lost settlements are repeated */
			settle(&run, &run.servers[i], true);
			finish(&run);
		}
	local_of_all += run.local;
	expect_all_returned(&run);
	if (!(what & WITH_FAULTS) || !kind->is_slow)
		expect_progress(&run);
	for (size_t i = 0; i < SERVERS; i++)
		chunks_close(run.servers[i].chunks);
	algo_limit_free(&run.limit);
}

static void run_all(unsigned what)
{
	local_of_all = 0;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (size_t round = 0; round < 3; round++)
			run_kind(&kinds[i], what);
	assert_true(local_of_all > 100);
}

static void several_servers_never_exceed_the_limit_and_lose_nothing(void **state)
{
	(void)state;
	run_all(0);
}

static void refunds_and_resets_never_change_the_chunks_of_others(void **state)
{
	(void)state;
	run_all(WITH_REFUNDS);
}

static void faults_lose_units_but_double_none(void **state)
{
	(void)state;
	run_all(WITH_FAULTS);
	run_all(WITH_FAULTS | WITH_REFUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(several_servers_never_exceed_the_limit_and_lose_nothing),
	    cmocka_unit_test(refunds_and_resets_never_change_the_chunks_of_others),
	    cmocka_unit_test(faults_lose_units_but_double_none),
	};
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
	int failed;

	printf("WEIR_TEST_SEED=%" PRIu64 "\n", seed);
	prng_seed(seed);
	real_open(&real);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	real_close(&real);
	return failed;
}
