/* Tests refunds that name a request, of buckets and of turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/rates/bucket.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

static struct algo_limit limit;
static struct algo_state state;

static void begin(struct weir_limit_options options)
{
	options.rate = (struct weir_rate){.count = 10};
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	state = (struct algo_state){0, 0};
}

static struct algo_decision step(struct algo_state *on, uint64_t now_ns, enum algo_op op,
                                 uint64_t cost, uint64_t until_ns)
{
	struct algo_call call = {op, cost, until_ns};
	struct algo_time time = {now_ns, 0};
	struct algo_decision out;

	algo_step(&limit, &call, &time, on, &out);
	return out;
}

static struct algo_decision call(enum algo_op op, uint64_t cost, uint64_t until_ns)
{
	return step(&state, NOW, op, cost, until_ns);
}

static uint64_t acquired(void)
{
	assert_true(call(ALGO_ACQUIRE, 1, 0).allowed);
	return state.until_ns;
}

static void a_turn_is_refunded_only_until_the_next_request(void **unused)
{
	const struct weir_limit_options paced[] = {
	    {.algorithm = WEIR_ALGORITHM_PACER, .slack = 1},
	    {.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE},
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

/* T is whole, and is not. */
static const struct weir_rate rates[] = {{1, 4, WEIR_UNIT_NANOSECOND},
                                         {3, 10, WEIR_UNIT_NANOSECOND}};

static void begin_ns(struct weir_rate rate, uint64_t burst)
{
	struct weir_limit_options options = {.rate = rate, .burst = burst};

	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
}

/* How many of three that come at `times` pass by `now`, and how many could besides. */
struct history {
	struct algo_state state;
	uint64_t passed, next;
};

static uint64_t passes_by(struct history *h, const uint64_t times[3], uint64_t now)
{
	for (; h->next < 3 && times[h->next] <= now; h->next++)
		h->passed += step(&h->state, NOW + times[h->next], ALGO_ACQUIRE, 1, 0).allowed;
	return h->passed + step(&h->state, NOW + now, ALGO_PEEK, 1, 0).remaining;
}

/*
 * Compares a history without a request of cost 2 with one where it comes at `x` and is refunded at
 * `r`.
 */
static void compare_with_and_without(const uint64_t times[3], uint64_t x, uint64_t r)
{
	struct history with = {.passed = 0}, without = {.passed = 0};
	bool came;
	uint64_t until_ns;

	passes_by(&with, times, x);
	came = step(&with.state, NOW + x, ALGO_ACQUIRE, 2, 0).allowed;
	until_ns = with.state.until_ns;
	passes_by(&with, times, r);
	if (!came)
		return;
	step(&with.state, NOW + r, ALGO_REFUND, 2, until_ns);
	for (uint64_t now = r; now < 40; now++)
		if (passes_by(&with, times, now) > passes_by(&without, times, now))
			fail_msg("requests at %d %d %d, one at %d given back at %d: too many by %d",
			         (int)times[0], (int)times[1], (int)times[2], (int)x, (int)r, (int)now);
}

static void a_refund_lets_no_more_pass_than_if_its_request_had_not_come(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		begin_ns(rates[i], 3);
		for (uint64_t a = 0; a < 14; a++)
			for (uint64_t b = a; b < 14; b++)
				for (uint64_t c = b; c < 14; c += 2)
					for (uint64_t x = 0; x < 10; x++)
						for (uint64_t r = x; r < 22; r += 2)
							compare_with_and_without((uint64_t[]){a, b, c}, x, r);
	}
}

static void an_immediate_refund_releases_all(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
		for (uint64_t before = 0; before < 3; before++) {
			struct algo_state was;

			begin_ns(rates[i], 4);
			state = (struct algo_state){0, 0};
			call(ALGO_ACQUIRE, before, 0);
			was = state;
			call(ALGO_ACQUIRE, 2, 0);
			call(ALGO_REFUND, 2, state.until_ns);
			assert_int_equal(state.until_ns, was.until_ns);
			assert_int_equal(state.word, was.word);
		}
}

/* Refunds out of order may gain idle time, but release no more units than were taken. */
static void refunds_in_any_order_give_back_no_more_than_was_taken(void **unused)
{
	uint64_t draw = 1;

	(void)unused;
	for (int trace = 0; trace < 20000; trace++) {
		struct weir_rate rate = rates[trace % 2];
		uint64_t untils[8], held = 0, kept = 0, now = 0;

		begin_ns(rate, 3);
		state = (struct algo_state){0, 0};
		for (int i = 0; i < 24; i++) {
			draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			now += draw >> 60 & 3;
			if (draw >> 40 & 1 && held > 0) {
				uint64_t which = (draw >> 48) % held;

				step(&state, NOW + now, ALGO_REFUND, 1, untils[which]);
				untils[which] = untils[--held];
			} else if (step(&state, NOW + now, ALGO_ACQUIRE, 1, 0).allowed) {
				if (draw >> 41 & 1 && held < 8)
					untils[held++] = state.until_ns;
				else
					kept++;
			}
			assert_true(kept * rate.period <= 3 * rate.period + now * rate.count);
		}
	}
}

static void a_refund_releases_the_tokens_that_have_not_leaked(void **unused)
{
	uint64_t first, second;

	(void)unused;
	begin(
	    (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_TOKEN_BUCKET}); /* one per 100 ms */
	first = acquired();
	second = acquired();
	step(&state, NOW + 70 * NS_PER_MS, ALGO_REFUND, 1, first);
	assert_int_equal(state.until_ns, second - 30 * NS_PER_MS);
	step(&state, NOW + 101 * NS_PER_MS, ALGO_REFUND, 1, first);
	assert_int_equal(state.until_ns, second - 30 * NS_PER_MS);
}

static void any_request_for_tokens_can_be_refunded(void **unused)
{
	uint64_t first;

	(void)unused;
	begin((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_TOKEN_BUCKET});
	first = acquired();
	acquired();
	call(ALGO_REFUND, 1, first);
	assert_int_equal(state.until_ns, first);
}

/* A request can have such a cost if it was admitted just before a reload made its limit slower. */
static void a_cost_beyond_all_time_is_denied_and_not_taken_for_a_small_one(void **unused)
{
	static const uint64_t costs[] = {UINT64_C(1) << 32, UINT64_C(1) << 53, UINT64_MAX};
	struct weir_limit_options slow = {.rate = {1, 360, WEIR_UNIT_DAY}, .burst = 2};

	(void)unused;
	for (uint64_t count = 1; count <= 3; count += 2) { /* of whole nanoseconds, and in parts */
		slow.rate.count = count;
		assert_int_equal(algo_limit_init(&limit, &slow, NULL), WEIR_OK);
		state = (struct algo_state){0, 0};
		acquired();
		for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
			struct algo_state before = state;
			struct algo_decision out = call(ALGO_ACQUIRE, costs[i], 0);

			assert_false(out.allowed);
			assert_true(out.retry_after_ns > ALGO_HORIZON_NS);
			assert_memory_equal(&state, &before, sizeof state);
		}
	}
}

static void a_denial_takes_no_turn(void **unused)
{
	uint64_t until_ns;

	(void)unused;
	begin((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .burst = 1});
	acquired();
	until_ns = acquired();
	assert_false(call(ALGO_ACQUIRE, 1, 0).allowed);
	assert_int_equal(state.until_ns, until_ns);
}

/* T is 100 ms; the one who came first took the turn that is now. */
static void a_request_that_does_not_wait_is_denied_and_takes_no_turn(void **unused)
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
		struct algo_decision out;
		uint64_t until_ns;

		begin((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .burst = 4});
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

static void a_request_waits_no_longer_than_the_limit_allows(void **unused)
{
	struct algo_call patient = {.op = ALGO_ACQUIRE, .cost = 1, .max_wait_ns = 3600 * NS_PER_S};
	struct algo_time time = {NOW, 0};
	struct algo_decision out;

	(void)unused;
	begin((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .burst = 1});
	acquired();
	acquired();
	algo_step(&limit, &patient, &time, &state, &out);
	assert_false(out.allowed);
	assert_int_equal(out.reason, WEIR_REASON_QUEUE_FULL);
}

static void admitted_requests_start_within_the_horizon(void **unused)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_PACER,
	                                     .rate = {1, 365, WEIR_UNIT_DAY},
	                                     .slack = 14,
	                                     .max_wait_ns = 365 * NS_PER_DAY};

	(void)unused;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	assert_int_equal(limit.quota, 16);
	options.slack = 15;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_ERANGE);
	options = (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_PACER,
	                                      .rate = {ALGO_COUNT_MAX, 1, WEIR_UNIT_NANOSECOND},
	                                      .max_wait_ns = ALGO_PERIOD_MAX_NS};
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	assert_int_equal(limit.quota, BUCKET_WAITING_MAX + 10 + 1);
}

/* T = 10/7 ns: a fraction of the time that was cut off must not be left over. */
static void a_state_that_is_cut_back_is_exactly_a_full_bucket(void **unused)
{
	struct weir_limit_options options = {.rate = {7, 10, WEIR_UNIT_NANOSECOND}};

	(void)unused;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	state = (struct algo_state){NOW + 2 * ALGO_SKEW_NS, 6};
	assert_int_equal(call(ALGO_ACQUIRE, 1, 0).retry_after_ns, 2);
	assert_int_equal(state.until_ns, NOW + 10);
	assert_int_equal(state.word, 0);
}

/* The wait is of a turn and a half, so that what is in use is more than two at once. */
static void a_refund_of_more_than_is_in_use_releases_all(void **unused)
{
	const uint64_t costs[] = {100, UINT64_C(1) << 63, UINT64_MAX};

	(void)unused;
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
		begin((struct weir_limit_options){.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE,
		                                  .max_wait_ns = 150 * NS_PER_MS});
		acquired();
		acquired();
		assert_true(step(&state, NOW + 50 * NS_PER_MS, ALGO_ACQUIRE, 1, 0).allowed);
		step(&state, NOW + 50 * NS_PER_MS, ALGO_REFUND, costs[i], 0);
		assert_int_equal(state.until_ns, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_turn_is_refunded_only_until_the_next_request),
	    cmocka_unit_test(any_request_for_tokens_can_be_refunded),
	    cmocka_unit_test(a_refund_releases_the_tokens_that_have_not_leaked),
	    cmocka_unit_test(an_immediate_refund_releases_all),
	    cmocka_unit_test(a_refund_lets_no_more_pass_than_if_its_request_had_not_come),
	    cmocka_unit_test(refunds_in_any_order_give_back_no_more_than_was_taken),
	    cmocka_unit_test(a_refund_of_more_than_is_in_use_releases_all),
	    cmocka_unit_test(a_cost_beyond_all_time_is_denied_and_not_taken_for_a_small_one),
	    cmocka_unit_test(a_denial_takes_no_turn),
	    cmocka_unit_test(a_request_that_does_not_wait_is_denied_and_takes_no_turn),
	    cmocka_unit_test(a_request_waits_no_longer_than_the_limit_allows),
	    cmocka_unit_test(admitted_requests_start_within_the_horizon),
	    cmocka_unit_test(a_state_that_is_cut_back_is_exactly_a_full_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
