/*
 * Tests a breaker whose phase a quorum group decides: the notifications of calls, and the group's
 * decisions applied to a key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/outcomes/breaker_state.h"
#include "store/memory.h"

#include "breaker.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)
#define S   NS_PER_S

static struct algo_notification notification;

/* While the other servers are there. */
static uint64_t call(struct algo_call call, uint64_t now_ns)
{
	notification = (struct algo_notification){0};
	call.notification = &notification;
	return run(call, now_ns);
}

static uint64_t acquire(uint64_t now_ns)
{
	return call((struct algo_call){.op = ALGO_ACQUIRE, .cost = 1}, now_ns);
}

static void report(uint64_t permit_ns, enum weir_outcome outcome, uint64_t now_ns)
{
	call((struct algo_call){.op = ALGO_REPORT,
	                        .cost = 1,
	                        .until_ns = permit_ns,
	                        .outcome = outcome,
	                        .latency_ns = S},
	     now_ns);
}

static void say(enum algo_op op, uint64_t probes, uint64_t now_ns)
{
	call((struct algo_call){.op = op, .cost = probes, .until_ns = now_ns}, now_ns);
}

static void report_failures(unsigned times, uint64_t now_ns)
{
	while (times-- > 0)
		report(acquire(now_ns), WEIR_OUTCOME_FAILURE, now_ns);
}

static void test_a_window_that_trips_notifies_and_stays_closed(void **context)
{
	(void)context;
	begin((struct weir_breaker_options){.minimum = 3, .quorum = 2});
	report_failures(2, NOW);
	assert_false(notification.trips);
	report_failures(1, NOW);
	assert_true(notification.trips);
	assert_int_equal(out.phase, BREAKER_CLOSED);
	acquire(NOW);
	assert_true(out.allowed);
	/* The group is unreachable: the next failure opens the breaker here. */
	run((struct algo_call){.op = ALGO_REPORT, .cost = 1, .outcome = WEIR_OUTCOME_FAILURE}, NOW);
	assert_int_equal(out.phase, BREAKER_OPEN);
	end();
}

static void test_after_the_sleep_a_request_wants_a_probe(void **context)
{
	uint64_t permit_ns;

	(void)context;
	begin((struct weir_breaker_options){.sleep_ns = S, .probes = 3, .quorum = 2});
	say(ALGO_GROUP_OPEN, 0, NOW);
	acquire(NOW + S - 1);
	assert_int_equal(out.reason, WEIR_REASON_BREAKER_OPEN);
	assert_false(notification.wants_probe);
	call((struct algo_call){.op = ALGO_PEEK, .cost = 1}, NOW + S);
	assert_false(out.allowed || notification.wants_probe);
	call((struct algo_call){.op = ALGO_PEEK, .cost = 1, .counts_denial = true}, NOW + S);
	assert_true(!out.allowed && notification.wants_probe);
	acquire(NOW + S);
	assert_true(!out.allowed && notification.wants_probe);
	assert_int_equal(out.retry_after_ns, S); /* the limit's `retry` */
	assert_int_equal(out.phase, BREAKER_OPEN);

	say(ALGO_GROUP_PROBES, 1, NOW + S);
	permit_ns = acquire(NOW + S);
	assert_true(out.allowed && !notification.wants_probe);
	acquire(NOW + S);
	assert_true(!out.allowed && notification.wants_probe);
	report(permit_ns, WEIR_OUTCOME_SUCCESS, NOW + S);
	assert_int_equal(notification.good, 1);
	assert_int_equal(notification.since_ns, NOW + S);
	assert_int_equal(out.phase, BREAKER_HALF_OPEN); /* the group closes it */

	say(ALGO_GROUP_PROBES, 2, NOW + S);
	acquire(NOW + S);
	say(ALGO_GROUP_PROBES, 1, NOW + S); /* two, with the one that is left */
	permit_ns = acquire(NOW + S);
	acquire(NOW + S);
	assert_true(out.allowed);
	acquire(NOW + S);
	assert_false(out.allowed);
	report(permit_ns, WEIR_OUTCOME_FAILURE, NOW + S);
	assert_int_equal(notification.bad, 1);
	report(permit_ns, WEIR_OUTCOME_IGNORED, NOW + S);
	assert_int_equal(notification.freed, 1);
	acquire(NOW + 62 * S); /* nobody has reported the last one */
	assert_int_equal(notification.bad, 1);
	end();
}

static void test_unused_probes_are_returned(void **context)
{
	uint64_t permit_ns;

	(void)context;
	begin((struct weir_breaker_options){.probes = 5, .quorum = 1});
	say(ALGO_GROUP_OPEN, 0, NOW);
	say(ALGO_GROUP_LAPSE, 0, NOW);
	assert_int_equal(notification.freed, 0);
	say(ALGO_GROUP_PROBES, 3, NOW + 5 * S);
	permit_ns = acquire(NOW + 5 * S);
	say(ALGO_GROUP_LAPSE, 0, NOW + 6 * S);
	assert_int_equal(notification.freed, 2);
	assert_int_equal(notification.since_ns, NOW + 5 * S);
	say(ALGO_GROUP_LAPSE, 0, NOW + 6 * S);
	assert_int_equal(notification.freed, 0);
	acquire(NOW + 6 * S);
	assert_true(!out.allowed && notification.wants_probe);
	/* Results of before a turn say nothing. */
	say(ALGO_GROUP_CLOSED, 0, NOW + 7 * S);
	assert_int_equal(out.phase, BREAKER_RAMP);
	report(permit_ns, WEIR_OUTCOME_FAILURE, NOW + 7 * S);
	assert_true(out.allowed && notification.bad == 0 && !notification.trips);
	end();
}

static void test_the_group_does_not_change_a_forced_phase(void **context)
{
	(void)context;
	begin((struct weir_breaker_options){.quorum = 1});
	call((struct algo_call){.op = ALGO_FORCE, .force = WEIR_FORCE_CLOSED}, NOW);
	say(ALGO_GROUP_OPEN, 0, NOW);
	assert_false(out.allowed);
	assert_int_equal(out.phase, BREAKER_FORCED_CLOSED);
	call((struct algo_call){.op = ALGO_FORCE, .force = WEIR_FORCE_AUTO}, NOW);
	assert_true(notification.rejoins && !notification.resets);
	say(ALGO_GROUP_OPEN, 0, NOW);
	assert_true(out.allowed);
	assert_int_equal(out.phase, BREAKER_OPEN);
	call((struct algo_call){.op = ALGO_RESET}, NOW);
	assert_true(notification.resets);
	assert_int_equal(out.phase, BREAKER_CLOSED);
	end();
}

/* Spent probes of a group that went away would else keep it half-open for a day. */
static void test_half_open_is_not_stuck_without_its_group(void **context)
{
	uint64_t permit_ns;

	(void)context;
	begin((struct weir_breaker_options){.sleep_ns = S, .probes = 3, .quorum = 2});
	say(ALGO_GROUP_OPEN, 0, NOW);
	say(ALGO_GROUP_PROBES, 1, NOW + S);
	permit_ns = acquire(NOW + S);
	run((struct algo_call){.op = ALGO_ACQUIRE, .cost = 1}, NOW + S);
	assert_false(out.allowed);
	report(permit_ns, WEIR_OUTCOME_SUCCESS, NOW + S);
	for (unsigned i = 0; i < 3; i++) {
		permit_ns = run((struct algo_call){.op = ALGO_ACQUIRE, .cost = 1}, NOW + 2 * S);
		assert_true(out.allowed);
		assert_int_equal(out.phase, BREAKER_HALF_OPEN);
		run((struct algo_call){.op = ALGO_REPORT, .cost = 1, .until_ns = permit_ns}, NOW + 2 * S);
	}
	assert_int_equal(out.phase, BREAKER_RAMP);
	end();
}

/* A group that says that a key is closed needs no record for it. */
static void test_a_closed_key_needs_no_cell(void **context)
{
	struct weir_table_stats stats;

	(void)context;
	begin((struct weir_breaker_options){.quorum = 1});
	say(ALGO_GROUP_CLOSED, 0, NOW);
	assert_true(out.allowed);
	store_stats(store, NOW, &stats);
	assert_int_equal(stats.live, 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_window_that_trips_notifies_and_stays_closed),
	    cmocka_unit_test(test_after_the_sleep_a_request_wants_a_probe),
	    cmocka_unit_test(test_unused_probes_are_returned),
	    cmocka_unit_test(test_the_group_does_not_change_a_forced_phase),
	    cmocka_unit_test(test_half_open_is_not_stuck_without_its_group),
	    cmocka_unit_test(test_a_closed_key_needs_no_cell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
