/* Tests refunds of turns, states that were written under other parameters, and clocks that jump. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

static struct algo_limit limit;
static struct algo_state state;

/* Cold, 10 ms a request: 1,000 are stored, half of them above the threshold. */
static const struct weir_limit_options usual = {.algorithm = WEIR_ALGORITHM_WARM_UP,
                                                .rate = {100},
                                                .warm_up_ns = 10 * NS_PER_S,
                                                .cold = 3,
                                                .max_wait_ns = 30 * NS_PER_S};

static void begin(struct weir_limit_options options)
{
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	state = (struct algo_state){0, 0};
}

static struct algo_decision call(enum algo_op op, uint64_t cost, uint64_t until_ns, uint64_t now_ns)
{
	struct algo_call call = {.op = op, .cost = cost, .until_ns = until_ns};
	struct algo_time time = {now_ns, 0};
	struct algo_decision out;

	algo_step(&limit, &call, &time, &state, &out);
	return out;
}

static struct algo_decision acquire(uint64_t cost, uint64_t now_ns)
{
	return call(ALGO_ACQUIRE, cost, 0, now_ns);
}

static uint64_t wait_at(uint64_t now_ns)
{
	return call(ALGO_PEEK, 1, 0, now_ns).wait_ns;
}

static void assert_state(struct algo_state expected)
{
	assert_int_equal(state.until_ns, expected.until_ns);
	assert_int_equal(state.word, expected.word);
}

static void a_turn_is_refunded_whole_until_the_next_request(void **unused)
{
	struct algo_state first, second;

	(void)unused;
	begin(usual);
	acquire(1, NOW);
	first = state;
	acquire(3, NOW);
	second = state;
	call(ALGO_REFUND, 1, first.until_ns, NOW);
	assert_state(second);
	call(ALGO_REFUND, 3, second.until_ns, NOW + 1);
	assert_state(first);
	call(ALGO_REFUND, 1, first.until_ns, NOW + 1);
	assert_state((struct algo_state){0, 0});
	assert_int_equal(call(ALGO_REFUND, 1, 0, NOW + 2).remaining, limit.quota);
}

static void a_turn_that_took_the_last_stored_permits_is_refunded_whole(void **unused)
{
	struct weir_limit_options slow = usual;
	struct algo_state first, second;
	struct algo_decision out;

	(void)unused;
	slow.rate = (struct weir_rate){100, 1, WEIR_UNIT_DAY};
	slow.max_wait_ns = 0;
	begin(slow); /* 864 s a request: a hundredth of a permit is stored */
	acquire(1, NOW);
	assert_int_equal(state.until_ns, NOW + (864 + 5 + 10) * NS_PER_S);
	call(ALGO_REFUND, 1, state.until_ns, NOW);
	assert_state((struct algo_state){0, 0});

	begin(usual);
	acquire(700, NOW);
	first = state;
	acquire(500, NOW);
	second = state;
	acquire(800, NOW + NS_PER_S);
	out = call(ALGO_REFUND, 800, state.until_ns, NOW + 2 * NS_PER_S);
	assert_true(out.allowed);
	assert_state(second);
	call(ALGO_REFUND, 500, state.until_ns, NOW + 3 * NS_PER_S);
	assert_state(first);
	call(ALGO_REFUND, 700, state.until_ns, NOW + 4 * NS_PER_S);
	assert_state((struct algo_state){0, 0});
}

static void a_refund_of_a_warm_turn_leaves_the_key_as_warm_as_before(void **unused)
{
	struct algo_state before;
	uint64_t end_ns;

	(void)unused;
	begin(usual);
	acquire(2000, NOW);
	end_ns = NOW + wait_at(NOW);
	before = state;
	acquire(7, end_ns - 1);
	call(ALGO_REFUND, 7, state.until_ns, end_ns - 1);
	assert_state(before);
	acquire(7, end_ns);
	assert_int_equal(wait_at(end_ns), 70 * NS_PER_MS);
	call(ALGO_REFUND, 7, state.until_ns, end_ns);
	assert_int_equal(wait_at(end_ns), 0);
	assert_int_equal(state.until_ns, before.until_ns);
	for (int i = 1; i <= 10; i++) {
		acquire(1, end_ns);
		assert_int_equal(wait_at(end_ns), (uint64_t)i * 10 * NS_PER_MS);
	}
}

/*
 * A state can't count so many requests: a refund then stores the most that the turn can have taken.
 */
static void a_refund_after_very_many_turns_leaves_the_key_no_warmer(void **unused)
{
	struct weir_limit_options slow = usual;
	uint64_t end_ns;

	(void)unused;
	slow.rate.count = 3; /* 30 are stored */
	slow.max_wait_ns = NS_PER_DAY;
	begin(slow);
	acquire(6000, NOW);
	assert_true(state.word < 3);
	end_ns = NOW + wait_at(NOW);
	acquire(20, NOW);
	call(ALGO_REFUND, 20, state.until_ns, NOW);
	assert_in_range(NOW + wait_at(NOW), end_ns, end_ns + 1);
	assert_in_range(state.until_ns, end_ns, end_ns + 10 * NS_PER_S - 1);
	acquire(20, NOW);
	assert_in_range(NOW + wait_at(NOW), end_ns + 20 * NS_PER_S / 3, end_ns + 20 * NS_PER_S);
}

static void a_refund_of_more_than_was_stored_leaves_the_key_as_new(void **unused)
{
	(void)unused;
	for (uint64_t taken = 1; taken < 1000; taken += 111) {
		begin(usual);
		acquire(taken, NOW);
		call(ALGO_REFUND, limit.quota, 0, NOW + NS_PER_MS);
		assert_int_equal(state.until_ns, 0);
	}
}

static void the_later_of_two_bounds_is_reported(void **unused)
{
	struct algo_call hasty = {.op = ALGO_ACQUIRE, .cost = 1, .max_wait_ns = WEIR_ZERO};
	struct algo_time time = {NOW, 0};
	struct algo_decision out;

	(void)unused;
	begin(usual);
	acquire(3001, NOW);
	assert_int_equal(acquire(1, NOW).retry_after_ns, 5010 * NS_PER_MS);
	algo_step(&limit, &hasty, &time, &state, &out);
	assert_int_equal(out.reason, WEIR_REASON_WAIT_TOO_LONG);
	assert_int_equal(out.retry_after_ns, 35010 * NS_PER_MS);
	assert_true(acquire(1, NOW + 5010 * NS_PER_MS).allowed);
}

static void a_clock_that_was_set_back_blocks_no_key(void **unused)
{
	uint64_t then = NOW - 30 * NS_PER_DAY;
	struct algo_decision out;

	(void)unused;
	begin(usual);
	acquire(10, NOW);
	assert_true(acquire(1, NOW - NS_PER_MS).allowed);
	out = acquire(1, then);
	assert_false(out.allowed);
	assert_int_equal(out.retry_after_ns, 10 * NS_PER_MS);
	assert_int_equal(acquire(1, then + 10 * NS_PER_MS).wait_ns, 30 * NS_PER_S);
}

/* A file may hold anything. */
static void any_state_is_decided_by(void **unused)
{
	static const struct weir_rate rates[] = {{100},
	                                         {3},
	                                         {4294967291, 1, WEIR_UNIT_SECOND},
	                                         {1, 365, WEIR_UNIT_DAY},
	                                         {4294967291, 366, WEIR_UNIT_DAY}};

	(void)unused;
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		struct weir_limit_options options = usual;

		options.rate = rates[i];
		options.warm_up_ns = i == 2 ? NS_PER_MS : usual.warm_up_ns;
		options.cold = i % 2 ? 10000 : 1.001;
		begin(options);
		for (unsigned bit = 0; bit < 64; bit++) {
			uint64_t until_ns = NOW + (UINT64_C(1) << (bit % 59));
			uint32_t word = bit % 3 ? UINT32_MAX >> bit % 32 : UINT32_MAX << bit % 32;

			for (enum algo_op op = ALGO_ACQUIRE; op <= ALGO_RESET; op++) {
				state = (struct algo_state){until_ns, word};
				call(op, 1 + bit % limit.quota, 0, NOW);
				assert_true(state.until_ns == 0 || state.until_ns > NOW);
			}
		}
	}
}

/* To other parameters, and back. */
static void changed_to(struct weir_limit_options options, uint64_t now_ns)
{
	struct algo_layout note = limit.algorithm->layout(&limit);

	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	state = limit.algorithm->convert(&limit, &note, now_ns, now_ns, state).cut;
}

static void other_parameters_keep_what_was_used(void **unused)
{
	struct weir_limit_options slow = usual, longer = usual, odd = usual;
	struct algo_state before;

	(void)unused;
	slow.rate.count = 50;
	slow.max_wait_ns = 60 * NS_PER_S;
	longer.warm_up_ns = 20 * NS_PER_S;
	odd.warm_up_ns = 12345678901;
	odd.cold = 1.234;

	begin(usual);
	acquire(2000, NOW); /* for 25 s, then it is warm */
	assert_int_equal(wait_at(NOW), 25 * NS_PER_S);
	before = state;
	changed_to(usual, NOW);
	assert_state(before);
	changed_to(slow,
	           NOW); /* 1,000 were stored and used, and here 500 can be; each takes twice as long */
	assert_int_equal(wait_at(NOW), 50 * NS_PER_S);
	acquire(1, NOW);
	assert_int_equal(wait_at(NOW), 50 * NS_PER_S + 20 * NS_PER_MS);
	changed_to(usual, NOW); /* 500 of 1,000: at the threshold */
	acquire(1, NOW);
	assert_int_equal(wait_at(NOW), 25 * NS_PER_S + 20 * NS_PER_MS);
	changed_to(longer, NOW); /* 501 of 2,000: cold */
	assert_int_equal(wait_at(NOW), 25 * NS_PER_S + 20 * NS_PER_MS);
	acquire(1, NOW);
	assert_in_range(wait_at(NOW), 25 * NS_PER_S + 39 * NS_PER_MS, 25 * NS_PER_S + 42 * NS_PER_MS);
	changed_to(odd, NOW);
	assert_in_range(wait_at(NOW), 25 * NS_PER_S + 39 * NS_PER_MS, 25 * NS_PER_S + 42 * NS_PER_MS);
	odd.rate.count = 99;
	changed_to(odd, NOW); /* a layout has no room for it, but tells that it is the same */
	assert_in_range(wait_at(NOW), 25291 * NS_PER_MS, 25295 * NS_PER_MS); /* 100/99 of it */
	changed_to(usual, NOW); /* unknown: as if the last request had just come */
	assert_int_equal(acquire(1, NOW).retry_after_ns, 10 * NS_PER_MS);
}

/* 1,000 of 70,000, which are counted in larger parts. */
static void use_is_converted_if_parts_are_larger(void **unused)
{
	struct weir_limit_options fast = usual;

	(void)unused;
	fast.rate.count = 7000;
	begin(usual);
	acquire(2000, NOW);
	changed_to(fast, NOW);
	acquire(1, NOW);
	assert_in_range(wait_at(NOW), 25 * NS_PER_S / 70 + 420000, 25 * NS_PER_S / 70 + 429000);
}

static void a_shorter_wait_cuts_the_end(void **unused)
{
	struct weir_limit_options hasty = usual;

	(void)unused;
	hasty.max_wait_ns = NS_PER_S;
	begin(usual);
	acquire(2000, NOW);
	changed_to(hasty, NOW);
	assert_int_equal(acquire(1, NOW).retry_after_ns, 10 * NS_PER_MS);
	assert_int_equal(acquire(1, NOW + 10 * NS_PER_MS).wait_ns, NS_PER_S);
}

static void a_key_that_rests_stays_as_cold_as_it_is(void **unused)
{
	(void)unused;
	begin(usual);
	acquire(1, NOW); /* and again cold after 10 ms more than its 30 */
	changed_to(usual, NOW + 35 * NS_PER_MS);
	assert_int_equal(state.until_ns, 0);
	acquire(2000, NOW);
	changed_to(usual, NOW + 30 * NS_PER_S); /* 5 s of 10 */
	assert_int_equal(state.until_ns, NOW + 35 * NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_turn_is_refunded_whole_until_the_next_request),
	    cmocka_unit_test(a_turn_that_took_the_last_stored_permits_is_refunded_whole),
	    cmocka_unit_test(a_refund_of_a_warm_turn_leaves_the_key_as_warm_as_before),
	    cmocka_unit_test(a_refund_after_very_many_turns_leaves_the_key_no_warmer),
	    cmocka_unit_test(a_refund_of_more_than_was_stored_leaves_the_key_as_new),
	    cmocka_unit_test(the_later_of_two_bounds_is_reported),
	    cmocka_unit_test(a_clock_that_was_set_back_blocks_no_key),
	    cmocka_unit_test(any_state_is_decided_by),
	    cmocka_unit_test(other_parameters_keep_what_was_used),
	    cmocka_unit_test(use_is_converted_if_parts_are_larger),
	    cmocka_unit_test(a_shorter_wait_cuts_the_end),
	    cmocka_unit_test(a_key_that_rests_stays_as_cold_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
