/*
 * Tests sliding_window, sliding_counter and sliding_log step by step, in virtual time: against a
 * plain list of uses, and with unfinished steps as a crash leaves them.
 *
 * WEIR_TEST_SEED=N replays the random ones.
 */
#include <stdlib.h>
#include <time.h>

#include "steps.h"

struct taken {
	uint64_t name_ns, until_ns, cost;
};

#define TAKEN_MAX 20000

struct model {
	struct taken taken[TAKEN_MAX];
	size_t n;
	uint64_t name_ns; /* the last given in a log */
};

static struct model model;

static uint64_t model_until(uint64_t now_ns)
{
	u128 period = state.limit.period_ns, slots = state.limit.slots.slots, slot;

	if (state.limit.algorithm->id == WEIR_ALGORITHM_SLIDING_LOG)
		return now_ns + (uint64_t)period;
	if (state.limit.algorithm->id == WEIR_ALGORITHM_SLIDING_COUNTER)
		return now_ns / (uint64_t)period * (uint64_t)period + 2 * (uint64_t)period;
	slot = now_ns * slots / period;
	return (uint64_t)((slot * period + slots - 1) / slots + period);
}

/* The use of the current window since 1970, and the share of the one before that still overlaps. */
static uint64_t model_counter_use(uint64_t now_ns)
{
	uint64_t period_ns = state.limit.period_ns, window_ns = now_ns / period_ns * period_ns;
	uint64_t use = 0, before = 0;

	for (size_t i = 0; i < model.n; i++) {
		use += model.taken[i].until_ns == window_ns + 2 * period_ns ? model.taken[i].cost : 0;
		before += model.taken[i].until_ns == window_ns + period_ns ? model.taken[i].cost : 0;
	}
	return use + (uint64_t)(((u128)before * (window_ns + period_ns - now_ns) + period_ns - 1) /
	                        period_ns);
}

static uint64_t model_use(uint64_t now_ns)
{
	uint64_t use = 0;

	if (state.limit.algorithm->id == WEIR_ALGORITHM_SLIDING_COUNTER)
		return model_counter_use(now_ns);
	for (size_t i = 0; i < model.n; i++)
		use += model.taken[i].until_ns > now_ns ? model.taken[i].cost : 0;
	return use;
}

/* The first time that there is room: use falls until something is taken again. */
static uint64_t model_counter_wait(uint64_t now_ns, uint64_t need)
{
	uint64_t most = model_counter_use(now_ns) - need, wait_ns = 2 * state.limit.period_ns;

	for (uint64_t step = wait_ns; step > 0; step /= 2)
		while (wait_ns > step && model_counter_use(now_ns + wait_ns - step) <= most)
			wait_ns -= step;
	return wait_ns;
}

static uint64_t model_wait(uint64_t now_ns, uint64_t need)
{
	if (state.limit.algorithm->id == WEIR_ALGORITHM_SLIDING_COUNTER)
		return model_counter_wait(now_ns, need);
	for (size_t i = 0; i < model.n; i++) {
		if (model.taken[i].until_ns <= now_ns)
			continue;
		if (model.taken[i].cost >= need)
			return model.taken[i].until_ns - now_ns;
		need -= model.taken[i].cost;
	}
	fail();
	return 0;
}

/* Each of a log has a name of its own, which is that of the header it left, and later than all. */
static void model_take(uint64_t now_ns, uint64_t cost)
{
	struct taken taken = {model_until(now_ns), model_until(now_ns), cost};

	if (state.limit.algorithm->id == WEIR_ALGORITHM_SLIDING_LOG) {
		assert_true(state.until_ns > model.name_ns && state.until_ns >= taken.until_ns);
		taken.name_ns = model.name_ns = state.until_ns;
	}
	assert_true(model.n < TAKEN_MAX);
	model.taken[model.n++] = taken;
}

static void model_remove(size_t i)
{
	memmove(&model.taken[i], &model.taken[i + 1], (--model.n - i) * sizeof *model.taken);
}

static void model_give(uint64_t now_ns, uint64_t cost)
{
	while (cost > 0 && model.n > 0 && model.taken[model.n - 1].until_ns > now_ns) {
		struct taken *last = &model.taken[model.n - 1];
		uint64_t back = u64_min(cost, last->cost);

		last->cost -= back;
		cost -= back;
		model.n -= last->cost == 0;
	}
}

static uint64_t draw(uint64_t *seed, uint64_t bound)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint64_t)(((u128)*seed * bound) >> 64);
}

/* Clocks say whole ticks. */
static void agree_on_ticks(uint64_t *seed, unsigned calls, uint64_t tick_ns)
{
	uint64_t at_ns = NOW + draw(seed, NS_PER_S), quota = state.limit.quota;
	uint64_t period_ns = state.limit.period_ns, pace = 2 * period_ns / quota;
	bool log = state.limit.algorithm->id == WEIR_ALGORITHM_SLIDING_LOG;

	if (!log)
		pace = u64_max(pace, period_ns / 25); /* from slot to slot, however great the quota */
	model.n = model.name_ns = 0;
	while (calls-- > 0) {
		uint64_t cost = 1 + (draw(seed, 4) ? draw(seed, 2) : draw(seed, quota)), use, what, now_ns;

		if (draw(seed, 3) == 0)
			at_ns += draw(seed, draw(seed, 50) ? pace : 2 * period_ns) + 1;
		now_ns = at_ns / tick_ns * tick_ns;
		cost = u64_min(cost, quota);
		use = model_use(now_ns);
		what = draw(seed, 20);
		if (what < 2) {
			call(ALGO_REFUND, cost, now_ns);
			model_give(now_ns, cost);
		} else if (what == 2 && model.n > 0) { /* by the name of the newest */
			struct taken *last = &model.taken[model.n - 1];

			assert_true(call_until(ALGO_REFUND, 1, last->name_ns, now_ns, 9));
			if (last->until_ns > now_ns)
				model_give(now_ns, 1);
		} else if (what == 19 && log && model.n > 0) { /* or of any: all of it */
			size_t i = draw(seed, model.n);
			struct taken named = model.taken[i];

			assert_true(call_until(ALGO_REFUND, named.cost, named.name_ns, now_ns, 100000));
			if (named.until_ns > now_ns)
				model_remove(i);
		} else if (what == 3 && draw(seed, 10) == 0) {
			call(ALGO_RESET, 0, now_ns);
			model.n = 0;
		} else {
			bool allowed = call(what < 6 ? ALGO_PEEK : ALGO_ACQUIRE, cost, now_ns);

			assert_int_equal(allowed, use + cost <= quota);
			if (!allowed)
				assert_int_equal(state.out.retry_after_ns, model_wait(now_ns, use + cost - quota));
			if (allowed && what >= 6)
				model_take(now_ns, cost);
		}
		use = model_use(now_ns);
		assert_int_equal(state.out.remaining, quota - use);
		assert_int_equal(state.out.reset_after_ns,
		                 use > 0 ? model.taken[model.n - 1].until_ns - now_ns : 0);
	}
}

static void agree_on(uint64_t *seed, unsigned calls)
{
	agree_on_ticks(seed, calls, 1);
}

static void random_calls_agree_with_a_list(void **unused)
{
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

	(void)unused;
	print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	for (int i = 0; i < 40; i++) {
		static const uint64_t counts[] = {1, 2, 11, 12, 100, 127};
		static const uint64_t large[] = {65534, 65535, 65536, UINT64_C(1) << 32};
		static const uint32_t slots[] = {1, 2, 7, 10, 12, 13, 128, 1000};

		begin(WEIR_ALGORITHM_SLIDING_LOG, counts[i % 6], NS_PER_S, 0);
		agree_on(&seed, 1500);
		begin(WEIR_ALGORITHM_SLIDING_WINDOW, 1 + draw(&seed, 50), NS_PER_S, slots[i % 8]);
		agree_on(&seed, 300);
		begin(WEIR_ALGORITHM_SLIDING_WINDOW, large[i % 4], NS_PER_S, slots[i % 8]);
		agree_on(&seed, 300);
		begin(WEIR_ALGORITHM_SLIDING_COUNTER, i & 1 ? large[i / 2 % 4] : 1 + draw(&seed, 50),
		      NS_PER_S, 0);
		agree_on(&seed, 300);
	}
	assert_true(at_once > 1000 && opened > 500 && appended > 1000);
	begin(WEIR_ALGORITHM_SLIDING_LOG, 10000, NS_PER_S, 0);
	agree_on(&seed, 15000);
	for (unsigned i = 0; i < 16; i++) {
		static const uint64_t counts[] = {128, 200, 1000, 10000};

		begin(WEIR_ALGORITHM_SLIDING_LOG, counts[i / 4], 60 * NS_PER_S, 0);
		agree_on_ticks(&seed, 1500, i & 1 ? NS_PER_S : NS_PER_MS);
	}
}

/* ---- half done ---- */

/* A request after a death at any point finds what was granted, and nothing else. */
static void any_death(enum weir_algorithm algorithm, enum algo_op op, enum algo_op next)
{
	for (unsigned wants = 0; wants < 8; wants++) {
		uint64_t later = NOW + 350 * NS_PER_MS, use;
		bool done;

		begin(algorithm, 10, NS_PER_S, 10);
		assert_int_equal(admitted(2, NOW), 2);
		assert_int_equal(admitted(3, NOW + 120 * NS_PER_MS), 3);
		done = call_until(op, 1, 0, later, wants);
		call(ALGO_PEEK, 1, later);
		use = 10 - state.out.remaining;
		if (done && op == ALGO_ACQUIRE)
			assert_int_equal(use, 6);
		else if (op == ALGO_ACQUIRE)
			assert_int_equal(use, 5);
		call(next, 2, later);
		if (next == ALGO_ACQUIRE)
			assert_int_equal(10 - state.out.remaining, use + 2);
		if (next == ALGO_REFUND)
			assert_int_equal(10 - state.out.remaining, use - 2);
		if (next == ALGO_RESET)
			assert_int_equal(state.out.remaining, 10);
		use = 10 - state.out.remaining;
		assert_int_equal(admitted(20, later), 10 - use);
		if (next == ALGO_ACQUIRE) {
			/* each of what is in use leaves at its own time */
			call(ALGO_PEEK, 1, NOW + NS_PER_S);
			assert_int_equal(state.out.remaining, 2);
			call(ALGO_PEEK, 1, NOW + 1120 * NS_PER_MS);
			assert_int_equal(state.out.remaining, 5);
		}
	}
}

static void the_work_of_a_crashed_writer_is_completed_by_the_next(void **unused)
{
	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++)
		for (enum algo_op next = ALGO_ACQUIRE; next <= ALGO_RESET; next++)
			any_death(a, ALGO_ACQUIRE, next);
}

static void a_denial_or_peek_wants_nothing_whatever_the_header(void **unused)
{
	(void)unused;
	for (unsigned wants = 0; wants < 3; wants++) { /* open, sealed, sealed and copied */
		struct state before;

		begin(WEIR_ALGORITHM_SLIDING_WINDOW, 5, NS_PER_S, 10);
		admitted(1, NOW);
		admitted(4, NOW + NS_PER_S / 10);
		call_until(ALGO_ACQUIRE, 1, 0, NOW + NS_PER_S, wants);
		before = state;
		assert_true(call_until(ALGO_PEEK, 1, 0, NOW + NS_PER_S, 0));
		assert_true(call_until(ALGO_ACQUIRE, 2, 0, NOW + NS_PER_S, 0));
		assert_false(state.out.allowed);
		assert_int_equal(state.out.retry_after_ns, NS_PER_S / 10);
		assert_memory_equal(&before.header, &state.header, sizeof state.header);
		assert_memory_equal(before.record, state.record, sizeof state.record);
	}
}

static void cells_of_another_key_are_ignored(void **unused)
{
	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++) {
		begin(a, 10, NS_PER_S, 10);
		for (unsigned i = 0; i < 10; i++)
			admitted(1, NOW + i * NS_PER_S / 10);
		state.header = (struct cell){0, 0}; /* evicted; and the same key comes back, or another */
		for (unsigned i = 0; a == WEIR_ALGORITHM_SLIDING_WINDOW && i < 12; i += 2)
			state.record[i].low += UINT64_C(1) << 32;
		assert_int_equal(admitted(20, NOW + NS_PER_S), 10);
		assert_int_equal(admitted(20, NOW + 2 * NS_PER_S - 1), 0);
		assert_int_equal(admitted(4, NOW + 2 * NS_PER_S), 4);
		call(ALGO_PEEK, 1, NOW + 2 * NS_PER_S + NS_PER_S / 5);
		assert_int_equal(state.out.remaining, 6);
	}
}

/* ---- traps ---- */

static void steady_excess_does_not_block_for_ever(void **unused)
{
	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++) {
		unsigned allowed = 0;

		begin(a, 10, NS_PER_S, 10);
		for (unsigned i = 0; i < 10000; i++)
			allowed += call(ALGO_ACQUIRE, 1, NOW + i * NS_PER_MS);
		assert_in_range(allowed, 90, 100); /* ten seconds */
	}
}

static void alternating_older_and_newer_times_mint_nothing(void **unused)
{
	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++) {
		unsigned allowed = 0;

		begin(a, 10, NS_PER_S, 10);
		for (unsigned i = 0; i < 1000; i++)
			allowed += call(ALGO_ACQUIRE, 1, NOW + (i & 1) * NS_PER_S / 10 + i * 1000);
		assert_int_equal(allowed, 10);
		begin(a, 10, NS_PER_S, 10); /* a clock that lags decides, and takes, at the newest time */
		admitted(1, NOW);
		admitted(9, NOW + NS_PER_S);
		assert_int_equal(admitted(2, NOW + NS_PER_S - 50 * NS_PER_MS), 1);
		assert_int_equal(state.out.reset_after_ns, NS_PER_S + 50 * NS_PER_MS);
	}
}

static void a_clock_set_back_by_years_neither_frees_nor_locks_a_key(void **unused)
{
	uint64_t back = NOW - UINT64_C(365) * NS_PER_DAY;

	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++) {
		begin(a, 10, NS_PER_S, 10);
		call(ALGO_ACQUIRE, 1, NOW);
		call(ALGO_RESET, 0, NOW);
		assert_int_equal(admitted(1, back), 1);
		assert_in_range(state.out.reset_after_ns, 1, 2 * NS_PER_S);

		begin(a, 10, NS_PER_S, 10);
		for (unsigned j = 0; j < 10; j++)
			admitted(1, NOW + j * NS_PER_S / 10);
		assert_true(call_until(ALGO_PEEK, 1, 0, back, 0)); /* it writes nothing */
		assert_int_equal(state.out.remaining, 0);
		/* denied for a period, however far the clock went, and even if others ask meanwhile */
		for (unsigned j = 0; j < 10; j++)
			assert_false(call(ALGO_ACQUIRE, 1, back + j * NS_PER_S / 10));
		assert_int_equal(admitted(20, back + NS_PER_S), 10);
		/* and nothing of the record counts when the clock comes by again */
		call(ALGO_PEEK, 1, back + 2 * NS_PER_S);
		assert_int_equal(state.out.remaining, 10);
		assert_int_equal(admitted(20, NOW + 5 * NS_PER_S), 10);
	}
}

static void clocks_up_to_a_day_apart_share_one_quota(void **unused)
{
	static const uint64_t lags[] = {1, 3600, 86400};

	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_LOG;
	     a++)
		for (unsigned i = 0; i < 3; i++) {
			uint64_t lag_ns = lags[i] * NS_PER_S;

			begin(a, 10, NS_PER_S, 10);
			assert_int_equal(admitted(4, NOW), 4);
			assert_int_equal(admitted(4, NOW - lag_ns), 4);
			assert_int_equal(admitted(4, NOW), 2);
			for (unsigned j = 0; j < 10; j++) {
				assert_false(call(ALGO_ACQUIRE, 1, NOW - lag_ns));
				assert_false(call(ALGO_ACQUIRE, 1, NOW + j * NS_PER_S / 11));
			}
			assert_int_equal(admitted(20, NOW + NS_PER_S), 10);
		}
}

/* A slot of which late writers know an earlier count must not have another. */
static void a_lagging_clock_begins_no_slot_that_a_reset_or_refund_has_ended(void **unused)
{
	uint64_t later_ns = NOW + NS_PER_S / 10, newest;

	(void)unused;
	for (unsigned wants = 2; wants <= 4; wants++) /* of which the third opens the later slot */
		for (unsigned refund = 0; refund < 2; refund++) {
			begin(WEIR_ALGORITHM_SLIDING_WINDOW, 10, NS_PER_S, 10);
			call(ALGO_ACQUIRE, 2, NOW);
			newest = state.until_ns + NS_PER_S / 10;
			call_until(ALGO_ACQUIRE, 2, 0, later_ns, wants);
			call(refund ? ALGO_REFUND : ALGO_RESET, 4, later_ns);
			call(ALGO_PEEK, 1, later_ns);
			assert_int_equal(state.out.remaining, 10);
			assert_int_equal(state.out.reset_after_ns, 0);
			assert_int_equal(admitted(20, NOW), 10);
			assert_int_equal(state.until_ns, newest);
			assert_false(call(ALGO_ACQUIRE, 1, later_ns));
			assert_int_equal(admitted(20, NOW + NS_PER_S + NS_PER_S / 10), 10);
		}
}

/* Nor the slot of a header that is sealed, and of which the record knows already. */
static void a_lagging_clock_goes_on_behind_a_sealed_header(void **unused)
{
	(void)unused;
	for (unsigned wants = 1; wants <= 2; wants++) {
		begin(WEIR_ALGORITHM_SLIDING_WINDOW, 10, NS_PER_S, 10);
		call(ALGO_ACQUIRE, 5, NOW);
		assert_false(call_until(ALGO_ACQUIRE, 1, 0, NOW + NS_PER_S / 10, wants));
		assert_int_equal(admitted(20, NOW), 5);
		assert_int_equal(admitted(20, NOW + NS_PER_S / 10), 0);
	}
}

static void another_number_of_slots_keeps_all_use_in_the_current_one(void **unused)
{
	static const uint32_t slots[] = {12, 3, 7, 10};
	uint64_t now_ns = NOW;

	(void)unused;
	begin(WEIR_ALGORITHM_SLIDING_WINDOW, 100, NS_PER_S, 10);
	for (unsigned i = 0; i < 10; i++, now_ns += NS_PER_S / 10)
		admitted(2, now_ns);
	now_ns -= NS_PER_S / 10;
	for (unsigned i = 0; i < 4; i++) {
		again(WEIR_ALGORITHM_SLIDING_WINDOW, 100, NS_PER_S, slots[i]);
		call(ALGO_PEEK, 1, now_ns);
		assert_int_equal(state.out.remaining, 80 - i);
		admitted(1, now_ns);
		assert_int_equal(state.out.remaining, 79 - i);
	}
	call(ALGO_PEEK, 1, now_ns + NS_PER_S);
	assert_int_equal(state.out.remaining, 100);
}

static void a_refund_by_name_goes_to_its_slot_or_nowhere(void **unused)
{
	uint64_t first, now_ns = NOW + NS_PER_S / 2;

	(void)unused;
	begin(WEIR_ALGORITHM_SLIDING_WINDOW, 10, NS_PER_S, 10);
	call(ALGO_ACQUIRE, 3, NOW);
	first = state.until_ns;
	call(ALGO_ACQUIRE, 2, now_ns);
	call_until(ALGO_REFUND, 2, first, now_ns, 9);
	assert_int_equal(state.out.remaining, 7);
	call_until(ALGO_REFUND, 9, first, now_ns, 9);
	assert_int_equal(state.out.remaining, 8); /* the two of now stay */
	call_until(ALGO_REFUND, 9, first + 1, now_ns, 9);
	assert_int_equal(state.out.remaining, 8);
}

/* The header may count too much for the slots before it, until the next refund or slot. */
static void a_refund_that_crashes_in_the_record_is_completed_by_the_next(void **unused)
{
	uint64_t first, now_ns = NOW + NS_PER_S / 10;

	(void)unused;
	for (unsigned refund = 0; refund < 2; refund++) {
		begin(WEIR_ALGORITHM_SLIDING_WINDOW, 10, NS_PER_S, 10);
		call(ALGO_ACQUIRE, 5, NOW);
		first = state.until_ns;
		call(ALGO_ACQUIRE, 1, now_ns);
		assert_false(call_until(ALGO_REFUND, 3, first, now_ns, 1));
		assert_int_equal(admitted(9, now_ns), 4);
		if (refund)
			call_until(ALGO_REFUND, 1, first, now_ns, 9);
		else
			now_ns += NS_PER_S / 10;
		assert_int_equal(admitted(9, now_ns), 3 + refund);
		call(ALGO_REFUND, 20, now_ns);
		assert_int_equal(state.out.remaining, 10);
		assert_int_equal(state.out.reset_after_ns, 0);
	}
}

/* The header's word has another form from 2^16 on. */
static void a_count_that_crosses_2_to_the_16_keeps_all_use(void **unused)
{
	uint64_t now_ns = NOW;

	(void)unused;
	for (enum weir_algorithm a = WEIR_ALGORITHM_SLIDING_WINDOW; a <= WEIR_ALGORITHM_SLIDING_COUNTER;
	     a += WEIR_ALGORITHM_SLIDING_COUNTER - WEIR_ALGORITHM_SLIDING_WINDOW) {
		begin(a, 70000, NS_PER_S, 10);
		call(ALGO_ACQUIRE, 40, now_ns);
		call(ALGO_ACQUIRE, 20, now_ns + NS_PER_S / 10);
		for (unsigned i = 0; i < 3; i++) {
			again(a, 100, NS_PER_S, 10);
			call(ALGO_PEEK, 1, now_ns + NS_PER_S / 10);
			assert_int_equal(state.out.remaining, 40 - 2 * i);
			assert_true(call(ALGO_ACQUIRE, 1, now_ns + NS_PER_S / 10));
			again(a, 70000, NS_PER_S, 10);
			call(ALGO_PEEK, 1, now_ns + NS_PER_S / 10);
			assert_int_equal(state.out.remaining, 69939 - 2 * i);
			assert_true(call(ALGO_ACQUIRE, 1, now_ns + NS_PER_S / 10));
		}
		assert_true(call(ALGO_ACQUIRE, 65480, now_ns + NS_PER_S / 10));
		again(a, 50, NS_PER_S, 10);
		for (unsigned i = 0; i < 2; i++) {
			assert_false(call(ALGO_ACQUIRE, 1, now_ns + NS_PER_S / 10));
			assert_int_equal(state.out.remaining, 0);
		}
	}
}

static void a_limit_lowered_below_the_use_of_its_slot_denies(void **unused)
{
	(void)unused;
	begin(WEIR_ALGORITHM_SLIDING_WINDOW, 10, NS_PER_S, 10);
	admitted(8, NOW);
	again(WEIR_ALGORITHM_SLIDING_WINDOW, 6, NS_PER_S, 10);
	assert_false(call(ALGO_ACQUIRE, 1, NOW));
	assert_int_equal(state.out.remaining, 0);
}

static void all_of_2_to_the_32_fits_in_a_slot(void **unused)
{
	(void)unused;
	begin(WEIR_ALGORITHM_SLIDING_WINDOW, UINT64_C(1) << 32, NS_PER_S, 10);
	assert_true(call(ALGO_ACQUIRE, UINT64_C(1) << 32, NOW));
	assert_false(call(ALGO_ACQUIRE, 1, NOW + NS_PER_S - 1));
	call(ALGO_REFUND, 1, NOW + NS_PER_S - 1);
	assert_int_equal(admitted(2, NOW + NS_PER_S - 1), 1);
	assert_int_equal(state.out.retry_after_ns, 1);
	begin(WEIR_ALGORITHM_SLIDING_WINDOW, UINT64_C(1) << 32, NS_PER_S, 10); /* in an open header */
	admitted(2, NOW);
	call(ALGO_ACQUIRE, 1, NOW + NS_PER_S / 10);
	call(ALGO_REFUND, 3, NOW + NS_PER_S / 10);
	assert_true(call(ALGO_ACQUIRE, UINT64_C(1) << 32, NOW + NS_PER_S / 10));
	for (unsigned i = 1; i <= 10; i++)
		assert_false(call(ALGO_ACQUIRE, 1, NOW + i * NS_PER_S / 10));
	call(ALGO_REFUND, 5, NOW + NS_PER_S);
	assert_int_equal(admitted(9, NOW + NS_PER_S), 5);
	assert_true(call(ALGO_ACQUIRE, (UINT64_C(1) << 32) - 5, NOW + NS_PER_S + NS_PER_S / 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_calls_agree_with_a_list),
	    cmocka_unit_test(the_work_of_a_crashed_writer_is_completed_by_the_next),
	    cmocka_unit_test(a_denial_or_peek_wants_nothing_whatever_the_header),
	    cmocka_unit_test(cells_of_another_key_are_ignored),
	    cmocka_unit_test(steady_excess_does_not_block_for_ever),
	    cmocka_unit_test(alternating_older_and_newer_times_mint_nothing),
	    cmocka_unit_test(a_clock_set_back_by_years_neither_frees_nor_locks_a_key),
	    cmocka_unit_test(clocks_up_to_a_day_apart_share_one_quota),
	    cmocka_unit_test(a_lagging_clock_begins_no_slot_that_a_reset_or_refund_has_ended),
	    cmocka_unit_test(a_lagging_clock_goes_on_behind_a_sealed_header),
	    cmocka_unit_test(another_number_of_slots_keeps_all_use_in_the_current_one),
	    cmocka_unit_test(a_refund_by_name_goes_to_its_slot_or_nowhere),
	    cmocka_unit_test(a_refund_that_crashes_in_the_record_is_completed_by_the_next),
	    cmocka_unit_test(a_count_that_crosses_2_to_the_16_keeps_all_use),
	    cmocka_unit_test(a_limit_lowered_below_the_use_of_its_slot_denies),
	    cmocka_unit_test(all_of_2_to_the_32_fits_in_a_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
