/* Tests the phases that calls on a breaker report: the phase, the one before, and the cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/outcomes/breaker_state.h"
#include "store/memory.h"
#include "store/wide/breaker_phase.h"

#include "breaker.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)
#define S   NS_PER_S

static uint64_t acquire(uint64_t now_ns)
{
	return run((struct algo_call){.op = ALGO_ACQUIRE, .cost = 1}, now_ns);
}

static void report(uint64_t permit_ns, enum weir_outcome outcome, uint64_t now_ns)
{
	run((struct algo_call){.op = ALGO_REPORT,
	                       .cost = 1,
	                       .until_ns = permit_ns,
	                       .outcome = outcome,
	                       .latency_ns = S},
	    now_ns);
}

static void force(enum weir_force how, uint64_t until_ns, uint64_t now_ns)
{
	run((struct algo_call){.op = ALGO_FORCE, .force = how, .until_ns = until_ns}, now_ns);
}

static void peek(uint64_t now_ns)
{
	run((struct algo_call){.op = ALGO_PEEK, .cost = 1}, now_ns);
}

#define assert_turn(at, from_phase, to_phase, why)                                                 \
	do {                                                                                           \
		assert_in_range(out.phase_change_count, (at) + 1, ALGO_PHASE_CHANGES_MAX);                 \
		assert_int_equal(out.phase_changes[at].from, from_phase);                                  \
		assert_int_equal(out.phase_changes[at].to, to_phase);                                      \
		assert_int_equal(out.phase_changes[at].cause, why);                                        \
	} while (0)

#define assert_stays(in_phase)                                                                     \
	do {                                                                                           \
		assert_int_equal(out.phase_change_count, 0);                                               \
		assert_int_equal(out.phase, in_phase);                                                     \
	} while (0)

static void a_call_reports_the_phase_change_and_its_cause(void **unused)
{
	uint64_t permit_ns;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = 2});
	report(acquire(NOW), WEIR_OUTCOME_SUCCESS, NOW);
	assert_stays(BREAKER_CLOSED);
	report(acquire(NOW), WEIR_OUTCOME_FAILURE, NOW);
	assert_turn(0, BREAKER_CLOSED, BREAKER_OPEN, ALGO_BY_FAILURES);
	assert_int_equal(out.phase_change_count, 1);
	assert_int_equal(out.phase, BREAKER_OPEN);
	acquire(NOW + 1 * S);
	assert_stays(BREAKER_OPEN);
	peek(NOW + 5 * S);
	assert_stays(BREAKER_OPEN); /* nobody has come for the probe yet */
	permit_ns = acquire(NOW + 5 * S);
	assert_turn(0, BREAKER_OPEN, BREAKER_HALF_OPEN, ALGO_BY_SLEEP);
	assert_int_equal(out.phase, BREAKER_HALF_OPEN);
	report(permit_ns, WEIR_OUTCOME_FAILURE, NOW + 6 * S);
	assert_turn(0, BREAKER_HALF_OPEN, BREAKER_OPEN, ALGO_BY_BAD_PROBE);
	report(acquire(NOW + 11 * S), WEIR_OUTCOME_SUCCESS, NOW + 11 * S);
	assert_turn(0, BREAKER_HALF_OPEN, BREAKER_RAMP, ALGO_BY_GOOD_PROBES);
	peek(NOW + 16 * S);
	assert_stays(BREAKER_CLOSED); /* time has ended the ramp, and no call */
	end();
}

static void slow_calls_are_a_cause_of_their_own(void **unused)
{
	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1, .slow_ns = S / 2});
	report(acquire(NOW), WEIR_OUTCOME_SUCCESS, NOW);
	assert_turn(0, BREAKER_CLOSED, BREAKER_OPEN, ALGO_BY_SLOWNESS);
	end();
}

/* The call that finds a probe lost long ago opens it, and after its sleep it is the next probe. */
static void a_call_may_change_the_phase_twice(void **unused)
{
	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1, .permit_timeout_ns = S});
	report(acquire(NOW), WEIR_OUTCOME_FAILURE, NOW);
	acquire(NOW + 5 * S);
	acquire(NOW + 20 * S);
	assert_turn(0, BREAKER_HALF_OPEN, BREAKER_OPEN, ALGO_BY_BAD_PROBE);
	assert_turn(1, BREAKER_OPEN, BREAKER_HALF_OPEN, ALGO_BY_SLEEP);
	assert_int_equal(out.phase_change_count, 2);
	assert_int_equal(out.phase, BREAKER_HALF_OPEN);
	assert_true(out.allowed);
	end();
}

static void force_and_reset_are_reported_too(void **unused)
{
	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1});
	force(WEIR_FORCE_OPEN, NOW + 9 * S, NOW);
	assert_turn(0, BREAKER_CLOSED, BREAKER_FORCED_OPEN, ALGO_BY_FORCE);
	force(WEIR_FORCE_OPEN, 0, NOW);
	assert_stays(BREAKER_FORCED_OPEN); /* only longer */
	force(WEIR_FORCE_CLOSED, 0, NOW);
	assert_turn(0, BREAKER_FORCED_OPEN, BREAKER_FORCED_CLOSED, ALGO_BY_FORCE);
	force(WEIR_FORCE_AUTO, 0, NOW);
	assert_turn(0, BREAKER_FORCED_CLOSED, BREAKER_CLOSED, ALGO_BY_FORCE);
	report(acquire(NOW + 1), WEIR_OUTCOME_FAILURE, NOW + 1);
	force(WEIR_FORCE_AUTO, 0, NOW + 2);
	assert_stays(BREAKER_OPEN); /* it was not forced */
	run((struct algo_call){.op = ALGO_RESET}, NOW + 3);
	assert_turn(0, BREAKER_OPEN, BREAKER_CLOSED, ALGO_BY_RESET);
	end();
}

static uint64_t permit_of_other_thread; /* 0 after that thread has reported it */

bool __real_breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                                     unsigned count, uint64_t at_ns);
bool __wrap_breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                                     unsigned count, uint64_t at_ns);

/* Before the first call ends its probes, another thread reports one of them. */
bool __wrap_breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                                     unsigned count, uint64_t at_ns)
{
	uint64_t permit_ns = permit_of_other_thread;

	permit_of_other_thread = 0;
	if (permit_ns)
		report(permit_ns, WEIR_OUTCOME_SUCCESS, at_ns);
	return __real_breaker_phase_end_probes(view, result, count, at_ns);
}

static void a_refund_ends_although_another_thread_closes_the_breaker_first(void **unused)
{
	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1, .ramp_ns = WEIR_ZERO});
	report(acquire(NOW), WEIR_OUTCOME_FAILURE, NOW);
	assert_int_equal(out.phase, BREAKER_OPEN);
	permit_of_other_thread = acquire(NOW + 5 * S);
	assert_int_equal(out.phase, BREAKER_HALF_OPEN);
	run((struct algo_call){.op = ALGO_REFUND, .cost = 1}, NOW + 6 * S);
	assert_int_equal(permit_of_other_thread, 0);
	assert_stays(BREAKER_CLOSED);
	end();
}

/* The acquire behind the peek counts, as the peek lets it pass. */
static void a_peek_before_an_acquire_that_is_only_judged_counts_no_denial(void **unused)
{
	(void)unused;
	begin((struct weir_breaker_options){.preset = WEIR_BREAKER_PRESET_HYSTRIX,
	                                    .max_concurrent = 1,
	                                    .minimum = 3,
	                                    .judge_only = true});
	acquire(NOW);
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t now_ns = NOW + 2 * i * S; /* the window has what was counted up to a second ago */

		run((struct algo_call){.op = ALGO_PEEK, .cost = 1, .counts_denial = true}, now_ns);
		assert_true(out.allowed);
		acquire(now_ns); /* beyond max_concurrent: it counts as failed */
		assert_true(out.allowed);
		assert_int_equal(out.phase, i < 3 ? BREAKER_CLOSED : BREAKER_OPEN);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_call_reports_the_phase_change_and_its_cause),
	    cmocka_unit_test(slow_calls_are_a_cause_of_their_own),
	    cmocka_unit_test(a_call_may_change_the_phase_twice),
	    cmocka_unit_test(force_and_reset_are_reported_too),
	    cmocka_unit_test(a_refund_ends_although_another_thread_closes_the_breaker_first),
	    cmocka_unit_test(a_peek_before_an_acquire_that_is_only_judged_counts_no_denial),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
