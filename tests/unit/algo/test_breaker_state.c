/* Tests the phases of a breaker, one step after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/outcomes/breaker_state.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

static const uint64_t least = 0, most = UINT64_MAX;
static const struct breaker_result good = {.failed = false}, bad = {.failed = true},
                                   ignored = {.ignored = true}, slow = {.slow = true};

/* The defaults. */
static struct algo_limit limit;
static struct breaker_state breaker;

static struct breaker_params *begin(void)
{
	limit = (struct algo_limit){.retry_ns = NS_PER_S,
	                            .breaker = {.part_ns = NS_PER_S,
	                                        .parts = 10,
	                                        .minimum = 20,
	                                        .failure_percent = 50,
	                                        .slow_percent = 100,
	                                        .sleep_ns = 5 * NS_PER_S,
	                                        .ramp_ns = 5 * NS_PER_S,
	                                        .timeout_ns = 60 * NS_PER_S,
	                                        .probes = 1}};
	breaker = (struct breaker_state){.phase = BREAKER_CLOSED};
	return &limit.breaker;
}

static struct algo_decision ask_drawing(uint64_t now_ns, uint64_t draw, uint64_t in_flight)
{
	struct algo_decision out;

	breaker = breaker_at(&limit.breaker, &breaker, now_ns);
	breaker_decide(&limit, &breaker, now_ns,
	               &(struct breaker_request){.draw = &draw, .in_flight = in_flight}, &out);
	return out;
}

static struct algo_decision ask(uint64_t now_ns)
{
	return ask_drawing(now_ns, least, 0);
}

static void tell(struct breaker_result result, uint64_t now_ns)
{
	breaker_end_probes(&limit.breaker, &breaker, result, 1, now_ns, NULL);
}

static void a_breaker_opens_at_the_rate_and_not_below_the_minimum(void **unused)
{
	const struct breaker_params *params = begin();

	(void)unused;
	assert_false(breaker_trip_cause(params, &(struct breaker_tally){19, 19, 0}));
	assert_true(breaker_trip_cause(params, &(struct breaker_tally){20, 10, 0}));
	assert_false(breaker_trip_cause(params, &(struct breaker_tally){21, 10, 0}));
	assert_false(breaker_trip_cause(params, &(struct breaker_tally){20, 0, 20})); /* none is slow */
	assert_false(breaker_trip_cause(params, &(struct breaker_tally){0, 0, 0}));
}

static void slow_requests_open_a_breaker(void **unused)
{
	struct breaker_params *params = begin();

	(void)unused;
	params->slow_ns = NS_PER_S;
	params->slow_percent = 80;
	assert_true(breaker_result_of(params, WEIR_OUTCOME_SUCCESS, NS_PER_S + 1).slow);
	assert_false(breaker_result_of(params, WEIR_OUTCOME_SUCCESS, NS_PER_S).slow);
	assert_true(breaker_trip_cause(params, &(struct breaker_tally){20, 0, 16}));
	assert_false(breaker_trip_cause(params, &(struct breaker_tally){20, 0, 15}));
}

static void an_open_breaker_reports_when_a_probe_passes(void **unused)
{
	struct algo_decision out;

	(void)unused;
	begin();
	breaker_open(&breaker, NOW);
	out = ask(NOW + 1);
	assert_false(out.allowed);
	assert_int_equal(out.reason, WEIR_REASON_BREAKER_OPEN);
	assert_int_equal(out.retry_after_ns, 5 * NS_PER_S - 1);
	assert_false(ask(NOW + 5 * NS_PER_S - 1).allowed);
	assert_true(ask(NOW + 5 * NS_PER_S).allowed);
	assert_int_equal(breaker.phase, BREAKER_HALF_OPEN);
	out = ask(NOW + 5 * NS_PER_S);
	assert_false(out.allowed);
	assert_int_equal(out.retry_after_ns, NS_PER_S);
}

static void a_failed_probe_opens_the_breaker_again(void **unused)
{
	(void)unused;
	begin()->probes = 3;
	breaker_open(&breaker, NOW);
	for (int i = 0; i < 3; i++)
		assert_true(ask(NOW + 6 * NS_PER_S).allowed);
	tell(good, NOW + 7 * NS_PER_S);
	assert_false(ask(NOW + 7 * NS_PER_S).allowed); /* three are enough */
	tell(bad, NOW + 8 * NS_PER_S);
	assert_int_equal(breaker.phase, BREAKER_OPEN);
	assert_false(breaker_counts(&breaker, NOW + 6 * NS_PER_S)); /* the third comes too late */
	assert_int_equal(ask(NOW + 8 * NS_PER_S).retry_after_ns, 5 * NS_PER_S);
}

static void late_success_does_not_close_a_breaker_that_has_opened_again(void **unused)
{
	uint64_t first = NOW + 5 * NS_PER_S, second = NOW + 20 * NS_PER_S;

	(void)unused;
	begin()->probes = 2;
	breaker_open(&breaker, NOW);
	ask(first);
	ask(first);
	tell(bad, first + 1);
	ask(second);
	assert_int_equal(breaker.phase, BREAKER_HALF_OPEN);
	assert_false(breaker_counts(&breaker, first));
	assert_true(breaker_counts(&breaker, second));
}

static void half_open_is_not_stuck_after_an_ignored_probe(void **unused)
{
	(void)unused;
	begin();
	breaker_open(&breaker, NOW);
	for (uint64_t day = 0; day < 9; day++) { /* and sparse as they are, it stays half-open */
		assert_true(ask(NOW + NS_PER_DAY + day * NS_PER_DAY).allowed);
		assert_int_equal(breaker.phase, BREAKER_HALF_OPEN);
		assert_false(ask(NOW + NS_PER_DAY + day * NS_PER_DAY).allowed);
		tell(ignored, NOW + NS_PER_DAY + day * NS_PER_DAY + 1);
	}
}

static void a_probe_that_is_slow_has_failed(void **unused)
{
	(void)unused;
	begin()->slow_ns = NS_PER_S;
	breaker_open(&breaker, NOW);
	ask(NOW + 5 * NS_PER_S);
	tell(slow, NOW + 8 * NS_PER_S);
	assert_int_equal(breaker.phase, BREAKER_OPEN);
}

static void calls_come_back_bit_by_bit(void **unused)
{
	uint64_t closed = NOW + 6 * NS_PER_S, tenth = UINT64_MAX / 10;

	(void)unused;
	begin();
	breaker_open(&breaker, NOW);
	ask(NOW + 5 * NS_PER_S);
	tell(good, closed);
	assert_int_equal(breaker.phase, BREAKER_RAMP);
	assert_true(ask_drawing(closed, tenth - 1, 0).allowed);
	assert_false(ask_drawing(closed, tenth + 1, 0).allowed);
	assert_int_equal(ask_drawing(closed, most, 0).reason, WEIR_REASON_BREAKER_OPEN);
	assert_true(ask_drawing(closed + 5 * NS_PER_S / 2, tenth / 2 * 11 - 99, 0).allowed);
	assert_false(ask_drawing(closed + 5 * NS_PER_S / 2, tenth / 2 * 11 + 99, 0).allowed);
	assert_false(ask_drawing(closed + 5 * NS_PER_S - 1, most, 0).allowed);
	assert_true(ask_drawing(closed + 5 * NS_PER_S, most, 0).allowed);
	assert_int_equal(breaker.phase, BREAKER_CLOSED);
	assert_false(breaker_counts(&breaker, closed - 1));
}

static void probes_may_be_judged_together(void **unused)
{
	(void)unused;
	for (unsigned failures = 0; failures <= 4; failures++) {
		struct breaker_params *params = begin();

		params->probes = 4;
		params->minimum = 100; /* of the window, not of probes */
		params->judges_probes_together = true;
		params->ramp_ns = 0;
		breaker_open(&breaker, NOW);
		for (int i = 0; i < 4; i++)
			assert_true(ask(NOW + 5 * NS_PER_S).allowed);
		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(breaker.phase, BREAKER_HALF_OPEN);
			assert_false(ask(NOW + 5 * NS_PER_S).allowed);
			tell(i < failures ? bad : good, NOW + 6 * NS_PER_S);
		}
		assert_int_equal(breaker.phase, failures >= 2 ? BREAKER_OPEN : BREAKER_CLOSED);
	}
}

static void the_bulkhead_refuses_for_its_own_reason(void **unused)
{
	struct algo_decision out;

	(void)unused;
	begin()->max_concurrent = 3;
	out = ask_drawing(NOW, least, 2);
	assert_true(out.allowed);
	assert_int_equal(out.remaining, 0);
	out = ask_drawing(NOW, least, 3);
	assert_int_equal(out.reason, WEIR_REASON_OVER_LIMIT);
	assert_int_equal(out.retry_after_ns, NS_PER_S);
	breaker_open(&breaker, NOW);
	assert_int_equal(ask_drawing(NOW + 5 * NS_PER_S, least, 3).reason, WEIR_REASON_OVER_LIMIT);
	assert_int_equal(breaker.phase, BREAKER_OPEN); /* no probe has passed */
}

static void a_forced_phase_ends_at_its_time(void **unused)
{
	(void)unused;
	begin();
	breaker = (struct breaker_state){BREAKER_FORCED_OPEN, NOW + NS_PER_S, .probes_in_flight = 0};
	assert_int_equal(ask(NOW).retry_after_ns, NS_PER_S);
	assert_false(breaker_counts(&breaker, NOW));
	assert_true(ask(NOW + NS_PER_S).allowed);
	assert_false(breaker_counts(&breaker, NOW));
	breaker = (struct breaker_state){BREAKER_FORCED_OPEN, BREAKER_FOREVER, .probes_in_flight = 0};
	assert_int_equal(ask(NOW + 99 * NS_PER_DAY).retry_after_ns, NS_PER_S);
	breaker = (struct breaker_state){BREAKER_FORCED_CLOSED, BREAKER_FOREVER, .probes_in_flight = 0};
	assert_true(ask(NOW + 99 * NS_PER_DAY).allowed);
	assert_false(breaker_counts(&breaker, NOW));
}

static void a_clock_that_was_set_back_keeps_nothing_open(void **unused)
{
	(void)unused;
	begin();
	breaker_open(&breaker, NOW + NS_PER_DAY);
	assert_false(ask(NOW).allowed); /* clocks may differ */
	breaker_open(&breaker, NOW + 9 * NS_PER_DAY);
	assert_true(ask(NOW).allowed);
}

static void only_finished_parts_may_count(void **unused)
{
	struct breaker_params *params = begin();

	(void)unused;
	assert_true(breaker_has_part(params, 100, 100));
	assert_true(breaker_has_part(params, 91, 100));
	assert_false(breaker_has_part(params, 90, 100));
	params->finished_only = true;
	assert_false(breaker_has_part(params, 100, 100));
	assert_true(breaker_has_part(params, 90, 100));
	assert_false(breaker_has_part(params, 89, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_breaker_opens_at_the_rate_and_not_below_the_minimum),
	    cmocka_unit_test(slow_requests_open_a_breaker),
	    cmocka_unit_test(an_open_breaker_reports_when_a_probe_passes),
	    cmocka_unit_test(a_failed_probe_opens_the_breaker_again),
	    cmocka_unit_test(late_success_does_not_close_a_breaker_that_has_opened_again),
	    cmocka_unit_test(half_open_is_not_stuck_after_an_ignored_probe),
	    cmocka_unit_test(a_probe_that_is_slow_has_failed),
	    cmocka_unit_test(calls_come_back_bit_by_bit),
	    cmocka_unit_test(probes_may_be_judged_together),
	    cmocka_unit_test(the_bulkhead_refuses_for_its_own_reason),
	    cmocka_unit_test(a_forced_phase_ends_at_its_time),
	    cmocka_unit_test(a_clock_that_was_set_back_keeps_nothing_open),
	    cmocka_unit_test(only_finished_parts_may_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
