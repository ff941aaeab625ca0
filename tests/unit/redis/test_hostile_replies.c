/*
 * Random replies to calls of scripts: none makes the reader of replies fail in another way than by
 * COMMAND_FAILED. WEIR_TEST_SEED replays a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/prng.h"
#include "kinds.h"
#include "redis/commands/redis_command.h"

static uint64_t drawn(uint64_t most)
{
	return prng_next() % (most + 1);
}

/* A random reply, mostly of the form that a script returns for three commands. */
static struct redis_reply a_reply(struct redis_reply *items, size_t *left, unsigned depth)
{
	static const char *const texts[] = {
	    "",
	    "token_bucket 5/m 10 1795341598000000",
	    "token_bucket 9/s 3 9999999999999999",
	    "fixed_window d UTC 9999999999999999 9999999999",
	    "warm_up 5/m 1 9999999999999999999 4294967295",
	    "sliding_window m 1795341598000000:4294967296 9999999999999999999:1",
	    "sliding_log m 1795341598000000:1:18446744073709551615 1795341598000000:0:1",
	    "base m UTC 1795341598000000:4294967296:1 9999999999999999:0",
	    "sliding_counter m 9999999999999999999:4294967295",
	    "sliding_log m 3:4:5 6:7:8"};
	struct redis_reply reply = {.type = (enum redis_type)drawn(REDIS_ARRAY)};
	size_t n = drawn(8);

	reply.integer = drawn(2) == 0 ? (int64_t)prng_next() : (int64_t)drawn(3) - 1;
	if (drawn(3) == 0)
		reply.integer = 1795341598000000;
	reply.text = slice_of(texts[drawn(sizeof texts / sizeof *texts - 1)]);
	if (depth == 0 && drawn(3) > 0)
		reply.type = REDIS_ARRAY;
	if (reply.type != REDIS_ARRAY || *left < n)
		return reply;
	if (depth == 0 && drawn(3) > 0)
		n = 4;
	*left -= u64_min(n, *left);
	reply.items = &items[*left];
	reply.count = n;
	for (size_t i = 0; i < n; i++)
		items[(size_t)(reply.items - items) + i] = a_reply(items, left, depth + 1);
	if (depth == 0 && n >= 4 && drawn(3) > 0)
		items[(size_t)(reply.items - items) + 3] =
		    (struct redis_reply){.type = REDIS_INTEGER, .integer = 1795341598000000};
	return reply;
}

static void a_reply_may_be_anything(void **state)
{
	static struct command_result result;
	unsigned read = 0;

	(void)state;
	for (unsigned round = 0; round < 200000; round++) {
		struct redis_reply items[64], reply;
		size_t left = sizeof items / sizeof *items;
		struct redis_command steps[3], *list[3];
		struct buffer bytes = {0};
		struct script_text call;

		for (size_t i = 0; i < 3; i++) {
			steps[i] = (struct redis_command){
			    .limit = &limits[drawn(KINDS - 1)],
			    .key = SLICE("key"),
			    .call = {.op = (enum algo_op)drawn(ALGO_RESET), .cost = drawn(3)},
			    .request_count = 1,
			    .group = (uint32_t)drawn(1),
			    .local_time = moment_given(1795341598000000000)};
			if (steps[i].call.op == ALGO_ACQUIRE && steps[i].group == 0)
				steps[i].request_count = (uint32_t)drawn(3) + 1;
			list[i] = &steps[i];
		}
		for (unsigned try = 0; try < 3; try++) {
			assert_int_equal(command_write(list, 3, &bytes, &call), WEIR_OK);
			left = sizeof items / sizeof *items;
			reply = a_reply(items, &left, 0);
			command_clock(&reply, 3);
			for (size_t i = 0; i < 3; i++)
				read += command_read(list, 3, i, &reply, &result) != COMMAND_FAILED;
		}
		for (size_t i = 0; i < 3; i++)
			command_free_swap(&steps[i]);
		buffer_free(&bytes);
	}
	assert_true(read > 10000);
}

static int open_kinds(void **state)
{
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 1;

	(void)state;
	print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	prng_seed(seed);
	kinds_open();
	return 0;
}

static int close_kinds(void **state)
{
	(void)state;
	kinds_close();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_reply_may_be_anything),
	};

	return cmocka_run_group_tests(tests, open_kinds, close_kinds);
}
