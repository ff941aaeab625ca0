/*
 * call_in_flight.c: the loop in which permits and their reports meet on what may be in flight.
 *
 * rows/flying.h keeps it in cells, each of which changes by itself. An acquire makes the head such
 * that it keeps the row, adds its permit to the flights by one swap, on the very number that it
 * has checked, and looks whether the head still keeps the row. A report takes the permit off, tells
 * the estimator, and lets go of the row when none is left in flight. docs/design/ says
 * what a process leaves that dies in between.
 *
 * A key may have rows in former tables of its limit, too: permits from there are in flight until
 * they end, and are reported there.
 */
#include "rows/flying.h"

#include "base/prng.h"
#include "base/os/cpu.h"
#include "base/os/fence.h"
#include "store/wide/held.h"

/* Kept out of the way of an acquire and its report, with the looks that it has on the stack. */
#define RARE __attribute__((noinline, cold))

/* A key as one call reads it. */
struct flown {
	struct held held;
	enum flying_head head;   /* of the newest row */
	struct flying_look seen; /* in that row */
	uint64_t others;         /* in flight in the others */
	uint32_t cpu;
	struct headroom_limits limits;
};

/* Without cells unless the head says that they are the key's. */
static void look_at(const struct flown *flown, const struct wide_state *state, enum flying_head head,
                    struct flying_look *look)
{
	const struct row none = {.tag = state->at.row.tag};

	flying_look(flown->held.limit, flown->held.now_ns, state->at.head,
	            head == FLYING_OPEN ? &state->at.row : &none, look);
}

static uint64_t in_flight(const struct flown *flown)
{
	return flown->seen.in_flight + flown->others;
}

/* Takes over a former row's estimate, where the newest has none, and the flights there. */
RARE static void look_back(struct flown *flown)
{
	for (size_t i = 1; i < flown->held.count; i++) {
		struct wide_state *former = &flown->held.rows[i];
		enum flying_head head = flying_head_of(flown->held.limit, &former->at, flown->held.now_ns);
		struct flying_look look;

		look_at(flown, former, head, &look);
		flown->others += look.in_flight;
		if (head == FLYING_OPEN && flown->head != FLYING_OPEN && flown->seen.estimate[0].high == 0 &&
		    flown->seen.estimate[0].low == 0)
			flown->seen.estimate[0] = look.estimate[0];
	}
}

static void look(struct flown *flown)
{
	held_find(&flown->held);
	flown->head = flying_head_of(flown->held.limit, &flown->held.rows[0].at, flown->held.now_ns);
	look_at(flown, &flown->held.rows[0], flown->head, &flown->seen);
	flown->others = 0;
	if (flown->held.count > 1)
		look_back(flown);
}

/* Tells the estimator of a report, step by step; others may be at it. */
static void learn(struct flown *flown, struct estimate_report *report)
{
	struct estimate_change change = {.last = false};

	if (estimate_needs_draw(flown->held.limit->flying.method))
		report->sample.draw = (uint16_t)prng_next();
	while (!change.last && flown->head == FLYING_OPEN &&
	       estimate_step(&flown->held.limit->flying, flown->seen.estimate, report, &change)) {
		if (!flying_learn(&flown->held.rows[0].at, &flown->seen, &change)) {
			change.counts = change.last = false;
			look(flown);
		}
		report->counted |= change.counts;
	}
}

/* Permits that nobody has reported leave, and are as one that timed out. */
RARE static void settle(struct flown *flown)
{
	struct estimate_report report = {
	    .outcome = WEIR_OUTCOME_TIMEOUT,
	    .sample = {flown->held.limit->flying.timeout_ns, in_flight(flown) + 1},
	    .window = estimate_window(&flown->held.limit->flying, flown->seen.estimate),
	    .now_ns = flown->held.now_ns};

	if (flying_settle(&flown->held.rows[0].at, &flown->seen))
		learn(flown, &report);
}

static void look_settled(struct flown *flown)
{
	for (look(flown); flown->seen.lost > 0; look(flown))
		settle(flown);
}

/* A row that has just been cleaned takes along what a former one has measured. */
RARE static void inherit(const struct flown *flown)
{
	struct estimate_change change = {.after = flown->seen.estimate[0]};
	struct flying_look none = {.kept = {{0, 0}}};

	if (flown->held.count > 1 && (change.after.high || change.after.low))
		flying_learn(&flown->held.rows[0].at, &none, &change);
}

/* Makes the head such that the row stays the key's while permits of the newest part fly. */
static enum held_kept keep(struct flown *flown)
{
	const struct algo_limit *limit = flown->held.limit;
	const struct row_state *at = &flown->held.rows[0].at;
	uint32_t tag = at->row.tag;
	uint64_t part = flown->seen.flights.part;

	if (flown->head == FLYING_NONE)
		return held_store(&flown->held, flying_void(limit, tag, flown->held.now_ns)) == HELD_NO_ROOM
		           ? HELD_NO_ROOM
		           : HELD_CHANGED;
	if (flown->head == FLYING_VOID) {
		if (flying_clean(limit, at)) {
			inherit(flown);
			held_store(&flown->held, flying_held(limit, at->head, part));
		}
		return HELD_CHANGED;
	}
	if (flying_fits(limit, at->head, tag, part))
		return HELD_KEPT;
	return held_store(&flown->held, flying_held(limit, at->head, part));
}

/*
 * No permit is in flight: others may have the row's place if they need it. If another call is at
 * the head meanwhile, it stays as it is until the newest part is over.
 */
static void let_go(struct flown *flown)
{
	struct row_state *at = &flown->held.rows[0].at;
	struct cell closing = row_released(at->head, true);

	if (flown->head != FLYING_OPEN || flown->seen.in_flight > 0 || !cell_is_pinned(at->head) ||
	    !cell_swap(at->cell, at->head, closing))
		return;
	at->head = closing;
	fence_behind_swap(); /* all see that it is closing before the second look */
	if (flying_still(at, &flown->seen)) {
		held_store(&flown->held, flying_rest(closing, flown->held.now_ns));
		return;
	}
	look(flown);
	if (flown->seen.in_flight > 0)
		keep(flown); /* else the owner of that permit does */
}

/* What the estimate that was seen lets through. */
static void set_limits(struct flown *flown)
{
	flown->cpu = flown->held.limit->cpu ? cpu_smoothed(flown->held.limit->cpu) : 0;
	flown->limits = estimate_limits(&flown->held.limit->flying, flown->seen.estimate, flown->cpu,
	                                flown->held.now_ns, flown->seen.has_priorities);
}

/* By the limits that were set. */
static void explain(const struct flown *flown, struct algo_decision *out)
{
	const struct row_state *at = &flown->held.rows[0].at;

	out->quota = flown->limits.quota;
	out->remaining = sat_sub(flown->limits.quota, in_flight(flown));
	out->reset_after_ns =
	    flown->head != FLYING_OPEN ? 0 : (uint64_t)cell_ahead_ns(at->head, flown->held.now_ns);
}

/* How the key stands by what was last seen. */
static void tell(struct flown *flown, struct algo_decision *out)
{
	set_limits(flown);
	explain(flown, out);
}

/*
 * Notes that a class asks, where priorities are in use. Returns false if the caller is to look
 * again.
 */
static bool see(const struct flown *flown, unsigned priority)
{
	struct headroom after;

	if (flown->head != FLYING_OPEN || (priority == 0 && !flown->seen.has_priorities))
		return true;
	after = flown->seen.headroom;
	if (!headroom_record_request(&after, priority, flown->held.now_ns))
		return true;
	flying_prefer(&flown->held.rows[0].at, &flown->seen, &after);
	return false;
}

/* The most that may be in flight for a class. */
static uint64_t quota_of(const struct flown *flown, unsigned priority)
{
	uint64_t quota;

	if (!flown->seen.has_priorities)
		return flown->limits.quota;
	quota = headroom_quota(&flown->seen.headroom, priority, &flown->limits);
	return u64_min(quota, u64_max(flown->limits.quota, flown->held.limit->flying.bounds.most));
}

/* Counts a request that passed or was denied for its class, unless others are faster. */
static void prefer(const struct flown *flown, unsigned priority, bool passed)
{
	struct headroom after;

	if (!flown->seen.has_priorities || flown->head != FLYING_OPEN || flown->limits.probes_all)
		return;
	after = flown->seen.headroom;
	if (passed ? headroom_record_pass(&after, priority, flown->limits.ordinary, prng_next())
	           : headroom_record_denial(&after, priority, flown->limits.ordinary, prng_next()))
		flying_prefer(&flown->held.rows[0].at, &flown->seen, &after);
}

static void refuse(struct flown *flown, bool takes, struct algo_decision *out)
{
	struct estimate_change change;

	if (takes && flown->head == FLYING_OPEN &&
	    estimate_record_denial(&flown->held.limit->flying, flown->seen.estimate, flown->cpu,
	                           flown->held.now_ns, &change))
		flying_learn(&flown->held.rows[0].at, &flown->seen, &change);
	algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, flown->held.limit->retry_ns);
	explain(flown, out);
}

/* Whether a call that looks from now on finds the permit: in the same row, which is kept. */
static bool is_kept(const struct flown *flown)
{
	const struct row_state *at = &flown->held.rows[0].at;
	struct cell head;

	fence_behind_swap(); /* all see the permit before the look at the head */
	head = row_head(at);
	return flying_fits(flown->held.limit, head, at->row.tag, flown->seen.flights.part) &&
	       flying_is_same_life(head, at->head) && held_is_newest(&flown->held);
}

static void no_room(const struct flown *flown, struct algo_decision *out)
{
	algo_decision_table_full(flown->held.limit, out);
	out->quota = flown->limits.quota;
}

/* Takes up to `n` permits of a part off a row. Returns how many. */
RARE static uint64_t take_off(struct flown *flown, struct wide_state *state, uint64_t part,
                              uint64_t n)
{
	struct flying_look look;
	uint64_t taken;

	if (!state->at.cell)
		return 0;
	do {
		enum flying_head head;

		state->at.head = row_head(&state->at);
		head = flying_head_of(flown->held.limit, &state->at, flown->held.now_ns);
		look_at(flown, state, head, &look);
		taken = head == FLYING_OPEN ? u64_min(n, flights_of(&look.flights, part)) : 0;
	} while (taken > 0 && !flying_take(&state->at, &look, part, taken));
	return taken;
}

/* Swaps the cells that were checked. Returns false if the caller is to look again. */
static bool give(struct flown *flown, uint64_t *until_ns)
{
	const struct flying_params *params = &flown->held.limit->flying;
	struct wide_state *newest = &flown->held.rows[0];
	uint64_t start_ns = flown->held.now_ns, part = flown->seen.flights.part;

	if (flying_part(params, start_ns) != part) /* the clock lags */
		start_ns = part * params->part_ns + FLYING_START_NS;
	if (!flying_give(&newest->at, &flown->seen))
		return false;
	if (!is_kept(flown)) {
		/* In another life it may have been cleaned. */
		if (flying_is_same_life(row_head(&newest->at), newest->at.head))
			take_off(flown, newest, part, 1);
		return false;
	}
	*until_ns = flying_until_ns(params, start_ns, estimate_window(params, flown->seen.estimate));
	return true;
}

static uint64_t acquire(struct flown *flown, bool takes, unsigned priority,
                        struct algo_decision *out)
{
	uint64_t until_ns = 0;

	for (;;) {
		enum held_kept kept;

		look_settled(flown);
		if (takes && !see(flown, priority))
			continue;
		set_limits(flown);
		if (in_flight(flown) >= quota_of(flown, priority)) {
			if (takes)
				prefer(flown, priority, false);
			refuse(flown, takes, out);
			return 0;
		}
		kept = takes ? keep(flown) : held_is_full(&flown->held) ? HELD_NO_ROOM : HELD_KEPT;
		if (kept == HELD_NO_ROOM) {
			no_room(flown, out);
			return 0;
		}
		if (!takes) {
			explain(flown, out);
			return 0;
		}
		if (kept == HELD_KEPT && give(flown, &until_ns)) {
			prefer(flown, priority, true);
			explain(flown, out);
			return until_ns;
		}
	}
}

/*
 * Takes a permit of a part off the newest row, or else off a former one. Returns false if it is in
 * none.
 */
static bool take_off_any(struct flown *flown, uint64_t part)
{
	while (flown->head == FLYING_OPEN && flights_of(&flown->seen.flights, part) > 0) {
		if (flying_take(&flown->held.rows[0].at, &flown->seen, part, 1))
			return true;
		look(flown);
	}
	for (size_t i = 1; i < flown->held.count; i++)
		if (take_off(flown, &flown->held.rows[i], part, 1)) {
			look(flown);
			return true;
		}
	return false;
}

/* A report of one permit. Returns false if it is not in flight. */
static bool land(struct flown *flown, const struct algo_call *call)
{
	const struct flying_params *params = &flown->held.limit->flying;
	uint64_t until_ns = call->until_ns, start_ns = flying_start_ns(params, until_ns);
	bool counts = call->op == ALGO_REPORT;
	struct estimate_report report = {
	    .outcome = counts ? call->outcome : WEIR_OUTCOME_IGNORED,
	    .sample = {call->latency_ns ? call->latency_ns : sat_sub(flown->held.now_ns, start_ns),
	               in_flight(flown)},
	    .window = (uint8_t)(until_ns % FLYING_START_NS),
	    .now_ns = flown->held.now_ns};

	if (until_ns <= flown->held.now_ns || !take_off_any(flown, flying_part_of(params, start_ns)))
		return false;
	learn(flown, &report);
	return true;
}

/* Gives back up to `n` permits of the newest part that has any. Returns how many. */
RARE static uint64_t take_back(struct flown *flown, uint64_t n)
{
	unsigned newest = 0;

	look_settled(flown);
	while (newest < FLYING_PARTS && flights_given(&flown->seen.flights, newest) == 0)
		newest++;
	if (newest == FLYING_PARTS)
		return 0;
	return take_off(flown, &flown->held.rows[0], flown->seen.flights.part - newest, n);
}

/*
 * The outcome of another server's permit. Without the caller's latency there is no sample: the time
 * since the permit was given is that of two clocks.
 */
RARE static void learn_foreign(struct flown *flown, const struct algo_call *call)
{
	struct estimate_report report = {.outcome = call->outcome, .now_ns = flown->held.now_ns};

	look_settled(flown);
	if (call->outcome == WEIR_OUTCOME_IGNORED || call->latency_ns == 0)
		return;
	report.window = estimate_window(&flown->held.limit->flying, flown->seen.estimate);
	report.sample = (struct adaptive_sample){.latency_ns = call->latency_ns,
	                                         .in_flight = u64_max(in_flight(flown), 1)};
	learn(flown, &report);
}

/* Gives back a permit, or without a name the newest ones. */
static void give_back(struct flown *flown, const struct algo_call *call, struct algo_decision *out)
{
	uint64_t left = call->until_ns ? 0 : call->cost, taken;
	bool given = call->cost > 0;

	if (call->op == ALGO_COUNT) {
		learn_foreign(flown, call);
		tell(flown, out);
		return;
	}
	while (left > 0 && (taken = take_back(flown, left)) > 0)
		left -= taken;
	look_settled(flown);
	if (call->until_ns && given)
		given = land(flown, call);
	let_go(flown);
	if (algo_op_reports(call->op)) /* no report is answered with how its key stands */
		out->quota = out->remaining = out->reset_after_ns = 0;
	else
		tell(flown, out);
	out->allowed = given || call->until_ns == 0;
}

/* All that fly are forgotten with all that was measured; reports of before count no more. */
RARE static void reset(struct flown *flown, struct algo_decision *out)
{
	look(flown);
	for (size_t i = 0; i < flown->held.count; i++) {
		struct wide_state *state = &flown->held.rows[i];
		struct row_step on = {.limit = flown->held.limit, .now_ns = flown->held.now_ns};
		struct cell head = flying_spent(state->at.row.tag, flown->held.now_ns);

		while (flying_head_of(flown->held.limit, &state->at, flown->held.now_ns) != FLYING_NONE &&
		       !wide_store_head(state, &on, head))
			state->at.head = row_head(&state->at);
	}
	look(flown);
	tell(flown, out);
}

uint64_t flying_apply(const struct holder *holder, const struct algo_call *call,
                      struct algo_decision *out)
{
	struct flown flown;

	held_begin(&flown.held, holder);
	if (algo_op_requests(call->op))
		return acquire(&flown, algo_consumes(call), call->priority, out);
	if (call->op == ALGO_RESET)
		reset(&flown, out);
	else
		give_back(&flown, call, out);
	return 0;
}
