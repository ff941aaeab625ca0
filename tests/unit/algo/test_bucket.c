/* Buckets that lend: turns, and what a refund that names one gives back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

static struct algo_limit limit;
static struct algo_state state;

static void begin(struct weir_limit_options options)
{
	options.rate = (struct weir_rate){.count = 10};
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	state = (struct algo_state){0, 0};
}

static struct algo_outcome call(enum algo_op op, uint64_t cost, uint64_t until_ns)
{
	struct algo_call call = {op, cost, until_ns};
	struct algo_time time = {NOW, 0};
	struct algo_outcome out;

	algo_step(&limit, &call, &time, &state, &out);
	return out;
}

static uint64_t acquired(void)
{
	assert_true(call(ALGO_ACQUIRE, 1, 0).allowed);
	return state.until_ns;
}

static void a_turn_is_given_back_only_while_nothing_came_after_it(void **unused)
{
	const struct weir_limit_options paced[] = {
	    {.algorithm = WEIR_PACER, .slack = 1},
	    {.algorithm = WEIR_LEAKY_QUEUE},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof paced / sizeof *paced; i++) {
		uint64_t first, second;

		begin(paced[i]);
		first = acquired();
		second = acquired();
		call(ALGO_REFUND, 1, first);
		assert_int_equal(state.until_ns, second);
		call(ALGO_REFUND, 1, second);
		assert_int_equal(state.until_ns, first);
		call(ALGO_REFUND, 1, first);
		assert_int_equal(state.until_ns, 0);
	}
}

static void of_tokens_any_is_given_back(void **unused)
{
	uint64_t first;

	(void)unused;
	begin((struct weir_limit_options){.algorithm = WEIR_TOKEN_BUCKET});
	first = acquired();
	acquired();
	call(ALGO_REFUND, 1, first);
	assert_int_equal(state.until_ns, first);
}

static void a_denial_takes_no_turn(void **unused)
{
	uint64_t until_ns;

	(void)unused;
	begin((struct weir_limit_options){.algorithm = WEIR_LEAKY_QUEUE, .burst = 1});
	acquired();
	until_ns = acquired();
	assert_false(call(ALGO_ACQUIRE, 1, 0).allowed);
	assert_int_equal(state.until_ns, until_ns);
}

/* T is 100 ms; the one who came first took the turn that is now. */
static void who_would_not_wait_for_the_turn_is_denied_and_takes_none(void **unused)
{
	static const struct {
		uint64_t max_wait_ns, wait_ns, retry_ns;
	} rows[] = {
	    {WEIR_ZERO, 0, 300 * NS_PER_MS},
	    {1, 0, 300 * NS_PER_MS - 1},
	    {300 * NS_PER_MS - 1, 0, 1},
	    {300 * NS_PER_MS, 300 * NS_PER_MS, 0},
	    {3600 * NS_PER_S, 300 * NS_PER_MS, 0},
	    {0, 300 * NS_PER_MS, 0},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct algo_call impatient = {.op = ALGO_PEEK, .cost = 3, .max_wait_ns = rows[i].max_wait_ns};
		struct algo_time time = {NOW, 0};
		struct algo_outcome out;
		uint64_t until_ns;

		begin((struct weir_limit_options){.algorithm = WEIR_LEAKY_QUEUE, .burst = 4});
		until_ns = acquired();
		for (int peek = 1; peek >= 0; peek--) {
			impatient.op = peek ? ALGO_PEEK : ALGO_ACQUIRE;
			algo_step(&limit, &impatient, &time, &state, &out);
			assert_int_equal(out.allowed, rows[i].retry_ns == 0);
			assert_int_equal(out.wait_ns, rows[i].wait_ns);
			assert_int_equal(out.retry_after_ns, rows[i].retry_ns);
			assert_int_equal(out.reason,
			                 out.allowed ? WEIR_REASON_OK : WEIR_REASON_WAIT_TOO_LONG);
		}
		assert_int_equal(state.until_ns, until_ns + rows[i].wait_ns);
	}
}

static void who_waits_longer_than_the_limit_lets_him_is_denied_as_all(void **unused)
{
	struct algo_call patient = {.op = ALGO_ACQUIRE, .cost = 1, .max_wait_ns = 3600 * NS_PER_S};
	struct algo_time time = {NOW, 0};
	struct algo_outcome out;

	(void)unused;
	begin((struct weir_limit_options){.algorithm = WEIR_LEAKY_QUEUE, .burst = 1});
	acquired();
	acquired();
	algo_step(&limit, &patient, &time, &state, &out);
	assert_false(out.allowed);
	assert_int_equal(out.reason, WEIR_REASON_QUEUE_FULL);
}

static void what_is_admitted_comes_within_the_horizon(void **unused)
{
	struct weir_limit_options options = {.algorithm = WEIR_PACER,
	                                     .rate = {1, 365, WEIR_DAY},
	                                     .slack = 14,
	                                     .max_wait_ns = 365 * NS_PER_DAY};

	(void)unused;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	assert_int_equal(limit.quota, 16);
	options.slack = 15;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_ERANGE);
	options = (struct weir_limit_options){.algorithm = WEIR_PACER,
	                                      .rate = {ALGO_COUNT_MAX, 1, WEIR_NANOSECOND},
	                                      .max_wait_ns = ALGO_PERIOD_MAX_NS};
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	assert_int_equal(limit.quota, ALGO_TURNS_MAX + ALGO_SLACK_DEFAULT + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_turn_is_given_back_only_while_nothing_came_after_it),
	    cmocka_unit_test(of_tokens_any_is_given_back),
	    cmocka_unit_test(a_denial_takes_no_turn),
	    cmocka_unit_test(who_would_not_wait_for_the_turn_is_denied_and_takes_none),
	    cmocka_unit_test(who_waits_longer_than_the_limit_lets_him_is_denied_as_all),
	    cmocka_unit_test(what_is_admitted_comes_within_the_horizon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
