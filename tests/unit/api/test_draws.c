/*
 * Limits that shed a share of requests draw once for each request, wherever they stand among the
 * limits that apply to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <weir/engine.h>

#include "rules/model.h"

#define SECOND UINT64_C(1000000000)
#define NOW    (UINT64_C(1700000000) * SECOND)

enum { HALF, OTHER_HALF, RAMP, THROTTLE, WIDE };

static const struct weir_breaker_options slow_ramp = {
    .failures = 1, .sleep_ns = SECOND, .ramp_ns = 100000 * SECOND};
static const struct weir_throttle_options twice = {.k = 2};

static const struct rules_limit limits[] = {
    [HALF] = {.options = {.name = "half", .algorithm = WEIR_ALGORITHM_RANDOM, .deny = 0.5}},
    [OTHER_HALF] = {.options = {.name = "other", .algorithm = WEIR_ALGORITHM_RANDOM, .deny = 0.5}},
    [RAMP] = {.options = {.name = "ramp",
                          .algorithm = WEIR_ALGORITHM_BREAKER,
                          .breaker = &slow_ramp}},
    [THROTTLE] = {.options = {.name = "throttle",
                              .algorithm = WEIR_ALGORITHM_THROTTLE,
                              .throttle = &twice}},
    [WIDE] = {.options = {.name = "wide", .rate = {1000000, 1, WEIR_UNIT_SECOND}}},
};

#include "one_rule.h"

/* Returns how many requests passed. */
static unsigned ask_often(unsigned times)
{
	struct weir_permits permits;
	struct weir_decision d;
	unsigned passed = 0;

	for (unsigned i = 0; i < times; i++)
		passed += ask_once(0, &permits, &d);
	return passed;
}

static void ask_and_report(enum weir_outcome outcome)
{
	struct weir_permits permits;
	struct weir_decision d;

	assert_true(ask_once(0, &permits, &d));
	assert_int_equal(
	    weir_engine_report(engine, &permits,
	                       &(struct weir_report){.outcome = outcome, .now_ns = now_ns}),
	    0);
}

static void a_share_is_denied_once(void **state)
{
	const struct place places[] = PLACES_OF(HALF), both = {{HALF, OTHER_HALF}, 2};

	(void)state;
	for (size_t i = 0; i < PLACES_COUNT; i++) {
		begin(&places[i]);
		assert_in_range(ask_often(4000), 2000 - 150, 2000 + 150);
		end();
	}
	begin(&both);
	assert_in_range(ask_often(4000), 1000 - 130, 1000 + 130);
	end();
}

/* A request that was drawn twice would count twice among those of its priority. */
static void a_share_is_taken_from_the_low_priority(void **state)
{
	const struct place places[] = PLACES_OF(HALF);

	(void)state;
	for (size_t i = 0; i < PLACES_COUNT; i++) {
		struct weir_permits permits;
		struct weir_decision d;
		unsigned passed[2] = {0};

		begin(&places[i]);
		for (unsigned k = 0; k < 2000; k++)
			passed[k % 2] += ask_once(k % 2 ? 9 : 0, &permits, &d);
		assert_in_range(passed[0], 950, 1000);
		assert_in_range(passed[1], 0, 50);
		end();
	}
}

/* At the start of its ramp a breaker lets a tenth pass. */
static void a_ramp_lets_its_share_pass(void **state)
{
	const struct place places[] = PLACES_OF(RAMP);

	(void)state;
	for (size_t i = 0; i < PLACES_COUNT; i++) {
		begin(&places[i]);
		ask_and_report(WEIR_OUTCOME_FAILURE);
		assert_int_equal(ask_often(10), 0);
		now_ns += 2 * SECOND;
		ask_and_report(WEIR_OUTCOME_SUCCESS);
		assert_in_range(ask_often(4000), 400 - 90, 400 + 90);
		end();
	}
}

/*
 * After 1000 requests, of which 100 were accepted, request n passes by a chance of
 * 200 / (1001 + n): of 1000 more, 200 ln 2 = 139. If denied requests did not count, 200 would pass.
 */
static void a_throttle_counts_what_it_denies(void **state)
{
	const struct place places[] = PLACES_OF(THROTTLE);

	(void)state;
	for (size_t i = 0; i < PLACES_COUNT; i++) {
		unsigned asked = 0;

		begin(&places[i]);
		for (; asked < 100; asked++)
			ask_and_report(WEIR_OUTCOME_SUCCESS);
		ask_often(1000 - asked);
		assert_in_range(ask_often(1000), 139 - 35, 139 + 35);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_share_is_denied_once),
	    cmocka_unit_test(a_share_is_taken_from_the_low_priority),
	    cmocka_unit_test(a_ramp_lets_its_share_pass),
	    cmocka_unit_test(a_throttle_counts_what_it_denies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
