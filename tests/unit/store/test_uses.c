/*
 * Compares wide states in cells with the step on their uses: the same requests, in virtual time,
 * with refunds by name, resets and clocks that lag. Every decision is the same, and so is the use
 * after it.
 *
 * WEIR_TEST_SEED=N replays the choices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/cell.h"
#include "store/apply_step.h"

#define NOW    (UINT64_C(19675) * NS_PER_DAY + NS_PER_DAY / 2)
#define NAMES  8
#define ROUNDS 400
#define CALLS  300

/* A use that was acquired, as either side named it. */
struct name {
	uint64_t cells_ns, uses_ns, permit, cost;
};

static struct {
	struct algo_limit limit;
	struct algo_limit other; /* with other parameters, if it has any; else without an algorithm */
	bool has_changed;
	struct cell header, record[ALGO_WIDTH_MOST];
	struct uses_entry use[ALGO_WIDTH_MOST + 1], read[ALGO_WIDTH_MOST + 1];
	struct uses uses;
	struct name names[NAMES];
	uint64_t now_ns, step_ns, denials, refunds;
	unsigned named;
	bool lags;        /* sometimes */
	bool only_counts; /* nothing is given back */
	bool only_ones;   /* of each cost: as many uses as there can be */
	bool replaces;    /* of calls some do so, which clocks that lag would see late */
} state;

static uint64_t seed;

static uint64_t draw(uint64_t bound)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % bound;
}

static void begin(const struct weir_limit_options *options, uint64_t step_ns)
{
	algo_limit_free(&state.limit);
	algo_limit_free(&state.other);
	memset(&state, 0, sizeof state);
	assert_int_equal(algo_limit_init(&state.limit, options, NULL), WEIR_OK);
	state.uses.entries = state.use;
	state.now_ns = NOW + draw(NS_PER_DAY);
	state.step_ns = step_ns;
	state.only_ones = draw(4) == 0;
	state.replaces = state.limit.record == ALGO_RECORD_LOG && draw(2);
	/* Places that are over stay for clocks that lag until they are taken, whichever they are. */
	state.lags = state.limit.record != ALGO_RECORD_LEASES && !state.replaces && draw(2);
	/* Only six windows of a day are told apart, so a lagging clock may take one for another. */
	state.only_counts = state.limit.record == ALGO_RECORD_DAY && state.lags;
}

static void same_outcome(const struct algo_decision *cells, const struct algo_decision *uses)
{
	assert_int_equal(uses->allowed, cells->allowed);
	assert_int_equal(uses->reason, cells->reason);
	assert_int_equal(uses->remaining, cells->remaining);
	assert_int_equal(uses->retry_after_ns, cells->retry_after_ns);
	assert_int_equal(uses->reset_after_ns, cells->reset_after_ns);
}

static void same_meaning(const struct algo_time *time)
{
	struct record record = {state.record, state.limit.width, KEYLESS_TAG, true};
	struct uses read = {.entries = state.read};

	size_t spent = 0;

	while (spent < state.uses.count && state.use[spent].until_ns <= time->now_ns)
		spent++;
	record_read_uses(&state.limit, time, state.header, &record, &read);
	assert_int_equal(state.uses.count - spent, read.count);
	for (size_t i = 0; i < read.count; i++) {
		assert_int_equal(state.use[spent + i].units, read.entries[i].units);
		assert_int_equal(state.use[spent + i].until_ns, read.entries[i].until_ns);
		if (state.limit.record != ALGO_RECORD_LOG)
			assert_int_equal(state.use[spent + i].id, read.entries[i].id);
	}
}

/* One call on both. A refund may ask for what was given back already, or for a part of it. */
static void call_both(struct algo_call call, struct name *name, uint64_t now_ns)
{
	struct algo_time time = algo_time_at(&state.limit, (struct moment){now_ns, now_ns});
	struct record_state at = {&state.header,
	                          .record = {state.record, state.limit.width, KEYLESS_TAG, true}};
	struct algo_decision cells, uses;
	uint64_t cells_ns, uses_ns;

	call.until_ns = name ? name->uses_ns : 0;
	uses_ns = uses_step(&state.limit, &call, &time, &state.uses, &uses);
	call.until_ns = name ? name->cells_ns : 0;
	cells_ns = wide_apply_cell(&at, &state.limit, &call, &time, &cells);
	same_outcome(&cells, &uses);
	if (!state.has_changed) /* else the list is as other parameters wrote it */
		same_meaning(&time);
	state.denials += !cells.allowed;
	if (algo_consumes(&call) && cells.allowed) {
		assert_true(uses_ns == cells_ns || state.limit.record == ALGO_RECORD_LOG);
		state.names[state.named++ % NAMES] =
		    (struct name){cells_ns, uses_ns, call.permit, call.cost};
	}
}

static uint64_t any_cost(void)
{
	uint64_t quota = state.limit.quota;

	if (state.only_ones)
		return 1;
	return draw(8) == 0 ? draw(quota + 1) : u64_min(draw(4), quota);
}

static void any_call(void)
{
	struct name *name = draw(3) ? &state.names[draw(NAMES)] : NULL;
	struct algo_call call = {.op = ALGO_ACQUIRE, .cost = any_cost()};
	uint64_t now_ns, kind = draw(16);

	if (state.other.algorithm && draw(20) == 0) {
		struct algo_limit limit = state.limit;

		state.limit = state.other;
		state.other = limit;
		state.has_changed = true;
	}
	/* More entries than there are nanoseconds end later. */
	state.now_ns += state.limit.record == ALGO_RECORD_LOG;
	state.now_ns += draw(3) ? draw(state.step_ns) : draw(3) * state.step_ns / 3;
	if (draw(50) == 0)
		state.now_ns += draw(20 * state.limit.window_ns + 1);
	now_ns = state.now_ns;
	if (state.lags && draw(4) == 0)
		now_ns -= draw(2 * state.limit.period_ns);
	call.permit = state.limit.record == ALGO_RECORD_LEASES ? draw(3) ? draw(UINT64_MAX) + 1 : 0 : 0;
	if (kind < 2) {
		call.op = ALGO_PEEK;
	} else if (kind < 6 && !state.only_counts) {
		call.op = ALGO_REFUND;
		state.refunds++;
		/* In cells, the rest of an entry that was refunded in part ends with the next entry. */
		if (name && (draw(4) || state.limit.record == ALGO_RECORD_LOG))
			call.cost = name->cost;
		call.permit = name ? name->permit : 0;
		if (draw(2) && state.limit.record == ALGO_RECORD_LEASES)
			call.op = ALGO_REFUND_LAST;
	} else if (kind < 7 && draw(6) == 0 && !state.only_counts) {
		call.op = ALGO_RESET;
		call.permit = 0;
	}
	if (state.replaces && draw(3) == 0)
		call.op = algo_op_replacing(call.op);
	call_both(call, algo_op_releases(call.op) && name && name->cost ? name : NULL, now_ns);
}

static uint64_t any_period(void)
{
	static const uint64_t periods[] = {1, 7, 1000, 999999937, NS_PER_S, 60 * NS_PER_S,
	                                   3600 * NS_PER_S};

	return periods[draw(sizeof periods / sizeof *periods)];
}

static void agree_on(enum weir_algorithm algorithm, uint64_t most)
{
	uint64_t denials = 0, refunds = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		/* A log of 31 has a record of 32, none of which is to spare. */
		uint64_t period_ns = any_period(), count = draw(8) ? 1 + draw(draw(2) ? 12 : most) : 31;
		struct weir_limit_options options = {.algorithm = algorithm};

		if (algorithm == WEIR_ALGORITHM_CONCURRENCY)
			options.max = count;
		else
			options.rate = (struct weir_rate){count, period_ns, WEIR_UNIT_NANOSECOND};
		if (algorithm == WEIR_ALGORITHM_SLIDING_WINDOW)
			options.slots = (uint32_t)(1 + draw(draw(2) ? 12 : 200));
		if (algorithm == WEIR_ALGORITHM_BASE)
			options.base = 1 + draw(20);
		if (algorithm == WEIR_ALGORITHM_CONCURRENCY && draw(2))
			options.lease_ns = 1 + draw(2 * NS_PER_S);
		begin(&options, period_ns / (1 + draw(2 * count)) + 1);
		if (algorithm == WEIR_ALGORITHM_BASE && draw(2)) {
			options.base = 1 + draw(20);
			options.rate.count = 1 + draw(12);
			assert_int_equal(algo_limit_init(&state.other, &options, NULL), WEIR_OK);
		}
		for (unsigned j = 0; j < CALLS; j++)
			any_call();
		denials += state.denials;
		refunds += state.refunds;
	}
	assert_true(denials > ROUNDS && refunds > ROUNDS);
}

static void slots_mean_what_they_decide(void **unused)
{
	(void)unused;
	agree_on(WEIR_ALGORITHM_SLIDING_WINDOW, 200000);
}

static void weighted_slots_mean_what_they_decide(void **unused)
{
	(void)unused;
	agree_on(WEIR_ALGORITHM_SLIDING_COUNTER, 200000);
}

static void logs_mean_what_they_decide(void **unused)
{
	(void)unused;
	agree_on(WEIR_ALGORITHM_SLIDING_LOG, 300);
}

static void days_mean_what_they_decide(void **unused)
{
	(void)unused;
	agree_on(WEIR_ALGORITHM_BASE, 50);
}

static void leases_mean_what_they_decide(void **unused)
{
	(void)unused;
	agree_on(WEIR_ALGORITHM_CONCURRENCY, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(slots_mean_what_they_decide),
	    cmocka_unit_test(weighted_slots_mean_what_they_decide),
	    cmocka_unit_test(logs_mean_what_they_decide),
	    cmocka_unit_test(days_mean_what_they_decide),
	    cmocka_unit_test(leases_mean_what_they_decide),
	};
	const char *given = getenv("WEIR_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
