/*
 * sliding_window, sliding_counter and sliding_log step by step, in virtual time: against a
 * plain list of what was taken, and with steps left half done as a process that dies
 * leaves them.
 *
 * WEIR_TEST_SEED=N replays the random ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "algo/wide.h"

#define NOW   (UINT64_C(1700000000) * NS_PER_S)
#define TAG   7
#define CELLS 10240

struct state {
	struct algo_limit limit;
	struct algo_outcome out;
	struct cell head, row[CELLS];
	uint64_t until_ns; /* that the last call left */
};

static struct state state;
static unsigned at_once, opened, appended; /* decisions that needed no step */

static void begin(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns, uint32_t slots)
{
	struct weir_limit_options options = {.algorithm = algorithm,
	                                     .rate = {count, period_ns, WEIR_NANOSECOND},
	                                     .slots = algorithm == WEIR_SLIDING_WINDOW ? slots : 0};

	memset(&state, 0, sizeof state);
	assert_int_equal(algo_limit_init(&state.limit, &options, NULL), WEIR_OK);
}

static void again(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns, uint32_t slots)
{
	struct algo_limit before = state.limit, *next = &state.limit;
	struct weir_limit_options options = {.algorithm = algorithm,
	                                     .rate = {count, period_ns, WEIR_NANOSECOND},
	                                     .slots = algorithm == WEIR_SLIDING_WINDOW ? slots : 0};

	assert_int_equal(algo_limit_init(next, &options, NULL), WEIR_OK);
	algo_succeed(&before, next);
}

/* What is decided at once is what the step says, and wants. */
static void agree_at_once(const struct algo_call *call, uint64_t now_ns,
                          const struct algo_change *change)
{
	struct algo_outcome out;
	struct cell after;

	if (call->op != ALGO_ACQUIRE || !state.limit.is_summed ||
	    !sliding_window_take(&state.limit, state.head, now_ns, call->cost, &out, &after))
		return;
	assert_true(state.out.allowed && out.allowed);
	assert_int_equal(out.remaining, state.out.remaining);
	assert_int_equal(out.reset_after_ns, state.out.reset_after_ns);
	assert_true(change->want == ALGO_WANT_HEAD && change->last);
	assert_memory_equal(&after, &change->head, sizeof after);
	at_once++;
}

static void same_outcome(const struct algo_outcome *out)
{
	assert_int_equal(out->allowed, state.out.allowed);
	assert_int_equal(out->reason, state.out.reason);
	assert_int_equal(out->remaining, state.out.remaining);
	assert_int_equal(out->retry_after_ns, state.out.retry_after_ns);
	assert_int_equal(out->reset_after_ns, state.out.reset_after_ns);
	assert_int_equal(out->wait_ns, state.out.wait_ns);
}

static void same_change(const struct algo_change *change, const struct algo_change *step)
{
	assert_int_equal(change->want, step->want);
	assert_false(step->clean);
	if (step->want == ALGO_WANT_CELL) {
		assert_int_equal(change->place, step->place);
		assert_memory_equal(&change->before, &step->before, sizeof change->before);
		assert_memory_equal(&change->after, &step->after, sizeof change->after);
	}
	if (step->want == ALGO_WANT_HEAD || step->then_head)
		assert_memory_equal(&change->head, &step->head, sizeof change->head);
}

/* The same of what goes to another slot; `opening`: whether its head was just sealed. */
static void agree_to_open(const struct algo_call *call, uint64_t now_ns, const struct algo_row *row,
                          const struct algo_change *step, bool *opening)
{
	struct algo_change change = {.want = ALGO_WANT_HEAD};
	struct algo_outcome out;

	if (call->op != ALGO_ACQUIRE || !state.limit.is_summed || call->cost == 0)
		return;
	if (!*opening) {
		*opening =
		    sliding_window_seal(&state.limit, state.head, row, now_ns, call->cost, &change);
		if (*opening)
			same_change(&change, step);
		return;
	}
	sliding_window_open(&state.limit, state.head, row, now_ns, call->cost, &out, &change);
	same_change(&change, step);
	if (step->want == ALGO_WANT_HEAD) {
		assert_true(step->last);
		same_outcome(&out);
		opened++;
	}
}

static void agree_to_append(const struct algo_call *call, uint64_t now_ns,
                            const struct algo_row *row, const struct algo_change *step)
{
	struct algo_outcome out;
	struct algo_append append;

	if (call->op != ALGO_ACQUIRE || state.limit.algorithm != WEIR_SLIDING_LOG ||
	    !algo_log_is_narrow(row->width) ||
	    !sliding_log_try(&state.limit, state.head, row, now_ns, call->cost, &out, &append))
		return;
	same_outcome(&out);
	assert_int_equal(append.until_ns,
	                 (int64_t)now_ns +
	                     cell_ahead_ns(out.allowed ? append.head : state.head, now_ns));
	if (out.allowed) {
		struct algo_change change = {.want = append.is_there ? ALGO_WANT_HEAD : ALGO_WANT_CELL,
		                             .head = append.head,
		                             .place = append.place,
		                             .before = append.before,
		                             .after = append.entry};

		same_change(&change, step);
		assert_true(step->last && step->then_head != append.is_there);
	} else {
		assert_int_equal(step->want, ALGO_WANT_NOTHING);
	}
	appended++;
}

/* What one process does of a call before it dies after `wants` of what its steps want. */
static bool call_until(enum algo_op op, uint64_t cost, uint64_t until_ns, uint64_t now_ns,
                       unsigned wants)
{
	struct algo_row row = {state.row, algo_widths[state.limit.width], TAG, true};
	struct algo_call call = {op, cost, until_ns};
	struct algo_time time = {now_ns, 0};
	bool opening = false;

	for (;; wants--) {
		struct algo_change change;

		algo_step_wide(&state.limit, &call, &time, state.head, &row, &state.out, &change);
		agree_at_once(&call, now_ns, &change);
		agree_to_open(&call, now_ns, &row, &change, &opening);
		agree_to_append(&call, now_ns, &row, &change);
		if (change.want == ALGO_WANT_NOTHING)
			return true;
		if (wants == 0)
			return false;
		if (change.want == ALGO_WANT_CELL) {
			assert_true(change.place < row.width);
			assert_memory_equal(&state.row[change.place], &change.before, sizeof change.before);
			state.row[change.place] = change.after;
			if (change.then_head && --wants == 0)
				return false;
		}
		if (change.want == ALGO_WANT_HEAD || !change.then_head) {
			call.cost -= change.given_back;
			if (call.until_ns != 0 && change.until_ns != 0)
				call.until_ns = change.until_ns;
		}
		if (change.want == ALGO_WANT_CELL && !change.then_head)
			continue;
		if (change.clean)
			for (unsigned i = 0; i < row.width; i++)
				if (cell_tag(state.row[i]) == TAG)
					state.row[i] = sliding_window_void(state.row[i]);
		state.head = change.head;
		state.until_ns = now_ns + (uint64_t)cell_ahead_ns(change.head, now_ns);
		if (change.last)
			return true;
	}
}

static bool call(enum algo_op op, uint64_t cost, uint64_t now_ns)
{
	assert_true(call_until(op, cost, 0, now_ns, 100000));
	return state.out.allowed;
}

static unsigned admitted(unsigned n, uint64_t now_ns)
{
	unsigned allowed = 0;

	while (n-- > 0)
		allowed += call(ALGO_ACQUIRE, 1, now_ns);
	return allowed;
}

/* ---- against a list ---- */

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

	if (state.limit.algorithm == WEIR_SLIDING_LOG)
		return now_ns + (uint64_t)period;
	if (state.limit.algorithm == WEIR_SLIDING_COUNTER)
		return now_ns / (uint64_t)period * (uint64_t)period + 2 * (uint64_t)period;
	slot = now_ns * slots / period;
	return (uint64_t)((slot * period + slots - 1) / slots + period);
}

/* Of windows since 1970: all of now's, and of the one before it what still overlaps. */
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

	if (state.limit.algorithm == WEIR_SLIDING_COUNTER)
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
	if (state.limit.algorithm == WEIR_SLIDING_COUNTER)
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

/* Each of a log has a name of its own, which is that of the head it left, and later than all. */
static void model_take(uint64_t now_ns, uint64_t cost)
{
	struct taken taken = {model_until(now_ns), model_until(now_ns), cost};

	if (state.limit.algorithm == WEIR_SLIDING_LOG) {
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
	bool log = state.limit.algorithm == WEIR_SLIDING_LOG;

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
				assert_int_equal(state.out.retry_after_ns,
				                 model_wait(now_ns, use + cost - quota));
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

		begin(WEIR_SLIDING_LOG, counts[i % 6], NS_PER_S, 0);
		agree_on(&seed, 1500);
		begin(WEIR_SLIDING_WINDOW, 1 + draw(&seed, 50), NS_PER_S, slots[i % 8]);
		agree_on(&seed, 300);
		begin(WEIR_SLIDING_WINDOW, large[i % 4], NS_PER_S, slots[i % 8]);
		agree_on(&seed, 300);
		begin(WEIR_SLIDING_COUNTER, i & 1 ? large[i / 2 % 4] : 1 + draw(&seed, 50), NS_PER_S, 0);
		agree_on(&seed, 300);
	}
	assert_true(at_once > 1000 && opened > 500 && appended > 1000);
	begin(WEIR_SLIDING_LOG, 10000, NS_PER_S, 0);
	agree_on(&seed, 15000);
	for (unsigned i = 0; i < 16; i++) {
		static const uint64_t counts[] = {128, 200, 1000, 10000};

		begin(WEIR_SLIDING_LOG, counts[i / 4], 60 * NS_PER_S, 0);
		agree_on_ticks(&seed, 1500, i & 1 ? NS_PER_S : NS_PER_MS);
	}
}

/* ---- half done ---- */

/* Whoever comes after a death at any point finds what was granted, and nothing else. */
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

static void what_a_dead_writer_left_is_completed_by_the_next(void **unused)
{
	(void)unused;
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_LOG; a++)
		for (enum algo_op next = ALGO_ACQUIRE; next <= ALGO_RESET; next++)
			any_death(a, ALGO_ACQUIRE, next);
}

static void a_denial_or_peek_wants_nothing_whatever_the_head(void **unused)
{
	(void)unused;
	for (unsigned wants = 0; wants < 3; wants++) { /* open, sealed, sealed and copied */
		struct state before;

		begin(WEIR_SLIDING_WINDOW, 5, NS_PER_S, 10);
		admitted(1, NOW);
		admitted(4, NOW + NS_PER_S / 10);
		call_until(ALGO_ACQUIRE, 1, 0, NOW + NS_PER_S, wants);
		before = state;
		assert_true(call_until(ALGO_PEEK, 1, 0, NOW + NS_PER_S, 0));
		assert_true(call_until(ALGO_ACQUIRE, 2, 0, NOW + NS_PER_S, 0));
		assert_false(state.out.allowed);
		assert_int_equal(state.out.retry_after_ns, NS_PER_S / 10);
		assert_memory_equal(&before.head, &state.head, sizeof state.head);
		assert_memory_equal(before.row, state.row, sizeof state.row);
	}
}

static void what_another_key_left_in_a_row_says_nothing(void **unused)
{
	(void)unused;
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_LOG; a++) {
		begin(a, 10, NS_PER_S, 10);
		for (unsigned i = 0; i < 10; i++)
			admitted(1, NOW + i * NS_PER_S / 10);
		state.head = (struct cell){0, 0}; /* evicted; and the same key comes back, or another */
		for (unsigned i = 0; a == WEIR_SLIDING_WINDOW && i < 12; i += 2)
			state.row[i].low += UINT64_C(1) << 32;
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
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_LOG; a++) {
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
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_LOG; a++) {
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
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_LOG; a++) {
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
		/* denied for a period, however far the clock went and whoever asks meanwhile */
		for (unsigned j = 0; j < 10; j++)
			assert_false(call(ALGO_ACQUIRE, 1, back + j * NS_PER_S / 10));
		assert_int_equal(admitted(20, back + NS_PER_S), 10);
		/* and nothing of the row counts when the clock comes by again */
		call(ALGO_PEEK, 1, back + 2 * NS_PER_S);
		assert_int_equal(state.out.remaining, 10);
		assert_int_equal(admitted(20, NOW + 5 * NS_PER_S), 10);
	}
}

static void clocks_up_to_a_day_apart_share_one_quota(void **unused)
{
	static const uint64_t lags[] = {1, 3600, 86400};

	(void)unused;
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_LOG; a++)
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
			begin(WEIR_SLIDING_WINDOW, 10, NS_PER_S, 10);
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

/* Nor the slot of a head that is sealed, and of which the row knows already. */
static void a_lagging_clock_goes_on_behind_a_sealed_head(void **unused)
{
	(void)unused;
	for (unsigned wants = 1; wants <= 2; wants++) {
		begin(WEIR_SLIDING_WINDOW, 10, NS_PER_S, 10);
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
	begin(WEIR_SLIDING_WINDOW, 100, NS_PER_S, 10);
	for (unsigned i = 0; i < 10; i++, now_ns += NS_PER_S / 10)
		admitted(2, now_ns);
	now_ns -= NS_PER_S / 10;
	for (unsigned i = 0; i < 4; i++) {
		again(WEIR_SLIDING_WINDOW, 100, NS_PER_S, slots[i]);
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
	begin(WEIR_SLIDING_WINDOW, 10, NS_PER_S, 10);
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

static uint64_t take(uint64_t cost, uint64_t now_ns)
{
	assert_true(call(ALGO_ACQUIRE, cost, now_ns));
	return state.until_ns;
}

static uint64_t give_back(uint64_t cost, uint64_t until_ns, uint64_t now_ns)
{
	assert_true(call_until(ALGO_REFUND, cost, until_ns, now_ns, 100));
	return state.limit.quota - state.out.remaining;
}

/* Twice; into a later entry; of one that is over: all of the same instant, too. */
static void a_refund_from_a_log_takes_out_its_entry_or_nothing(void **unused)
{
	uint64_t names[5], later_ns = NOW + NS_PER_S / 2;

	(void)unused;
	for (unsigned apart = 0; apart < 2; apart++) {
		begin(WEIR_SLIDING_LOG, 20, NS_PER_S, 0);
		for (unsigned i = 0; i < 5; i++)
			names[i] = take(i + 1, NOW + apart * i * NS_PER_S / 10);
		assert_int_equal(give_back(2, names[1], later_ns), 13);
		assert_int_equal(give_back(2, names[1], later_ns), 13);
		assert_int_equal(give_back(5, names[4], later_ns), 8);
		assert_int_equal(give_back(5, names[4], later_ns), 8);
		assert_int_equal(give_back(2, names[2], later_ns), 8); /* whole or not */
		assert_int_equal(give_back(3, names[2] + 1000, later_ns), 8);
		take(7, later_ns);
		assert_int_equal(give_back(1, names[0], later_ns), 14);
		assert_int_equal(give_back(1, names[0], NOW + NS_PER_S), apart ? 14 : 7);
		assert_int_equal(give_back(4, names[3], NOW + NS_PER_S), apart ? 10 : 7);
		assert_int_equal(admitted(30, later_ns + NS_PER_S - 1), 13);
		call(ALGO_PEEK, 1, later_ns + NS_PER_S);
		assert_int_equal(state.out.remaining, 7);
		assert_int_equal(give_back(7, later_ns + NS_PER_S, later_ns + NS_PER_S), 13);
	}
}

/* An instant's entries are over with it, whatever their names are. */
static void entries_of_one_instant_have_names_of_their_own_and_end_together(void **unused)
{
	uint64_t name = 0;

	(void)unused;
	begin(WEIR_SLIDING_LOG, 100, NS_PER_S, 0);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t next = take(1, NOW);

		assert_true(next > name);
		name = next;
	}
	assert_int_equal(admitted(200, NOW + NS_PER_S - 1), 0);
	assert_int_equal(state.out.retry_after_ns, 1);
	call(ALGO_PEEK, 1, NOW + NS_PER_S);
	assert_int_equal(state.out.remaining, 100);
	assert_int_equal(state.out.reset_after_ns, 0);
	assert_int_equal(admitted(200, NOW + NS_PER_S), 100);
	begin(WEIR_SLIDING_LOG, 1, NS_PER_S, 0); /* nor are they used again */
	name = take(1, NOW);
	give_back(1, name, NOW);
	assert_int_not_equal(take(1, NOW), name);
	assert_int_equal(give_back(1, name, NOW), 1);
	call(ALGO_RESET, 0, NOW);
	assert_true(take(1, NOW) > name + 1);
}

/* As times in whole seconds have it: all that came with one tick is out when that is over. */
static void long_logs_end_with_their_ticks(void **unused)
{
	static const uint64_t counts[] = {128, 200, 1000, 10000};

	(void)unused;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t tick_ns = i & 1 ? NS_PER_S : NS_PER_MS, end_ns = NOW + 60 * tick_ns, first, middle;
		unsigned count = (unsigned)counts[i / 2];

		begin(WEIR_SLIDING_LOG, count, 60 * tick_ns, 0);
		take(1, NOW - 7 * tick_ns); /* all of it given back, so that nothing of it tells */
		call(ALGO_REFUND, 1, NOW - 7 * tick_ns);
		first = take(1, NOW);
		middle = take(1, NOW);
		take(1, NOW);
		give_back(1, first, NOW);
		give_back(1, middle, NOW);
		assert_int_equal(admitted(count, NOW), count - 1);
		assert_int_equal(state.out.retry_after_ns, 60 * tick_ns);
		assert_int_equal(state.out.reset_after_ns, 60 * tick_ns);
		assert_int_equal(admitted(1, end_ns - 1), 0);
		assert_int_equal(state.out.retry_after_ns, 1);
		assert_int_equal(admitted(count + 1, end_ns), count);
		call(ALGO_RESET, 0, end_ns);
		first = take(1, end_ns);
		take(1, end_ns);
		give_back(1, first, end_ns);
		assert_int_equal(state.out.reset_after_ns, 60 * tick_ns);
		call(ALGO_PEEK, 1, end_ns + 60 * tick_ns);
		assert_int_equal(state.out.remaining, count);
	}
}

/* Others wait for their room, which they would not have had anyway; none get more. */
static void a_refund_that_died_anywhere_gives_nothing_twice(void **unused)
{
	(void)unused;
	for (unsigned wants = 0; wants < 16; wants++) {
		uint64_t names[4], later_ns = NOW + NS_PER_S / 2;

		begin(WEIR_SLIDING_LOG, 11, NS_PER_S, 0);
		for (unsigned i = 0; i < 4; i++)
			names[i] = take(i + 1, NOW + i * NS_PER_MS);
		call_until(ALGO_REFUND, 1, names[0], later_ns, wants);
		assert_in_range(give_back(1, names[0], later_ns), 9, 10);
		assert_in_range(give_back(2, names[1], later_ns), 7, 8);
		assert_int_equal(give_back(3, names[2], later_ns) + admitted(20, later_ns), 11);
		assert_in_range(give_back(1, names[0], later_ns), 11, 11);
		assert_in_range(give_back(4, names[3], later_ns), 7, 7);
		call(ALGO_PEEK, 1, NOW + NS_PER_S + 3 * NS_PER_MS); /* what was lost ends with the newest */
		assert_in_range(state.out.remaining, 4, 5);
		assert_int_equal(admitted(20, later_ns + NS_PER_S), 11);
	}
}

/* What the head says of the slots before it may be too much, until the next refund or slot. */
static void a_refund_that_died_in_the_row_is_completed_by_the_next(void **unused)
{
	uint64_t first, now_ns = NOW + NS_PER_S / 10;

	(void)unused;
	for (unsigned refund = 0; refund < 2; refund++) {
		begin(WEIR_SLIDING_WINDOW, 10, NS_PER_S, 10);
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

/* The head's word has another form from 2^16 on. */
static void a_count_that_crosses_2_to_the_16_keeps_all_use(void **unused)
{
	uint64_t now_ns = NOW;

	(void)unused;
	for (enum weir_algorithm a = WEIR_SLIDING_WINDOW; a <= WEIR_SLIDING_COUNTER;
	     a += WEIR_SLIDING_COUNTER - WEIR_SLIDING_WINDOW) {
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

/* As a wider row of the same key leaves it, and more than there may be now. */
static void a_log_that_takes_over_use_keeps_it(void **unused)
{
	(void)unused;
	begin(WEIR_SLIDING_LOG, 100, NS_PER_S, 0);
	for (unsigned used = 50; used <= 150; used += 100) {
		state.head = cell_make(TAG, NOW + NS_PER_S, used - 1, ALGO_MOVED);
		assert_true(call_until(ALGO_PEEK, 60, 0, NOW, 0)); /* denied, it writes nothing */
		for (unsigned i = 0; i < 2; i++) {
			assert_false(call(ALGO_ACQUIRE, 60, NOW));
			assert_int_equal(state.out.remaining, used > 100 ? 0 : 50);
		}
		state.head = cell_make(TAG, NOW + NS_PER_S, used - 1, ALGO_MOVED);
		call(ALGO_REFUND, 10, NOW);
		assert_int_equal(state.out.remaining, used > 100 ? 10 : 60);
	}
}

static void a_limit_cut_below_its_use_in_the_slot_has_no_room(void **unused)
{
	(void)unused;
	begin(WEIR_SLIDING_WINDOW, 10, NS_PER_S, 10);
	admitted(8, NOW);
	again(WEIR_SLIDING_WINDOW, 6, NS_PER_S, 10);
	assert_false(call(ALGO_ACQUIRE, 1, NOW));
	assert_int_equal(state.out.remaining, 0);
}

static void all_of_2_to_the_32_fits_in_a_slot(void **unused)
{
	(void)unused;
	begin(WEIR_SLIDING_WINDOW, UINT64_C(1) << 32, NS_PER_S, 10);
	assert_true(call(ALGO_ACQUIRE, UINT64_C(1) << 32, NOW));
	assert_false(call(ALGO_ACQUIRE, 1, NOW + NS_PER_S - 1));
	call(ALGO_REFUND, 1, NOW + NS_PER_S - 1);
	assert_int_equal(admitted(2, NOW + NS_PER_S - 1), 1);
	assert_int_equal(state.out.retry_after_ns, 1);
	begin(WEIR_SLIDING_WINDOW, UINT64_C(1) << 32, NS_PER_S, 10); /* in an open head */
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
	    cmocka_unit_test(what_a_dead_writer_left_is_completed_by_the_next),
	    cmocka_unit_test(a_denial_or_peek_wants_nothing_whatever_the_head),
	    cmocka_unit_test(what_another_key_left_in_a_row_says_nothing),
	    cmocka_unit_test(steady_excess_does_not_block_for_ever),
	    cmocka_unit_test(alternating_older_and_newer_times_mint_nothing),
	    cmocka_unit_test(a_clock_set_back_by_years_neither_frees_nor_locks_a_key),
	    cmocka_unit_test(clocks_up_to_a_day_apart_share_one_quota),
	    cmocka_unit_test(a_lagging_clock_begins_no_slot_that_a_reset_or_refund_has_ended),
	    cmocka_unit_test(a_lagging_clock_goes_on_behind_a_sealed_head),
	    cmocka_unit_test(another_number_of_slots_keeps_all_use_in_the_current_one),
	    cmocka_unit_test(a_refund_by_name_goes_to_its_slot_or_nowhere),
	    cmocka_unit_test(a_refund_that_died_in_the_row_is_completed_by_the_next),
	    cmocka_unit_test(a_count_that_crosses_2_to_the_16_keeps_all_use),
	    cmocka_unit_test(a_log_that_takes_over_use_keeps_it),
	    cmocka_unit_test(a_limit_cut_below_its_use_in_the_slot_has_no_room),
	    cmocka_unit_test(a_refund_from_a_log_takes_out_its_entry_or_nothing),
	    cmocka_unit_test(entries_of_one_instant_have_names_of_their_own_and_end_together),
	    cmocka_unit_test(long_logs_end_with_their_ticks),
	    cmocka_unit_test(a_refund_that_died_anywhere_gives_nothing_twice),
	    cmocka_unit_test(all_of_2_to_the_32_fits_in_a_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
