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

#include "../engine/config.h"

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
static const char *const by_key[] = {"key"};

static struct rules_rule rule = {.name = "rule", .key = by_key, .key_count = 1};
static struct weir_config config = {LIMITS_OF(limits), .rules = &rule, .rule_count = 1};
static weir_table *table;
static weir_engine *engine;
static uint64_t now_ns;

static void begin(const size_t *of_rule, size_t count)
{
	rule.limits = of_rule;
	rule.limit_count = count;
	now_ns = NOW;
	weir_seed(1);
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 1000}, &table, NULL),
	                 0);
	assert_int_equal(weir_engine_open(&config, table, &engine, NULL), 0);
}

static void end(void)
{
	weir_engine_close(engine);
	weir_table_close(table);
}

static bool ask(unsigned priority, struct weir_permits *permits)
{
	const struct weir_attribute key = {"key", "k", 1};
	struct weir_ask request = {.priority = priority, .now_ns = now_ns, .permits = permits};
	struct weir_decision d;

	assert_int_equal(weir_engine_ask(engine, &key, 1, &request, &d), 0);
	return d.allowed;
}

/* Returns how many requests passed. */
static unsigned ask_often(unsigned times)
{
	struct weir_permits permits;
	unsigned passed = 0;

	for (unsigned i = 0; i < times; i++)
		passed += ask(0, &permits);
	return passed;
}

static void ask_and_report(enum weir_outcome outcome)
{
	struct weir_permits permits;

	assert_true(ask(0, &permits));
	assert_int_equal(
	    weir_engine_report(engine, &permits,
	                       &(struct weir_report){.outcome = outcome, .now_ns = now_ns}),
	    0);
}

/* The limit alone, before another one, and behind it. */
#define PLACES(limit) {{limit}, 1}, {{limit, WIDE}, 2}, {{WIDE, limit}, 2}

struct place {
	size_t limits[2];
	size_t count;
};

static void a_share_is_denied_once(void **state)
{
	const struct place places[] = {PLACES(HALF)}, both = {{HALF, OTHER_HALF}, 2};

	(void)state;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		begin(places[i].limits, places[i].count);
		assert_in_range(ask_often(4000), 2000 - 150, 2000 + 150);
		end();
	}
	begin(both.limits, both.count);
	assert_in_range(ask_often(4000), 1000 - 130, 1000 + 130);
	end();
}

/* A request that was drawn twice would count twice among those of its priority. */
static void a_share_is_taken_from_the_low_priority(void **state)
{
	const struct place places[] = {PLACES(HALF)};

	(void)state;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		struct weir_permits permits;
		unsigned passed[2] = {0};

		begin(places[i].limits, places[i].count);
		for (unsigned k = 0; k < 2000; k++)
			passed[k % 2] += ask(k % 2 ? 9 : 0, &permits);
		assert_in_range(passed[0], 950, 1000);
		assert_in_range(passed[1], 0, 50);
		end();
	}
}

/* At the start of its ramp a breaker lets a tenth pass. */
static void a_ramp_lets_its_share_pass(void **state)
{
	const struct place places[] = {PLACES(RAMP)};

	(void)state;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		begin(places[i].limits, places[i].count);
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
	const struct place places[] = {PLACES(THROTTLE)};

	(void)state;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		unsigned asked = 0;

		begin(places[i].limits, places[i].count);
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
