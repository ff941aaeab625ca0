/* Tests a breaker's record with two calls, one of which stalls between two of its steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "records/breaker_record.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)
#define TAG 7

static struct algo_limit limit;
static struct cell header, cells[1000];
static struct record_state at;

static void begin(struct weir_breaker_options breaker)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_BREAKER, .breaker = &breaker};

	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	assert_in_range(breaker_cells(&limit.breaker), 1, sizeof cells / sizeof *cells);
	memset(cells, 0, sizeof cells);
	header =
	    breaker_record_header(&limit, TAG, &(struct breaker_state){.phase = BREAKER_CLOSED}, NOW);
	at = (struct record_state){&header, header, {cells, breaker_cells(&limit.breaker), TAG, true}};
}

static struct breaker_snapshot look(uint64_t now_ns)
{
	struct breaker_snapshot snapshot;

	breaker_record_read(&limit, now_ns, &at.record, &snapshot, NULL);
	return snapshot;
}

static void turn(enum breaker_phase phase, uint64_t since_ns)
{
	struct breaker_snapshot seen = look(NOW);

	assert_true(breaker_record_change_phase(
	    &at, &seen, &(struct breaker_state){phase, since_ns, .probes_in_flight = 0}));
}

/* Adds successes in the phase that was seen. */
static void count(const struct breaker_snapshot *seen, uint64_t n, uint64_t now_ns)
{
	breaker_record_count(&limit, &at, seen,
	                     &(struct breaker_results){.count = n, .ended_at_ns = now_ns}, now_ns);
}

static uint64_t calls(uint64_t now_ns)
{
	struct breaker_snapshot seen = look(now_ns);
	struct breaker_tally tally;

	breaker_record_tally(&limit, &at.record, &seen, now_ns, &tally);
	return tally.calls;
}

static void a_result_that_is_windows_late_erases_no_newer_result(void **unused)
{
	(void)unused;
	for (unsigned late = 1; late <= 10; late++) {
		struct breaker_snapshot seen;
		uint64_t later_ns;

		begin((struct weir_breaker_options){.minimum = 2});
		seen = look(NOW);
		later_ns = NOW + late * breaker_window_cells(&limit.breaker) * limit.breaker.part_ns;
		count(&seen, 5, later_ns);
		count(&seen, 1, NOW);
		assert_int_equal(calls(later_ns), 5);
		count(&seen, 1, later_ns);
		assert_int_equal(calls(later_ns), 6);
	}
}

/* The window is one of time, or of calls. */
static void a_result_of_an_ended_phase_erases_none_of_the_next_phase(void **unused)
{
	(void)unused;
	for (unsigned by_calls = 0; by_calls < 2; by_calls++) {
		struct breaker_snapshot late, seen;

		begin((struct weir_breaker_options){.minimum = 2, .calls = by_calls ? 20 : 0});
		turn(BREAKER_CLOSED, NOW - NS_PER_S);
		late = look(NOW);
		count(&late, 2, NOW);
		turn(BREAKER_OPEN, NOW);
		turn(BREAKER_CLOSED, NOW + 1);
		seen = look(NOW + 1);
		count(&seen, 5, NOW + 1);
		count(&late, 1, NOW);
		assert_int_equal(calls(NOW + 1), 5);
		count(&seen, 1, NOW + 1);
		assert_int_equal(calls(NOW + 1), 6);
	}
}

/* A probe's flight, and then the phase. */
static struct breaker_permit acquire(uint64_t now_ns)
{
	struct breaker_snapshot seen = look(now_ns);
	struct breaker_state after = seen.state;
	uint64_t draw = 1;
	struct breaker_request request = {.draw = &draw};
	struct algo_decision out;
	struct breaker_permit permit;

	assert_true(breaker_decide(&limit, &after, now_ns, &request, &out));
	permit = breaker_permit_of(&limit.breaker, now_ns + limit.breaker.timeout_ns, 1);
	assert_int_equal(breaker_record_acquire(&limit, &at, &seen, &permit, now_ns), BREAKER_ACQUIRED);
	assert_true(breaker_record_change_phase(&at, &seen, &after));
	return permit;
}

static void ignore(struct breaker_permit permit, uint64_t now_ns)
{
	struct breaker_snapshot seen = look(now_ns);
	struct breaker_state after = seen.state;

	breaker_end_probes(&limit.breaker, &after, (struct breaker_result){.ignored = true}, 1, now_ns,
	                   NULL);
	assert_true(breaker_record_change_phase(&at, &seen, &after));
	assert_true(breaker_record_release(&limit, &at, permit));
}

/*
 * A look reads the phase, stalls until the probe is ignored, and reads flights. Then another probe
 * begins: by what was read one is lost.
 */
static void a_probe_that_is_ignored_while_another_begins_is_not_lost(void **unused)
{
	(void)unused;
	for (uint32_t probes = 1; probes <= 3; probes++) {
		struct breaker_permit permit = {0};
		struct breaker_snapshot seen;
		struct cell phase;

		begin((struct weir_breaker_options){.probes = probes});
		turn(BREAKER_OPEN, NOW - 10 * NS_PER_S);
		for (uint32_t i = 0; i < probes; i++)
			permit = acquire(NOW);
		phase = look(NOW).phase_cell;
		ignore(permit, NOW);
		seen = look(NOW);
		assert_int_equal(seen.in_flight_of_phase, probes - 1);
		acquire(NOW);
		seen.phase_cell = phase;
		assert_int_equal(look(NOW).in_flight_of_phase, probes);
		breaker_open(&seen.state, NOW);
		assert_false(breaker_record_change_phase(&at, &seen, &seen.state));
	}
}

/* It died before it judged what it had counted. */
static void an_unjudged_window_is_judged_when_quiescence_ends(void **unused)
{
	const struct breaker_report report = {.until_ns = 0, .permit = 1, .latency_ns = 1};
	struct breaker_snapshot seen;
	struct algo_decision out;
	uint64_t now_ns = NOW, end_ns;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = 2});
	seen = look(now_ns);
	count(&seen, 2, now_ns);
	breaker_record_set_quiescent(&limit, &at, &seen, now_ns);
	breaker_record_count(&limit, &at, &seen,
	                     &(struct breaker_results){{.failed = true}, 5, now_ns, 0}, now_ns);
	end_ns = now_ns + UINT32_MAX;
	for (; breaker_record_is_quiescent(&limit, now_ns, &at.record, &seen);
	     now_ns += NS_PER_S / 10) {
		struct breaker_report good = report;

		good.until_ns = breaker_record_try_acquire(&limit, &at, report.permit, now_ns, &out);
		assert_int_not_equal(good.until_ns, 0);
		assert_true(breaker_record_try_report(&limit, &at, &good, now_ns));
	}
	assert_in_range(now_ns, NOW + 1, end_ns);
	assert_int_equal(breaker_record_try_acquire(&limit, &at, report.permit, now_ns, &out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_result_that_is_windows_late_erases_no_newer_result),
	    cmocka_unit_test(a_result_of_an_ended_phase_erases_none_of_the_next_phase),
	    cmocka_unit_test(a_probe_that_is_ignored_while_another_begins_is_not_lost),
	    cmocka_unit_test(an_unjudged_window_is_judged_when_quiescence_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
