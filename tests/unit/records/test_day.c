/*
 * Tests `base` step by step, in virtual time: with callers whose reads and writes meet in every
 * order, and with callers that crash between two writes.
 *
 * WEIR_TEST_SEED=N replays the random ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "records/record.h"

#define DAY    (UINT64_C(19675) * NS_PER_DAY) /* a midnight */
#define NOON   (DAY + NS_PER_DAY / 2)
#define PERIOD (5 * NS_PER_S)
#define TAG    7
#define CELLS  12

struct state {
	struct cell header, record[CELLS];
};

static struct algo_limit limit;
static struct state state;
static struct algo_decision out;
static uint64_t name_ns;                   /* that the last call left */
static uint64_t first_day_ns = NS_PER_DAY; /* how long DAY is */

/* The same key's, from now on. */
static void become(uint64_t base, uint64_t count)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_BASE,
	                                     .base = base,
	                                     .rate = {count, PERIOD, WEIR_UNIT_NANOSECOND}};

	algo_limit_free(&limit);
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
}

static void begin(uint64_t base, uint64_t count)
{
	state = (struct state){0};
	become(base, count);
}

static struct algo_time at(uint64_t now_ns)
{
	if (now_ns >= DAY && now_ns < DAY + first_day_ns)
		return (struct algo_time){now_ns, DAY + first_day_ns};
	return (struct algo_time){now_ns, (now_ns / NS_PER_DAY + 1) * NS_PER_DAY};
}

static void step(struct state *on, const struct algo_call *call, uint64_t now_ns,
                 struct cell header, struct algo_decision *to, struct record_change *change)
{
	struct record record = {on->record, CELLS, TAG, true};
	struct algo_time time = at(now_ns);
	struct record_step wanted = {&limit, call, now_ns, time.window_end_ns, header, &record};

	record_decide(&wanted, to, change);
}

/* Runs a call in a process that dies after `wants` changes. */
static bool call_until(enum algo_op op, uint64_t cost, uint64_t until_ns, uint64_t now_ns,
                       unsigned wants)
{
	struct algo_call call = {.op = op, .cost = cost, .until_ns = until_ns};

	for (;; wants--) {
		struct record_change change;

		step(&state, &call, now_ns, state.header, &out, &change);
		if (change.want == RECORD_WANT_NOTHING)
			return true;
		if (wants == 0)
			return false;
		if (change.want == RECORD_WANT_CELL) {
			state.record[change.index] = change.after;
			continue;
		}
		state.header = change.header;
		name_ns = change.unit_name_ns ? change.unit_name_ns
		                              : now_ns + (uint64_t)cell_ahead_ns(change.header, now_ns);
		if (change.is_final)
			return true;
	}
}

static bool call(enum algo_op op, uint64_t cost, uint64_t now_ns)
{
	assert_true(call_until(op, cost, 0, now_ns, 9));
	return out.allowed;
}

static uint64_t remaining(uint64_t now_ns)
{
	call(ALGO_PEEK, 1, now_ns);
	return out.remaining;
}

static unsigned admitted(unsigned n, uint64_t now_ns)
{
	unsigned allowed = 0;

	while (n-- > 0)
		allowed += call(ALGO_ACQUIRE, 1, now_ns);
	return allowed;
}

static void the_unit_that_reaches_base_counts_in_the_window_too(void **unused)
{
	(void)unused;
	begin(3, 1);
	assert_int_equal(admitted(9, NOON), 3);
	assert_int_equal(out.retry_after_ns, PERIOD);
	assert_int_equal(out.reset_after_ns, NS_PER_DAY / 2);
	assert_int_equal(admitted(9, NOON + PERIOD - 1), 0);
	assert_int_equal(admitted(9, NOON + PERIOD), 1);
	assert_int_equal(admitted(9, NOON + 3 * PERIOD), 1);
	begin(1, 2); /* no unit is free */
	assert_int_equal(admitted(9, NOON), 2);
	assert_int_equal(out.reset_after_ns, PERIOD);
	assert_int_equal(remaining(NOON + PERIOD), 2);
	assert_int_equal(admitted(9, DAY + NS_PER_DAY - 1), 2);
	assert_int_equal(out.reset_after_ns, 1);
	call(ALGO_RESET, 0, DAY + NS_PER_DAY - 1);
	assert_int_equal(remaining(DAY + NS_PER_DAY - 1), 2);
}

static void a_window_ends_with_its_day(void **unused)
{
	uint64_t late_ns = DAY + NS_PER_DAY - NS_PER_S;

	(void)unused;
	begin(3, 2);
	assert_int_equal(admitted(9, late_ns), 4);
	assert_int_equal(out.retry_after_ns, NS_PER_S);
	assert_int_equal(admitted(9, late_ns + NS_PER_S - 1), 0);
	/* Yesterday's would last four seconds more. */
	assert_int_equal(admitted(9, late_ns + NS_PER_S), 4);
	assert_int_equal(out.retry_after_ns, PERIOD);
	/* Only the next day has room for this. */
	assert_false(call(ALGO_PEEK, 3, late_ns + 9 * NS_PER_S));
	assert_int_equal(out.retry_after_ns, NS_PER_DAY - 8 * NS_PER_S);
}

static void a_crash_between_the_writes_leaves_a_window_without_units(void **unused)
{
	(void)unused;
	for (unsigned later = 0; later < 2; later++) { /* the day's first window, and a later one */
		uint64_t now_ns = NOON + PERIOD, free = later ? 0 : 2;

		begin(4, 2);
		assert_int_equal(admitted(later ? 5 : 1, NOON), later ? 5 : 1);
		assert_false(call_until(ALGO_ACQUIRE, free + 2, 0, now_ns, 1));
		assert_int_equal(cell_ahead_ns(state.record[later ? 2 : 1], now_ns), PERIOD);
		assert_int_equal(remaining(now_ns), free + 2);
		assert_int_equal(admitted(9, now_ns + NS_PER_S), free + 2);
		assert_int_equal(out.retry_after_ns, PERIOD);
		assert_int_equal(admitted(9, now_ns + NS_PER_S + PERIOD), 2);
	}
}

static void a_new_key_gets_its_header_before_its_window(void **unused)
{
	(void)unused;
	begin(1, 1);
	assert_false(call_until(ALGO_ACQUIRE, 1, 0, NOON, 1));
	for (unsigned i = 0; i < CELLS; i++) /* whose is it? */
		assert_true(cell_is_empty(state.record[i]));
	assert_int_equal(remaining(NOON), 1);
	assert_int_equal(out.reset_after_ns, 0);
	assert_int_equal(admitted(9, NOON + 1), 1);
}

/* ---- callers that meet ---- */

#define CALLERS 3

/* One of those that are deciding at the same time, between two of its reads and writes. */
struct caller {
	struct algo_call call;
	uint64_t now_ns;
	enum { READ, STEP, LOOK, SWAP, DONE } next;
	struct cell header;
	struct record_change change;
	struct algo_decision out;
};

struct meeting {
	struct state state;
	struct caller callers[CALLERS];
	unsigned n, moves;
};

static bool same(struct cell a, struct cell b)
{
	return cell_bits(a) == cell_bits(b);
}

/* As store/wide/apply_record.c does it: whatever happens in between, it happens in one of these
 * gaps. */
static void move(struct state *on, struct caller *caller)
{
	const struct record_change *change = &caller->change;

	switch (caller->next) {
	case READ:
		caller->header = on->header;
		caller->next = STEP;
		break;
	case STEP:
		step(on, &caller->call, caller->now_ns, caller->header, &caller->out, &caller->change);
		caller->next = change->want == RECORD_WANT_HEADER ? SWAP : LOOK;
		break;
	case LOOK:
		caller->next = !same(on->header, caller->header)     ? READ
		               : change->want == RECORD_WANT_NOTHING ? DONE
		                                                     : SWAP;
		break;
	case SWAP:
		caller->next = READ;
		if (change->want == RECORD_WANT_CELL) {
			if (same(on->record[change->index], change->before))
				on->record[change->index] = change->after;
		} else if (same(on->header, caller->header)) {
			on->header = change->header;
			caller->next = change->is_final ? DONE : READ;
		}
		break;
	case DONE:
		break;
	}
}

/* Within a window all that was granted, less refunds, is in use, and no more than the quota. */
static void check(const struct meeting *m, uint64_t used, uint64_t opened_ns, uint64_t latest_ns)
{
	const struct caller *reset = NULL;

	for (unsigned i = 0; i < m->n; i++) {
		const struct caller *caller = &m->callers[i];

		if (caller->call.op == ALGO_ACQUIRE && caller->out.allowed)
			used += caller->call.cost;
		if (caller->call.op == ALGO_REFUND)
			used -= caller->call.cost;
		if (caller->call.op == ALGO_RESET)
			reset = caller;
	}
	state = m->state;
	if (reset) {
		assert_true(limit.quota - remaining(latest_ns) <= used);
		return;
	}
	assert_true(used <= limit.quota);
	assert_int_equal(remaining(latest_ns), limit.quota - used);
	if (used == limit.quota) {
		call(ALGO_PEEK, 1, latest_ns);
		assert_in_range(latest_ns + out.retry_after_ns, opened_ns + PERIOD, latest_ns + PERIOD);
	}
}

struct scene {
	uint64_t used, opened_ns, latest_ns;
};

static void in_every_order(const struct meeting *m, const struct scene *scene, unsigned *orders)
{
	bool done = true;

	for (unsigned i = 0; i < m->n; i++) {
		struct meeting next = *m;

		if (m->callers[i].next == DONE)
			continue;
		done = false;
		move(&next.state, &next.callers[i]);
		assert_true(++next.moves < 40); /* nobody keeps others from getting on */
		in_every_order(&next, scene, orders);
	}
	if (done) {
		check(m, scene->used, scene->opened_ns, scene->latest_ns);
		++*orders;
	}
}

static void in_some_orders(const struct meeting *m, const struct scene *scene, unsigned orders,
                           unsigned short seed[3])
{
	while (orders-- > 0) {
		struct meeting next = *m;
		unsigned done = 0;

		for (unsigned i = 0; i < m->n; i++)
			next.callers[i].next = READ;
		while (done < m->n) {
			struct caller *caller = &next.callers[(unsigned long)nrand48(seed) % m->n];
			/* one may stall while the others go on */
			unsigned moves = (unsigned)nrand48(seed) % 6;

			while (moves-- > 0 && caller->next != DONE) {
				move(&next.state, caller);
				done += caller->next == DONE;
			}
		}
		check(&next, scene->used, scene->opened_ns, scene->latest_ns);
	}
}

static struct caller caller(enum algo_op op, uint64_t cost, uint64_t now_ns)
{
	return (struct caller){.call = {.op = op, .cost = cost}, .now_ns = now_ns};
}

/*
 * Two and three who reach base at once, or open the next window, of different costs and by
 * clocks that differ, while another gives back or forgets all.
 */
static void in_every_order_of_writes_nothing_is_lost_or_granted_twice(void **unused)
{
	static const uint64_t lags[][2] = {{0, 0}, {NS_PER_S, 0}, {0, NS_PER_S}};
	const char *given = getenv("WEIR_TEST_SEED");
	unsigned seeded = given ? (unsigned)atoi(given) : (unsigned)time(NULL), orders = 0;
	unsigned short seed[3] = {(unsigned short)seeded, 1, 2};

	(void)unused;
	print_message("WEIR_TEST_SEED=%u\n", seeded);
	for (unsigned i = 0; i < 3 * 2 * 2 * 4; i++) {
		const uint64_t *lag = lags[i % 3];
		bool later = i / 3 % 2, three = i / 6 % 2;
		enum algo_op op = i / 12 == 3 ? ALGO_ACQUIRE : (enum algo_op)(i / 12);
		struct scene scene = {.used = 3, .opened_ns = NOON, .latest_ns = NOON + NS_PER_S};
		struct meeting m = {.n = three ? 3 : 2};

		if (op == ALGO_PEEK)
			continue;
		begin(4, 3);
		if (later) { /* a window that is over, and another to come */
			assert_int_equal(admitted(9, NOON - PERIOD), 6);
			call(ALGO_REFUND, 1, NOON - PERIOD);
		} else {
			admitted(2, NOON - NS_PER_S);
			scene.used = 2;
		}
		m.state = state;
		m.callers[0] = caller(ALGO_ACQUIRE, 2, NOON + lag[0]);
		m.callers[1] = caller(op, i / 12 == 3 ? 1 : 2, NOON + lag[1]);
		m.callers[2] = caller(ALGO_ACQUIRE, 1, NOON + lag[0] / 2);
		if (three)
			in_some_orders(&m, &scene, 20000, seed);
		else
			in_every_order(&m, &scene, &orders);
	}
	assert_true(orders > 10000);
}

/* ---- traps ---- */

static void a_lagging_clock_ends_no_window_early(void **unused)
{
	struct algo_call acquire = {.op = ALGO_ACQUIRE, .cost = 1};
	struct record_change change;
	struct algo_decision ignored;

	(void)unused;
	begin(2, 1);
	admitted(1, NOON);
	/* It has read everything an hour ago, and now that another has written but not opened. */
	assert_false(call_until(ALGO_ACQUIRE, 1, 0, NOON + 3600 * NS_PER_S, 1));
	step(&state, &acquire, NOON, state.header, &ignored, &change);
	assert_int_equal(change.want, RECORD_WANT_HEADER);
	assert_int_equal(change.unit_name_ns, NOON + 3600 * NS_PER_S + PERIOD);
}

static void a_clock_set_back_by_days_neither_frees_nor_locks_a_key(void **unused)
{
	uint64_t back_ns = NOON - 3 * NS_PER_DAY;

	(void)unused;
	begin(3, 1);
	admitted(3, NOON);
	assert_true(call_until(ALGO_PEEK, 1, 0, back_ns, 0)); /* it writes nothing */
	assert_int_equal(out.remaining, 0);
	assert_false(call(ALGO_ACQUIRE, 1, back_ns));
	assert_int_equal(remaining(back_ns + NS_PER_DAY / 2), 3);
	assert_false(call(ALGO_ACQUIRE, 1, back_ns));
	assert_int_equal(out.retry_after_ns, PERIOD);
	assert_int_equal(admitted(2, back_ns + PERIOD), 1);
	assert_int_equal(out.reset_after_ns, NS_PER_DAY / 2 - PERIOD);
	assert_int_equal(admitted(9, back_ns + NS_PER_DAY / 2), 3);
	begin(3, 2); /* the same when there is something left to take */
	admitted(3, NOON);
	assert_int_equal(admitted(1, back_ns), 1);
	assert_int_equal(admitted(9, back_ns + PERIOD), 2);
}

static void a_window_that_a_clock_since_set_back_prepared_lasts_no_longer(void **unused)
{
	(void)unused;
	begin(1, 1);
	/* Dies before it has opened it, and so nobody has seen it. */
	assert_false(call_until(ALGO_ACQUIRE, 1, 0, NOON + 3 * NS_PER_DAY, 2));
	assert_true(call(ALGO_ACQUIRE, 1, NOON));
	assert_int_equal(name_ns, NOON + PERIOD);
}

/* The window's units are the first of those that are free now, and the other way round. */
static void another_base_keeps_all_use(void **unused)
{
	(void)unused;
	begin(3, 2);
	admitted(3, NOON);
	become(5, 2);
	assert_int_equal(remaining(NOON), 3);
	for (unsigned left = 3; left-- > 0;) {
		assert_int_equal(admitted(1, NOON), 1);
		assert_int_equal(remaining(NOON), left);
	}
	assert_int_equal(remaining(NOON + PERIOD), 2);

	begin(3, 4);
	admitted(6, NOON);
	become(4, 4);
	assert_int_equal(admitted(9, NOON), 1);
	assert_int_equal(remaining(NOON + PERIOD), 4);

	begin(5, 2);
	admitted(6, NOON);
	become(3, 2);
	assert_int_equal(remaining(NOON), 0);
	assert_int_equal(admitted(9, NOON + PERIOD), 2);
	become(6, 2); /* four that were free units, and the two of the window */
	assert_int_equal(remaining(NOON + PERIOD), 1);
	call(ALGO_REFUND, 1, NOON + PERIOD);
	assert_int_equal(remaining(NOON + 2 * PERIOD), 2);
}

static void cells_of_another_key_are_ignored(void **unused)
{
	(void)unused;
	begin(3, 2);
	for (unsigned i = 0; i < CELLS; i++)
		state.record[i] = cell_make(TAG + 1, NOON + 2 * PERIOD, 9, 0);
	assert_int_equal(admitted(9, NOON), 4);
	assert_int_equal(out.retry_after_ns, PERIOD);
	for (unsigned i = 0; i < CELLS; i++) /* nor does it in a damaged file */
		state.record[i] = cell_make(TAG + 1, NOON + 2 * PERIOD, 2, 0);
	assert_int_equal(remaining(NOON), 2);
}

static void clocks_on_both_sides_of_midnight_share_one_quota(void **unused)
{
	(void)unused;
	for (unsigned hours = 23; hours <= 25; hours++) {
		first_day_ns = hours * 3600 * NS_PER_S;
		begin(3, 1);
		assert_int_equal(admitted(2, DAY), 2);
		assert_int_equal(admitted(9, DAY - 1), 1);
		assert_int_equal(admitted(9, DAY), 0);
		assert_int_equal(out.reset_after_ns, first_day_ns);
	}
	first_day_ns = NS_PER_DAY;
}

static void a_refund_by_name_goes_to_its_day_or_its_window_or_nowhere(void **unused)
{
	uint64_t day_ns, window_ns, next_ns = NOON + PERIOD;

	(void)unused;
	begin(3, 2);
	call(ALGO_ACQUIRE, 1, NOON);
	day_ns = name_ns;
	call(ALGO_ACQUIRE, 3, NOON); /* which reaches base */
	window_ns = name_ns;
	assert_int_equal(window_ns, next_ns);
	call_until(ALGO_REFUND, 1, DAY + NS_PER_DAY + 1, NOON, 9);
	assert_int_equal(out.remaining, 0);
	call_until(ALGO_REFUND, 3, window_ns, NOON, 9);
	assert_int_equal(out.remaining, 3);
	assert_int_equal(admitted(9, NOON), 3);
	assert_int_equal(admitted(1, next_ns), 1);
	call_until(ALGO_REFUND, 1, window_ns, next_ns, 9); /* it is over */
	assert_int_equal(out.remaining, 1);
	call_until(ALGO_REFUND, 1, day_ns, next_ns, 9);
	assert_int_equal(out.remaining, 2);
	call_until(ALGO_REFUND, 1, day_ns, next_ns, 9); /* one less than free units is below base */
	assert_int_equal(out.remaining, 3);
	assert_int_equal(admitted(9, DAY + NS_PER_DAY), 4);
	call_until(ALGO_REFUND, 1, day_ns, DAY + NS_PER_DAY, 9);
	assert_int_equal(out.remaining, 0);
}

/* Once the first permit is back, the unit that a window counted is the one that is free. */
static void permits_are_refunded_in_any_order(void **unused)
{
	uint64_t day_ns, window_ns, next_ns = NOON + PERIOD, late_ns = DAY + NS_PER_DAY - NS_PER_S;

	(void)unused;
	begin(2, 4);
	call(ALGO_ACQUIRE, 1, NOON);
	day_ns = name_ns;
	call(ALGO_ACQUIRE, 1, NOON);
	window_ns = name_ns;
	call_until(ALGO_REFUND, 1, day_ns, NOON, 9);
	call_until(ALGO_REFUND, 1, window_ns, NOON, 9);
	assert_int_equal(out.remaining, 5);

	/* The window of another request is open by then. */
	assert_int_equal(admitted(2, NOON), 2);
	call_until(ALGO_REFUND, 1, day_ns, NOON, 9);
	assert_int_equal(admitted(1, NOON + 1), 1);
	assert_int_equal(name_ns, next_ns + 1);
	call_until(ALGO_REFUND, 1, next_ns, NOON + 1, 9);
	call_until(ALGO_REFUND, 1, next_ns + 1, NOON + 1, 9);
	assert_int_equal(out.remaining, 5);

	/* A window's units end with its day. */
	assert_int_equal(admitted(2, late_ns), 2);
	assert_int_equal(name_ns, DAY + NS_PER_DAY);
	assert_int_equal(admitted(1, DAY + NS_PER_DAY), 1);
	call_until(ALGO_REFUND, 1, name_ns - NS_PER_DAY, DAY + NS_PER_DAY, 9);
	assert_int_equal(out.remaining, 4);
	/* A clock that lags behind midnight takes nothing of yesterday's from today's. */
	call_until(ALGO_REFUND, 1, name_ns - NS_PER_DAY, DAY + NS_PER_DAY - 1, 9);
	assert_int_equal(out.remaining, 4);
}

static void all_of_2_to_the_32_fits(void **unused)
{
	static const uint64_t bases[] = {1, 2, UINT64_C(1) << 31, UINT64_C(1) << 32};

	(void)unused;
	for (unsigned i = 0; i < 4; i++) {
		begin(bases[i], (UINT64_C(1) << 32) - bases[i] + 1);
		assert_int_equal(limit.quota, UINT64_C(1) << 32);
		assert_true(call(ALGO_ACQUIRE, limit.quota, NOON));
		assert_false(call(ALGO_ACQUIRE, 1, NOON + PERIOD - 1));
		call(ALGO_REFUND, limit.quota - 1, NOON);
		assert_int_equal(out.remaining, limit.quota - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_unit_that_reaches_base_counts_in_the_window_too),
	    cmocka_unit_test(a_window_ends_with_its_day),
	    cmocka_unit_test(a_crash_between_the_writes_leaves_a_window_without_units),
	    cmocka_unit_test(a_new_key_gets_its_header_before_its_window),
	    cmocka_unit_test(in_every_order_of_writes_nothing_is_lost_or_granted_twice),
	    cmocka_unit_test(a_lagging_clock_ends_no_window_early),
	    cmocka_unit_test(a_clock_set_back_by_days_neither_frees_nor_locks_a_key),
	    cmocka_unit_test(a_window_that_a_clock_since_set_back_prepared_lasts_no_longer),
	    cmocka_unit_test(another_base_keeps_all_use),
	    cmocka_unit_test(cells_of_another_key_are_ignored),
	    cmocka_unit_test(clocks_on_both_sides_of_midnight_share_one_quota),
	    cmocka_unit_test(a_refund_by_name_goes_to_its_day_or_its_window_or_nowhere),
	    cmocka_unit_test(permits_are_refunded_in_any_order),
	    cmocka_unit_test(all_of_2_to_the_32_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
