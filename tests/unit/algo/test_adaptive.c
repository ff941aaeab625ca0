/*
 * Tests the estimators of measured limits at a server that is a formula. It has `workers`, each of
 * which takes `mean_ns` for a request. If more requests are in flight, answers come later by their
 * wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "algo/measured/estimate.h"
#include "algo/measured/estimators.h"
#include "base/number.h"

#define ROOM    100 /* workers, mostly */
#define MEAN_NS (10 * NS_PER_MS)
#define WINDOW  300 /* answers: more than any window here has, with those that it skips */
#define MANY    1000

struct server {
	uint64_t workers, mean_ns;
	uint64_t load; /* requests in flight if the limit allows them */
	uint64_t
	    scatters; /* one of so many takes `longer` times as long, in thousandths; 0: none does */
	uint64_t longer;
};

static const struct adaptive_bounds usual = {20, 1, 1000};
static struct knee knee;
static uint64_t least, most; /* of the limit, and of the baseline */
static uint64_t base_most_ns;

static void begin(void)
{
	knee_begin(&knee, &usual);
}

static void serve(struct server server, unsigned answers)
{
	least = UINT64_MAX;
	most = base_most_ns = 0;
	for (unsigned i = 1; i <= answers; i++) {
		uint64_t flying = u64_max(u64_min(server.load, knee.limit), 1);
		uint64_t waits_ns = sat_sub(flying, server.workers) * server.mean_ns / server.workers;
		bool scatters = server.scatters > 0 && i % server.scatters == 0;
		uint64_t works_ns = scatters ? server.mean_ns * server.longer / 1000 : server.mean_ns;

		knee_sample(&knee, &usual, &(struct adaptive_sample){works_ns + waits_ns, flying, false, 0},
		            knee.window);
		least = u64_min(least, knee.limit);
		most = u64_max(most, knee.limit);
		base_most_ns = u64_max(base_most_ns, knee.base_ns);
	}
}

static struct server overloaded(void)
{
	return (struct server){.workers = ROOM, .mean_ns = MEAN_NS, .load = 3 * ROOM};
}

static void knee_finds_the_capacity_of_the_server(void **unused)
{
	(void)unused;
	begin();
	serve(overloaded(), 20 * WINDOW);
	serve(overloaded(), MANY * WINDOW);
	assert_in_range(least, ROOM * 85 / 100, ROOM);
	assert_in_range(most, ROOM, ROOM * 13 / 10);
}

static void one_lucky_sample_does_not_sink_the_limit(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	serve(server, 20 * WINDOW);
	server.scatters = WINDOW;
	server.longer = 0;
	serve(server, MANY * WINDOW);
	assert_in_range(least, ROOM * 85 / 100, ROOM);
	server.scatters = 20;
	serve(server, MANY * WINDOW);
	assert_in_range(least, ROOM * 75 / 100, ROOM);
}

static void a_lasting_overload_does_not_drift_the_baseline_upwards(void **unused)
{
	(void)unused;
	begin();
	serve(overloaded(), 20 * WINDOW);
	serve(overloaded(), 10000 * WINDOW);
	assert_in_range(base_most_ns, MEAN_NS * 99 / 100, MEAN_NS * 105 / 100);
	assert_in_range(most, ROOM, ROOM * 13 / 10);
}

static void a_baseline_from_an_overload_is_corrected(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	server.workers = 4; /* overloaded five times over from the first request on */
	while (knee.phase != KNEE_PROBE)
		serve(server, 1);
	assert_in_range(knee.limit, 1, 12); /* the first probe halves it: less would not stand out of noise */
	serve(server, 40 * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(most, 4, 9);
	assert_in_range(base_most_ns, MEAN_NS * 9 / 10, MEAN_NS * 11 / 10);
}

static void no_priority_has_room_until_a_probe_has_confirmed_the_baseline(void **unused)
{
	struct in_flight_params params = {.bounds = usual, .method = WEIR_METHOD_KNEE};
	struct estimate_cell cells[ESTIMATE_CELLS_MAX] = {{0, 0}};
	struct estimate_change change;
	struct headroom_limits limits = estimate_limits(&params, cells, 0, 0, true);
	unsigned answers = 0;

	(void)unused;
	assert_false(limits.is_probe_of_all); /* nothing was measured */
	do {
		struct estimate_report report = {.outcome = WEIR_OUTCOME_SUCCESS,
		                                 .window = estimate_window(&params, cells)};

		report.sample = (struct adaptive_sample){
		    .latency_ns = u64_max(limits.quota, 4) * MEAN_NS / 4, .in_flight = limits.quota};
		while (estimate_step(&params, cells, &report, &change)) {
			cells[change.index] = change.after;
			report.counted |= change.counts;
		}
		limits = estimate_limits(&params, cells, 0, 0, true);
	} while (++answers <= 20 || (limits.is_probe_of_all && answers < 40 * WINDOW));
	assert_in_range(answers, 3 * KNEE_LEAST, 40 * WINDOW - 1); /* the first window, one more, a probe */
	assert_in_range(limits.quota, 1, 12); /* it was 20, beside 4 workers */
}

static void timeouts_do_not_confirm_the_first_baseline(void **unused)
{
	struct adaptive_sample timeout = {.latency_ns = MEAN_NS, .in_flight = 20, .dropped = true};

	(void)unused;
	begin();
	while (knee.phase == KNEE_START)
		serve(overloaded(), 1);
	for (uint8_t window = knee.window; (uint8_t)(knee.window - window) < 2;)
		knee_sample(&knee, &usual, &timeout, knee.window);
	assert_true(knee_baseline_is_guess(&knee));
	while (knee.phase != KNEE_PROBE)
		serve(overloaded(), 1);
	assert_in_range(knee.limit * KNEE_ONE, 0, (knee.knee + KNEE_ONE) / 2); /* as deep as the first one is */
}

static void a_min_that_prevents_probes_leaves_priorities_their_room(void **unused)
{
	const struct adaptive_bounds bounds = {20, 20, 1000};
	struct adaptive_sample sample = {0};
	unsigned answers = 0;

	(void)unused;
	knee_begin(&knee, &bounds); /* beside 10 workers */
	do {
		sample.in_flight = knee.limit;
		sample.latency_ns = knee.limit * MEAN_NS / 10;
		knee_sample(&knee, &bounds, &sample, knee.window);
	} while (++answers <= 20 || (knee_baseline_is_guess(&knee) && answers < 40 * WINDOW));
	assert_in_range(answers, 4 * KNEE_LEAST, 6 * WINDOW); /* two windows, a probe, one for all priorities */
}

static void room_for_priorities_is_not_taken_for_capacity(void **unused)
{
	struct adaptive_sample fast = {.latency_ns = MEAN_NS};
	uint32_t limit;

	(void)unused;
	begin();
	serve(overloaded(), 20 * WINDOW);
	while (knee.phase != KNEE_FULL || knee.count > 0)
		serve(overloaded(), 1);
	limit = knee.limit;
	fast.in_flight = 2 * limit; /* and by chance none waits */
	for (uint8_t window = knee.window; knee.window == window;)
		knee_sample(&knee, &usual, &fast, window);
	assert_in_range(knee.knee, 0, limit * KNEE_ONE);
}

static void a_service_that_became_slower_is_not_taken_for_an_overload(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	serve(server, 20 * WINDOW);
	server.mean_ns *= 3;
	serve(server, 20 * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(least, ROOM * 85 / 100, ROOM);
	server.mean_ns /= 3;
	serve(server, 100 * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(most, ROOM, ROOM * 13 / 10);
}

static void a_service_that_becomes_slower_bit_by_bit_is_followed(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	serve(server, 20 * WINDOW);
	for (int i = 0; i < 200; i++) {
		server.mean_ns += MEAN_NS / 100;
		serve(server, 2 * WINDOW);
		assert_in_range(most, ROOM * 8 / 10, ROOM * 13 / 10);
	}
	serve(server, 40 * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(least, ROOM * 85 / 100, ROOM);
}

static void knee_settles_in_three_windows_when_capacity_halves_and_returns(void **unused)
{
	struct server server = overloaded();
	uint8_t window;

	(void)unused;
	begin();
	serve(server, 20 * WINDOW);
	server.workers = ROOM / 2;
	for (window = knee.window; (uint8_t)(knee.window - window) < 3;)
		serve(server, 1);
	serve(server, MANY * WINDOW);
	assert_in_range(least, ROOM / 2 * 85 / 100, ROOM / 2);
	assert_in_range(most, ROOM / 2, ROOM / 2 * 14 / 10);
	server.workers = ROOM;
	for (window = knee.window; (uint8_t)(knee.window - window) < 3;)
		serve(server, 1);
	serve(server, WINDOW);
	assert_in_range(most, ROOM * 97 / 100, ROOM * 17 / 10);
}

static void knee_does_not_grow_without_load(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	server.load = 5;
	serve(server, MANY * WINDOW);
	assert_int_equal(least, 20);
	assert_int_equal(most, 24); /* and its root, from the first window on */
	server.load = 60;           /* which scatters by its root */
	serve(server, 20 * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(most, 75, 100);
}

static void knee_does_not_grow_without_end_at_light_overload(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	server.load = ROOM * 11 / 10;
	serve(server, 20 * WINDOW);
	serve(server, 10000 * WINDOW);
	assert_in_range(most, ROOM, ROOM * 3 / 2);
}

static void samples_from_an_earlier_window_do_not_count(void **unused)
{
	struct adaptive_sample slow = {NS_PER_S, 100, false, 0};
	struct knee before;

	(void)unused;
	begin();
	serve(overloaded(), 20 * WINDOW);
	while (knee.count != 10)
		serve(overloaded(), 1);
	before = knee;
	for (int i = 0; i < 200; i++)
		knee_sample(&knee, &usual, &slow, (uint8_t)(knee.window - 2 - i));
	assert_memory_equal(&knee, &before, sizeof(knee));
	knee_sample(&knee, &usual, &slow, (uint8_t)(knee.window - 1));
	assert_int_equal(knee.count, before.count + 1);
}

static void answers_to_requests_of_the_former_limit_are_skipped(void **unused)
{
	struct adaptive_sample slow = {NS_PER_S, 100, false, 0};
	uint8_t window;

	(void)unused;
	begin();
	serve(overloaded(), 20 * WINDOW);
	for (window = knee.window; knee.window == window;)
		serve(overloaded(), 1);
	assert_in_range(knee.in_flight, ROOM * 8 / 10, ROOM * 13 / 10);
	for (uint64_t left = knee.in_flight; left > 0; left--) {
		knee_sample(&knee, &usual, &slow, knee.window);
		assert_int_equal(knee.sum, 0);
	}
	knee_sample(&knee, &usual, &slow, knee.window);
	assert_int_equal(knee.sum, KNEE_CLIP);
}

static void few_samples_change_nothing(void **unused)
{
	struct adaptive_sample slow = {NS_PER_S, 20, false, 0};

	(void)unused;
	begin();
	for (unsigned i = 0; i < 20 + KNEE_LEAST - 1; i++)
		knee_sample(&knee, &usual, &slow, 0);
	assert_int_equal(knee.window, 0);
	assert_int_equal(knee.limit, 20);
	knee_sample(&knee, &usual, &slow, 0);
	assert_int_equal(knee.window, 1);
}

static void it_is_not_stuck_at_1_with_mixed_latencies(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	server.workers = 1;
	server.scatters = 10;
	server.longer = 20000;
	serve(server, 100 * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(most, 2, 12);
	server.workers = ROOM;
	serve(server, 400 * WINDOW);
	serve(server, WINDOW);
	assert_in_range(most, ROOM * 8 / 10, ROOM * 2);
}

static void a_probe_is_not_the_floor(void **unused)
{
	struct server server = overloaded();

	(void)unused;
	begin();
	server.workers = 400;
	server.load = 1200;
	serve(server, MANY * WINDOW);
	serve(server, MANY * WINDOW);
	assert_in_range(least, 380, 399);
}

static void bounds_hold(void **unused)
{
	struct adaptive_bounds narrow = {50, 40, 60};
	struct adaptive_sample sample = {MEAN_NS, 1, false, 0};

	(void)unused;
	knee_begin(&knee, &narrow);
	for (unsigned i = 0; i < 100 * WINDOW; i++) {
		sample.in_flight = knee.limit;
		sample.latency_ns = MEAN_NS * (i > 50 * WINDOW ? knee.limit / 10 : 1);
		knee_sample(&knee, &narrow, &sample, knee.window);
		assert_in_range(knee.limit, 40, 60);
	}
}

static void no_sample_is_too_odd(void **unused)
{
	static const uint64_t odd[] = {0, 1, UINT64_C(1) << 40, UINT64_MAX};

	(void)unused;
	begin();
	for (unsigned i = 0; i < 1000 * WINDOW; i++) {
		struct adaptive_sample sample = {odd[i / 300 % 4], odd[i / 1200 % 4], i % 2, (uint16_t)i};

		knee_sample(&knee, &usual, &sample, knee.window);
		assert_in_range(knee.limit, 1, 1000);
	}
}

static void gradient2_follows_its_formula(void **unused)
{
	struct adaptive_bounds bounds = {20, 20, 200};
	struct adaptive_sample sample = {MEAN_NS, 20, false, 0};
	struct gradient2 gradient;

	(void)unused;
	gradient2_begin(&gradient, &bounds);
	gradient2_sample(&gradient, &bounds, &sample);
	assert_int_equal(gradient.limit_parts, 20 * GRADIENT2_LIMIT_ONE + GRADIENT2_LIMIT_ONE * 4 / 5);
	sample.in_flight = 9;
	gradient2_sample(&gradient, &bounds, &sample);
	assert_int_equal(gradient2_limit(&gradient), 20); /* less than half of it is in flight */
	sample.in_flight = 200;
	for (int i = 0; i < MANY; i++)
		gradient2_sample(&gradient, &bounds, &sample);
	assert_int_equal(gradient2_limit(&gradient), 200);
	sample.latency_ns = 10 * MEAN_NS; /* the gradient is 1/2: 0.8 x 200 + 0.2 x 104 */
	gradient2_sample(&gradient, &bounds, &sample);
	assert_int_equal(gradient2_limit(&gradient), 180);
}

static void the_long_average_of_gradient2_follows_an_overload_upwards(void **unused)
{
	struct adaptive_bounds bounds = {20, 20, 200};
	struct gradient2 gradient;

	(void)unused;
	gradient2_begin(&gradient, &bounds);
	for (int i = 0; i < 10 * MANY; i++) {
		uint64_t flying = gradient2_limit(&gradient);

		gradient2_sample(
		    &gradient, &bounds,
		    &(struct adaptive_sample){MEAN_NS * u64_max(flying, 40) / 40, flying, false, 0});
	}
	assert_int_equal(gradient2_limit(&gradient), 200); /* of 40: the fault that it is known for */
}

static void vegas_follows_its_formula(void **unused)
{
	struct adaptive_bounds bounds = {20, 1, 1000};
	struct adaptive_sample sample = {MEAN_NS, 20, false, 0};
	struct vegas vegas;

	(void)unused;
	vegas_begin(&vegas, &bounds);
	vegas_sample(&vegas, &bounds, &sample); /* the least of all */
	assert_int_equal(vegas.limit, 20);
	vegas_sample(&vegas, &bounds, &sample);
	assert_int_equal(vegas.limit, 26); /* no queue: + 6 */
	sample.latency_ns = MEAN_NS * 26 / 24;
	vegas_sample(&vegas, &bounds, &sample);
	assert_int_equal(vegas.limit, 27); /* a queue of 2 */
	sample.latency_ns = 2 * MEAN_NS;
	vegas_sample(&vegas, &bounds, &sample);
	assert_int_equal(vegas.limit, 26); /* of 14 */
	sample.in_flight = 12;
	vegas_sample(&vegas, &bounds, &sample);
	assert_int_equal(vegas.limit, 26); /* less than half is in flight */
	sample.dropped = true;
	vegas_sample(&vegas, &bounds, &sample);
	assert_int_equal(vegas.limit, 25);
}

static void aimd_follows_its_formula(void **unused)
{
	struct adaptive_bounds bounds = {20, 20, 200};
	struct adaptive_sample sample = {MEAN_NS, 10, false, 0};
	struct aimd aimd;

	(void)unused;
	aimd_begin(&aimd, &bounds);
	aimd_sample(&aimd, &bounds, &sample);
	assert_int_equal(aimd.limit, 21);
	aimd_sample(&aimd, &bounds, &sample);
	assert_int_equal(aimd.limit, 21);
	sample.in_flight = 200;
	for (int i = 0; i < MANY; i++)
		aimd_sample(&aimd, &bounds, &sample);
	assert_int_equal(aimd.limit, 200);
	sample.latency_ns = 5 * NS_PER_S + 1;
	aimd_sample(&aimd, &bounds, &sample);
	assert_int_equal(aimd.limit, 180);
}

static void bbr_follows_its_formula(void **unused)
{
	const uint64_t start = 1000 * NS_PER_S;
	struct adaptive_sample sample = {20 * NS_PER_MS, 1, false, 0};
	static struct bbr bbr;

	(void)unused;
	bbr_begin(&bbr);
	assert_int_equal(bbr_limit(&bbr, &usual, start), 20); /* without samples, as it begins */
	for (int i = 0; i < 50; i++)
		bbr_sample(&bbr, &sample, start);
	assert_int_equal(bbr_limit(&bbr, &usual, start), 20); /* the part is not finished */
	assert_int_equal(bbr_limit(&bbr, &usual, start + BBR_PART_NS), 10); /* 500 a second x 20 ms */
	assert_int_equal(bbr_limit(&bbr, &usual, start + 100 * BBR_PART_NS), 20); /* it is long ago */
	assert_true(bbr_allows(&bbr, &usual, 100, start + BBR_PART_NS)); /* the processors are idle */
	for (int i = 1; i < 100; i++)
		bbr_busy(&bbr, 1000, start + (uint64_t)i * NS_PER_S / 2);
	bbr_sample(&bbr, &sample, start + 49 * NS_PER_S);
	assert_true(bbr_allows(&bbr, &usual, 1, start + 50 * NS_PER_S));
	assert_false(bbr_allows(&bbr, &usual, 2, start + 50 * NS_PER_S));
	for (int i = 0; i < 50; i++)
		bbr_busy(&bbr, 0, start + 50 * NS_PER_S + (uint64_t)i);
	assert_in_range(bbr.cpu, 900000, 1000000); /* told too often */
	bbr.cpu = 0;
	assert_false(
	    bbr_allows(&bbr, &usual, 2, start + 51 * NS_PER_S)); /* a second after the denial */
	assert_true(bbr_allows(&bbr, &usual, 2, start + 51 * NS_PER_S + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(knee_finds_the_capacity_of_the_server),
	    cmocka_unit_test(one_lucky_sample_does_not_sink_the_limit),
	    cmocka_unit_test(a_lasting_overload_does_not_drift_the_baseline_upwards),
	    cmocka_unit_test(a_baseline_from_an_overload_is_corrected),
	    cmocka_unit_test(no_priority_has_room_until_a_probe_has_confirmed_the_baseline),
	    cmocka_unit_test(timeouts_do_not_confirm_the_first_baseline),
	    cmocka_unit_test(a_min_that_prevents_probes_leaves_priorities_their_room),
	    cmocka_unit_test(room_for_priorities_is_not_taken_for_capacity),
	    cmocka_unit_test(a_service_that_became_slower_is_not_taken_for_an_overload),
	    cmocka_unit_test(a_service_that_becomes_slower_bit_by_bit_is_followed),
	    cmocka_unit_test(knee_settles_in_three_windows_when_capacity_halves_and_returns),
	    cmocka_unit_test(knee_does_not_grow_without_load),
	    cmocka_unit_test(knee_does_not_grow_without_end_at_light_overload),
	    cmocka_unit_test(samples_from_an_earlier_window_do_not_count),
	    cmocka_unit_test(answers_to_requests_of_the_former_limit_are_skipped),
	    cmocka_unit_test(few_samples_change_nothing),
	    cmocka_unit_test(it_is_not_stuck_at_1_with_mixed_latencies),
	    cmocka_unit_test(a_probe_is_not_the_floor),
	    cmocka_unit_test(bounds_hold),
	    cmocka_unit_test(no_sample_is_too_odd),
	    cmocka_unit_test(gradient2_follows_its_formula),
	    cmocka_unit_test(the_long_average_of_gradient2_follows_an_overload_upwards),
	    cmocka_unit_test(vegas_follows_its_formula),
	    cmocka_unit_test(aimd_follows_its_formula),
	    cmocka_unit_test(bbr_follows_its_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
