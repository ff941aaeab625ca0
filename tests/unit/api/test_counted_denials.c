/*
 * Some limits store that they denied a request. They must do so as well where other limits apply to
 * the request: then a peek denies it, before any limit is charged.
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

enum { COMMANDS, PLACES, WIDE };

static const struct weir_breaker_options hystrix = {.preset = WEIR_BREAKER_PRESET_HYSTRIX,
                                                    .max_concurrent = 1};
static const struct weir_adaptive_options nine = {.max = 18, .min = 1, .initial = 9};

static const struct rules_limit limits[] = {
    [COMMANDS] = {.options = {.name = "commands",
                              .algorithm = WEIR_ALGORITHM_BREAKER,
                              .breaker = &hystrix}},
    [PLACES] = {.options = {.name = "places",
                            .algorithm = WEIR_ALGORITHM_ADAPTIVE,
                            .adaptive = &nine}},
    [WIDE] = {.options = {.name = "wide", .rate = {1000000, 1, WEIR_UNIT_SECOND}}},
};

#include "one_rule.h"

static const struct place of_commands[] = PLACES_OF(COMMANDS), of_places[] = PLACES_OF(PLACES);

/* Makes requests of a priority, and never reports those that pass. Returns how many passed. */
static unsigned ask(unsigned times, unsigned priority, struct weir_decision *d)
{
	struct weir_permits permits;
	unsigned passed = 0;

	for (unsigned i = 0; i < times; i++)
		passed += ask_once(priority, &permits, d);
	return passed;
}

/* With Hystrix's rules a request beyond max_concurrent counts as failed. */
static void denials_beyond_max_concurrent_open_the_breaker(void **state)
{
	struct weir_decision d;

	(void)state;
	for (size_t i = 0; i < PLACES_COUNT; i++) {
		begin(&of_commands[i]);
		assert_int_equal(ask(31, 0, &d), 1);
		assert_int_equal(d.reason, WEIR_REASON_OVER_LIMIT);
		now_ns += 2 * SECOND; /* the part of the window with these denials is over */
		assert_int_equal(ask(2, 0, &d), 0);
		assert_int_equal(d.reason, WEIR_REASON_BREAKER_OPEN);
		end();
	}
}

/* A denied class gets room for requests over the limit while a lower class asks, too. */
static void denials_of_a_high_priority_make_room_for_it(void **state)
{
	struct weir_decision d;

	(void)state;
	for (size_t i = 0; i < PLACES_COUNT; i++) {
		begin(&of_places[i]);
		assert_int_equal(ask(10, 9, &d), 9);
		assert_int_equal(ask(10, 4, &d), 4);
		assert_int_equal(ask(10, 9, &d), 0);
		end();
	}
}

/* A caller that only peeks changes nothing. */
static void a_peek_counts_no_denial(void **state)
{
	struct weir_decision d;

	(void)state;
	begin(&of_places[1]);
	assert_int_equal(ask(10, 9, &d), 9);
	for (int i = 0; i < 10; i++)
		assert_int_equal(weir_peek(table, weir_engine_limit(engine, "places", 6),
		                           (struct weir_key){"k", 1}, 1, now_ns, &d),
		                 0);
	assert_int_equal(ask(1, 4, &d), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(denials_beyond_max_concurrent_open_the_breaker),
	    cmocka_unit_test(denials_of_a_high_priority_make_room_for_it),
	    cmocka_unit_test(a_peek_counts_no_denial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
