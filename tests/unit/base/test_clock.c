/*
 * The clock on machines that are made up: a counter, and a monotonic clock that
 * is slewed against it. Every reading is held against what the clock says then.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time/clock.h"

#define MINUTE_NS (60 * NS_PER_S)

struct machine {
	uint64_t counter, seed;
	uint64_t rate;  /* nanoseconds a count, times 2^32 */
	int64_t ppm;    /* by which the system slews its clock */
	u128 monotonic; /* nanoseconds times 2^32 */
	uint64_t width; /* counts that a reading of the system's clock takes */
	uint64_t last_ns, followed, asked;
};

static struct machine machine_start(double ghz)
{
	return (struct machine){
	    .counter = UINT64_C(1) << 40,
	    .seed = 1,
	    .rate = (uint64_t)((double)(UINT64_C(1) << 32) / ghz),
	    .monotonic = (u128)(7 * NS_PER_DAY) << 32,
	    .width = (uint64_t)(60 * ghz) + 1,
	};
}

static uint64_t draw(struct machine *machine, uint64_t below)
{
	machine->seed = machine->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (machine->seed >> 33) % below;
}

static void pass(struct machine *machine, uint64_t counts)
{
	machine->counter += counts;
	machine->monotonic += (u128)counts * (machine->rate + machine->rate / 1000000 * machine->ppm);
}

static void pass_ns(struct machine *machine, uint64_t ns)
{
	pass(machine, (uint64_t)(((u128)ns << 32) / machine->rate));
}

static uint64_t true_ns(const struct machine *machine)
{
	return (uint64_t)(machine->monotonic >> 32);
}

/* Anywhere between the two readings of the counter. */
static struct clock_pair take_pair(struct machine *machine)
{
	uint64_t early = draw(machine, machine->width);
	struct clock_pair pair = {.before = machine->counter};

	pass(machine, early);
	pair.ns = true_ns(machine);
	pass(machine, machine->width - early);
	pair.after = machine->counter;
	return pair;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static uint64_t ask(struct machine *machine, struct clock *clock, uint64_t bound_ns)
{
	uint64_t now_ns, true_now_ns = true_ns(machine);
	struct clock_pair pair;

	if (clock_follow(clock, machine->counter, &now_ns)) {
		machine->followed++;
	} else {
		pair = take_pair(machine);
		true_now_ns = pair.ns;
		now_ns = clock_read_pair(clock, &pair);
	}
	machine->asked++;
	if (distance(now_ns, true_now_ns) >= bound_ns)
		fail_msg("expected %llu within %llu, found %llu", (unsigned long long)true_now_ns,
		         (unsigned long long)bound_ns, (unsigned long long)now_ns);
	assert_true(now_ns >= machine->last_ns);
	machine->last_ns = now_ns;
	return now_ns;
}

static void ask_for(struct machine *machine, struct clock *clock, uint64_t ns, uint64_t bound_ns)
{
	uint64_t end_ns = true_ns(machine) + ns;

	while (true_ns(machine) < end_ns) {
		ask(machine, clock, bound_ns);
		pass_ns(machine, draw(machine, 20000));
	}
}

static struct clock start(void)
{
	struct clock clock = clock_start(0, false);

	clock.line.slope = 0; /* the machine that is made up trusts its counter */
	return clock;
}

static void slewed_by_500_ppm_for_a_day_it_stays_within_a_microsecond(void **state)
{
	static const double ghz[] = {2.596, 5.2, 1, 0.0192};

	(void)state;
	for (size_t i = 0; i < sizeof ghz / sizeof *ghz; i++)
		for (int64_t ppm = -500; ppm <= 500; ppm += 500) {
			struct machine machine = machine_start(ghz[i]);
			struct clock clock = start();

			machine.ppm = ppm;
			for (int minute = 0; minute < 24 * 60; minute++) {
				ask_for(&machine, &clock, 4 * NS_PER_MS, CLOCK_BOUND_NS);
				pass_ns(&machine, draw(&machine, 2 * MINUTE_NS));
			}
			/* One of the four goes by before there is a line. */
			assert_true(machine.followed > machine.asked * 2 / 3);
		}
}

static void a_slew_that_turns_at_any_moment_does_not_add_up(void **state)
{
	struct machine machine = machine_start(2.596);
	struct clock clock = start();

	(void)state;
	for (int turn = 0; turn < 20000; turn++) {
		machine.ppm = draw(&machine, 2) ? 500 : -500;
		ask_for(&machine, &clock, draw(&machine, 2 * NS_PER_MS), CLOCK_BOUND_NS);
	}
	assert_true(machine.followed > machine.asked * 9 / 10);
}

/* A suspension, a move to another machine, a core that was behind: what the system corrects for. */
static void a_counter_that_jumps_puts_it_half_a_millisecond_off_at_most(void **state)
{
	static const struct {
		int64_t counts; /* at 2.5 GHz */
		double rate;
	} jumps[] = {
	    {500000, 1},        {2000000, 1},        {10000000, 1},     {INT64_C(9000000000000), 1},
	    {-100, 1},          {-500000, 1},        {-2000000, 1},     {-(INT64_C(1) << 40) + 5, 1},
	    {0, 1.1},           {0, 0.9},            {0, 1.5},           {1250000000, 1.003},
	    {-1250000000, 0.4},
	};

	(void)state;
	for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++)
		for (uint64_t into_ns = 0; into_ns < 2 * CLOCK_LINE_NS; into_ns += 9973) {
			struct machine machine = machine_start(2.5);
			struct clock clock = start();

			ask_for(&machine, &clock, 3 * NS_PER_MS + into_ns, CLOCK_BOUND_NS);
			machine.counter += (uint64_t)jumps[i].counts;
			if (jumps[i].counts < 0) /* on the line that it was on, it goes back itself */
				machine.last_ns -= u64_min((uint64_t)-jumps[i].counts * 2 / 5, CLOCK_LINE_NS);
			machine.rate = (uint64_t)((double)machine.rate * jumps[i].rate);
			ask_for(&machine, &clock, 2 * CLOCK_LINE_NS, CLOCK_LINE_NS + CLOCK_BOUND_NS);
			ask_for(&machine, &clock, 2 * NS_PER_MS, CLOCK_BOUND_NS);
			machine.followed = machine.asked = 0;
			ask_for(&machine, &clock, 2 * NS_PER_MS, CLOCK_BOUND_NS);
			assert_true(machine.followed > machine.asked * 9 / 10);
		}
}

static void an_old_line_is_not_followed(void **state)
{
	struct machine machine = machine_start(2.596);
	struct clock clock = start();
	uint64_t now_ns;

	(void)state;
	for (uint64_t idle_ns = CLOCK_LINE_NS; idle_ns < 365 * NS_PER_DAY; idle_ns *= 3) {
		ask_for(&machine, &clock, 4 * NS_PER_MS, CLOCK_BOUND_NS);
		pass_ns(&machine, idle_ns);
		machine.ppm = -machine.ppm + 500;
		assert_false(clock_follow(&clock, machine.counter, &now_ns));
		ask(&machine, &clock, CLOCK_BOUND_NS);
	}
}

static void a_thread_that_stalls_between_counter_and_clock_draws_no_line(void **state)
{
	struct machine machine = machine_start(2.5);
	struct clock clock = start();

	(void)state;
	ask_for(&machine, &clock, 4 * NS_PER_MS, CLOCK_BOUND_NS);
	for (int i = 0; i < 2000; i++) { /* a preemption in every other reading of the system's clock */
		machine.width = i % 2 ? 150 : 1 + draw(&machine, 2500000);
		ask_for(&machine, &clock, NS_PER_MS, CLOCK_BOUND_NS);
	}
	/* The system has stopped trusting its counter and asks a device. */
	machine.width = 2500;
	ask_for(&machine, &clock, NS_PER_MS, CLOCK_BOUND_NS);
	machine.followed = 0;
	ask_for(&machine, &clock, 100 * NS_PER_MS, CLOCK_BOUND_NS);
	assert_int_equal(machine.followed, 0);
}

static void a_thread_that_stalls_while_it_writes_holds_up_nobody(void **state)
{
	struct machine machine = machine_start(2.596);
	struct clock clock = start();
	struct clock_line before;

	(void)state;
	ask_for(&machine, &clock, 4 * NS_PER_MS, CLOCK_BOUND_NS);
	before = clock.line;
	clock.begun++;
	clock.line.ns += NS_PER_S; /* half of another line */
	machine.followed = 0;
	ask_for(&machine, &clock, 4 * NS_PER_MS, CLOCK_BOUND_NS);
	assert_int_equal(machine.followed, 0);
	clock.line = before;
	clock.done++;
	ask_for(&machine, &clock, 4 * NS_PER_MS, CLOCK_BOUND_NS);
	assert_true(machine.followed > 0);
}

static void a_thread_that_stalls_before_it_writes_moves_no_time(void **state)
{
	struct machine machine = machine_start(2.596);
	struct clock clock = start();
	struct clock_pair late;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		ask_for(&machine, &clock, 3 * NS_PER_MS, CLOCK_BOUND_NS);
		late = take_pair(&machine);
		ask_for(&machine, &clock, draw(&machine, 2 * NS_PER_MS), CLOCK_BOUND_NS);
		assert_true(clock_read_pair(&clock, &late) <= machine.last_ns + CLOCK_BOUND_NS);
		ask(&machine, &clock, CLOCK_BOUND_NS);
	}
}

static void two_processes_disagree_by_twice_the_bound_at_most(void **state)
{
	struct machine machine = machine_start(2.596);
	struct clock clocks[2] = {start(), start()};

	(void)state;
	for (int i = 0; i < 300000; i++) {
		uint64_t ns[2];

		for (int j = 0; j < 2; j++) {
			machine.last_ns = 0;
			ns[j] = ask(&machine, &clocks[j], CLOCK_BOUND_NS);
		}
		assert_true(distance(ns[0], ns[1]) < 2 * CLOCK_BOUND_NS);
		pass_ns(&machine, draw(&machine, 20000));
		if (draw(&machine, 100) == 0)
			machine.ppm = draw(&machine, 2) ? 500 : -500;
	}
}

/* Threads */

#define THREADS 4
#define GHZ     2.5

struct shared {
	struct clock clock;
	uint64_t counter;
};

static void *read_often(void *argument)
{
	struct shared *shared = argument;
	uint64_t last_ns = 0, followed = 0;

	for (int i = 0; i < 200000; i++) {
		uint64_t counter = __atomic_add_fetch(&shared->counter, 2000, __ATOMIC_RELAXED);
		uint64_t true_now_ns = (uint64_t)((double)counter / GHZ), now_ns;
		struct clock_pair pair = {counter - 100, counter + 100, true_now_ns};

		if (clock_follow(&shared->clock, counter, &now_ns))
			followed++;
		else
			now_ns = clock_read_pair(&shared->clock, &pair);
		/* A thread of those that read meanwhile may have been later. */
		if (now_ns < last_ns || now_ns + CLOCK_BOUND_NS < true_now_ns ||
		    now_ns > (uint64_t)((double)__atomic_load_n(&shared->counter, __ATOMIC_RELAXED) / GHZ) +
		                 CLOCK_BOUND_NS)
			return "expected time to go on, found it elsewhere";
		last_ns = now_ns;
	}
	return followed > 0 ? NULL : "expected a line, found none";
}

static void no_thread_reads_a_line_that_is_half_another(void **state)
{
	struct shared shared = {start(), UINT64_C(1) << 40};
	pthread_t threads[THREADS];
	void *failure;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_often, &shared), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failure);
		if (failure)
			fail_msg("%s", (const char *)failure);
	}
}

/* This machine */

static void read_for_300_ms(const struct clock *clock, uint64_t bound_ns)
{
	uint64_t start_ns = os_monotonic_ns(), before_ns, now_ns, after_ns = start_ns, last_ns = 0;

	while (after_ns < start_ns + 300 * NS_PER_MS) {
		before_ns = os_monotonic_ns();
		now_ns = clock_now(clock) - clock->offset_ns;
		after_ns = os_monotonic_ns();
		assert_true(now_ns + bound_ns >= before_ns && now_ns <= after_ns + bound_ns);
		assert_true(now_ns >= last_ns);
		last_ns = now_ns;
	}
}

static void it_is_never_a_microsecond_off_the_systems_clock(void **state)
{
	struct clock clock = clock_start(clock_offset(), true);

	(void)state;
	read_for_300_ms(&clock, CLOCK_BOUND_NS);
	if (!os_trusts_counter())
		assert_int_equal(clock.done, 0);
}

static void where_the_counter_is_not_trusted_it_is_the_systems_clock(void **state)
{
	struct clock clock = clock_start(clock_offset(), false);

	(void)state;
	read_for_300_ms(&clock, 0);
	assert_int_equal(clock.done, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(slewed_by_500_ppm_for_a_day_it_stays_within_a_microsecond),
	    cmocka_unit_test(a_slew_that_turns_at_any_moment_does_not_add_up),
	    cmocka_unit_test(a_counter_that_jumps_puts_it_half_a_millisecond_off_at_most),
	    cmocka_unit_test(an_old_line_is_not_followed),
	    cmocka_unit_test(a_thread_that_stalls_between_counter_and_clock_draws_no_line),
	    cmocka_unit_test(a_thread_that_stalls_while_it_writes_holds_up_nobody),
	    cmocka_unit_test(a_thread_that_stalls_before_it_writes_moves_no_time),
	    cmocka_unit_test(two_processes_disagree_by_twice_the_bound_at_most),
	    cmocka_unit_test(no_thread_reads_a_line_that_is_half_another),
	    cmocka_unit_test(it_is_never_a_microsecond_off_the_systems_clock),
	    cmocka_unit_test(where_the_counter_is_not_trusted_it_is_the_systems_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
