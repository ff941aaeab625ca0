/*
 * apply_in_flight.c: carries out calls on a key of an adaptive limit, which bounds the permits in
 * flight by an estimate from reported latencies: acquires, reports, refunds and resets.
 *
 * A key's *header*, its cell in a table, retains its *record*, whose cells change one by one
 * (records/in_flight.h). Time is divided into *parts*, a fifth of a permit's time each; one cell
 * counts the permits given in each part that can still be in flight. An acquire makes the header
 * retain the record, and adds its permit by one swap on the very count that it has checked. Then it
 * checks that the header still retains the record. A report takes the permit off, updates the
 * estimator, and closes the header when no permit is left. docs/design/reported-states.md says what
 * a process leaves that dies in between.
 *
 * A key may have records in former tables of its limit: permits from there are in flight until they
 * time out, and are reported there.
 */
#include "records/in_flight.h"

#include "base/prng.h"
#include "base/os/cpu.h"
#include "base/os/fence.h"
#include "store/wide/reported_key.h"

/*
 * Keeps rare functions, which have a snapshot on the stack, out of the code of acquires and
 * reports.
 */
#define RARE __attribute__((noinline, cold))

/* A key as one call reads it. */
struct in_flight_view {
	struct reported_key key;
	enum in_flight_header header;       /* of the newest table's header */
	struct in_flight_snapshot snapshot; /* of the newest table's record */
	uint64_t former_in_flight;          /* permits in flight in former tables */
	uint32_t cpu;
	struct headroom_limits limits;
};

/* Reads the record of a state. Unless the header is open, its cells are ignored. */
static void read_state(const struct in_flight_view *view, const struct wide_state *state,
                       enum in_flight_header header, struct in_flight_snapshot *snapshot)
{
	const struct record none = {.tag = state->at.record.tag};

	in_flight_read(view->key.limit, view->key.now_ns, state->at.header,
	               header == IN_FLIGHT_OPEN ? &state->at.record : &none, snapshot);
}

static uint64_t total_in_flight(const struct in_flight_view *view)
{
	return view->snapshot.in_flight + view->former_in_flight;
}

/* Adds the permits in former tables, and takes their estimate if the newest record has none. */
RARE static void read_former(struct in_flight_view *view)
{
	for (size_t i = 1; i < view->key.count; i++) {
		struct wide_state *former = &view->key.states[i];
		enum in_flight_header header =
		    in_flight_header_of(view->key.limit, &former->at, view->key.now_ns);
		struct in_flight_snapshot snapshot;

		read_state(view, former, header, &snapshot);
		view->former_in_flight += snapshot.in_flight;
		if (header == IN_FLIGHT_OPEN && view->header != IN_FLIGHT_OPEN &&
		    view->snapshot.estimate[0].high == 0 && view->snapshot.estimate[0].low == 0)
			view->snapshot.estimate[0] = snapshot.estimate[0];
	}
}

/* Reads the key in all tables of its limit. */
static void read_in_flight_view(struct in_flight_view *view)
{
	reported_key_read(&view->key);
	view->header = in_flight_header_of(view->key.limit, &view->key.states[0].at, view->key.now_ns);
	read_state(view, &view->key.states[0], view->header, &view->snapshot);
	view->former_in_flight = 0;
	if (view->key.count > 1)
		read_former(view);
}

/*
 * Updates the estimate from a report, cell by cell. Other threads may update it meanwhile. The
 * change of one cell counts the report (change.counts); once it is made, later steps must not count
 * it again.
 */
static void update_estimate(struct in_flight_view *view, struct estimate_report *report)
{
	struct estimate_change change = {.last = false};

	if (estimate_needs_draw(view->key.limit->in_flight.method))
		report->sample.draw = (uint16_t)prng_next();
	while (!change.last && view->header == IN_FLIGHT_OPEN &&
	       estimate_step(&view->key.limit->in_flight, view->snapshot.estimate, report, &change)) {
		if (!in_flight_store_estimate(&view->key.states[0].at, &view->snapshot, &change)) {
			change.counts = change.last = false;
			read_in_flight_view(view);
		}
		report->counted |= change.counts;
	}
}

/* Expires permits that were not reported in time. Together they count as one that timed out. */
RARE static void expire_timed_out(struct in_flight_view *view)
{
	struct estimate_report report = {
	    .outcome = WEIR_OUTCOME_TIMEOUT,
	    .sample = {view->key.limit->in_flight.timeout_ns, total_in_flight(view) + 1},
	    .window = estimate_window(&view->key.limit->in_flight, view->snapshot.estimate),
	    .now_ns = view->key.now_ns};

	if (in_flight_drop_timed_out(&view->key.states[0].at, &view->snapshot))
		update_estimate(view, &report);
}

/* Reads the key until a read finds no permit that has timed out. */
static void read_and_expire(struct in_flight_view *view)
{
	for (read_in_flight_view(view); view->snapshot.timed_out > 0; read_in_flight_view(view))
		expire_timed_out(view);
}

/* Gives a record that has just been cleaned the estimate of a former table. */
RARE static void inherit_estimate(const struct in_flight_view *view)
{
	struct estimate_change change = {.after = view->snapshot.estimate[0]};
	struct in_flight_snapshot none = {.estimate_stored = {{0, 0}}};

	if (view->key.count > 1 && (change.after.high || change.after.low))
		in_flight_store_estimate(&view->key.states[0].at, &none, &change);
}

/*
 * Makes the header retain the record while permits of the newest part are in flight. A new header
 * is first void, until the record's old cells are cleaned. Returns HEADER_STORED if the header
 * fits, now or before, and HEADER_CHANGED if the caller has to read the key again.
 */
static enum header_result make_header_fit(struct in_flight_view *view)
{
	const struct algo_limit *limit = view->key.limit;
	const struct record_state *at = &view->key.states[0].at;
	uint32_t tag = at->record.tag;
	uint64_t part = view->snapshot.counts.part;

	if (view->header == IN_FLIGHT_NONE) {
		enum header_result stored = reported_key_store_header(
		    &view->key, in_flight_void_header(limit, tag, view->key.now_ns));

		return stored == HEADER_NO_CAPACITY ? HEADER_NO_CAPACITY : HEADER_CHANGED;
	}
	if (view->header == IN_FLIGHT_VOID) {
		if (in_flight_clean(limit, at)) {
			inherit_estimate(view);
			reported_key_store_header(&view->key, in_flight_pinned_header(limit, at->header, part));
		}
		return HEADER_CHANGED;
	}
	if (in_flight_header_fits(limit, at->header, tag, part))
		return HEADER_STORED;
	return reported_key_store_header(&view->key, in_flight_pinned_header(limit, at->header, part));
}

/*
 * Closes the header if no permit is in flight, so that other keys may evict it: marks it as
 * closing, and makes it idle if a second read finds the counts unchanged. If a permit has come
 * meanwhile, pins it again; so does the call of that permit. A header that stays closing, or that
 * another call swaps meanwhile, is pinned until the newest part times out.
 */
static void close_header(struct in_flight_view *view)
{
	struct record_state *at = &view->key.states[0].at;
	struct cell closing = header_released(at->header, /* closing: */ true);

	if (view->header != IN_FLIGHT_OPEN || view->snapshot.in_flight > 0 ||
	    !cell_is_pinned(at->header) || !cell_swap(at->cell, at->header, closing))
		return;
	at->header = closing;
	fence_behind_swap(); /* all threads see the closing header before the second read */
	if (in_flight_is_unchanged(at, &view->snapshot)) {
		reported_key_store_header(&view->key, in_flight_idle_header(closing, view->key.now_ns));
		return;
	}
	read_in_flight_view(view);
	if (view->snapshot.in_flight > 0)
		make_header_fit(view);
}

/* Computes the limits from the estimate that was read. */
static void set_limits(struct in_flight_view *view)
{
	view->cpu = view->key.limit->cpu ? cpu_smoothed(view->key.limit->cpu) : 0;
	view->limits = estimate_limits(&view->key.limit->in_flight, view->snapshot.estimate, view->cpu,
	                               view->key.now_ns, view->snapshot.has_priorities);
}

/* Fills in the decision from the limits. */
static void fill_decision(const struct in_flight_view *view, struct algo_decision *out)
{
	const struct record_state *at = &view->key.states[0].at;

	out->quota = view->limits.quota;
	out->remaining = sat_sub(view->limits.quota, total_in_flight(view));
	out->reset_after_ns =
	    view->header != IN_FLIGHT_OPEN ? 0 : (uint64_t)cell_ahead_ns(at->header, view->key.now_ns);
}

/* Reports the key's state by the last snapshot. */
static void report_state(struct in_flight_view *view, struct algo_decision *out)
{
	set_limits(view);
	fill_decision(view, out);
}

/*
 * Stores when a priority class has requested, if priorities are in use. Returns false if that
 * changed a cell, so that the caller has to read the key again.
 */
static bool record_class(const struct in_flight_view *view, unsigned priority)
{
	struct headroom after;

	if (view->header != IN_FLIGHT_OPEN || (priority == 0 && !view->snapshot.has_priorities))
		return true;
	after = view->snapshot.headroom;
	if (!headroom_record_request(&after, priority, view->key.now_ns))
		return true;
	in_flight_store_headroom(&view->key.states[0].at, &view->snapshot, &after);
	return false;
}

/* How many permits may be in flight with a new one of the priority class. */
static uint64_t class_quota(const struct in_flight_view *view, unsigned priority)
{
	uint64_t quota;

	if (!view->snapshot.has_priorities)
		return view->limits.quota;
	quota = headroom_quota(&view->snapshot.headroom, priority, &view->limits);
	return u64_min(quota, u64_max(view->limits.quota, view->key.limit->in_flight.bounds.most));
}

/*
 * Raises or lowers the headroom of a class for a denied or passed request, by a random draw, unless
 * another thread swaps the cell first. A window that probes the limit of all classes tells nothing
 * about one of them.
 */
static void update_headroom(const struct in_flight_view *view, unsigned priority, bool passed)
{
	struct headroom after;

	if (!view->snapshot.has_priorities || view->header != IN_FLIGHT_OPEN ||
	    view->limits.is_probe_of_all)
		return;
	after = view->snapshot.headroom;
	if (passed
	        ? headroom_record_pass(&after, priority, view->limits.quota_without_probe, prng_next())
	        : headroom_record_denial(&after, priority, view->limits.quota_without_probe,
	                                 prng_next()))
		in_flight_store_headroom(&view->key.states[0].at, &view->snapshot, &after);
}

/* Sets the denial. If it `counts`, the estimate may record it. */
static void deny(struct in_flight_view *view, bool counts, struct algo_decision *out)
{
	struct estimate_change change;

	if (counts && view->header == IN_FLIGHT_OPEN &&
	    estimate_record_denial(&view->key.limit->in_flight, view->snapshot.estimate, view->cpu,
	                           view->key.now_ns, &change))
		in_flight_store_estimate(&view->key.states[0].at, &view->snapshot, &change);
	algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, view->key.limit->retry_ns);
	fill_decision(view, out);
}

/*
 * Whether a call that reads the key from now on finds the permit: in the same record, which is
 * retained.
 */
static bool permit_is_retained(const struct in_flight_view *view)
{
	const struct record_state *at = &view->key.states[0].at;
	struct cell header;

	fence_behind_swap(); /* all threads see the permit before the header is read */
	header = record_header(at);
	return in_flight_header_fits(view->key.limit, header, at->record.tag,
	                             view->snapshot.counts.part) &&
	       in_flight_is_same_life(header, at->header) && reported_key_is_current(&view->key);
}

static void deny_table_full(const struct in_flight_view *view, struct algo_decision *out)
{
	algo_decision_table_full(view->key.limit, out);
	out->quota = view->limits.quota;
}

/* Takes up to `n` permits of a part off the record of any table. Returns how many. */
RARE static uint64_t release_from_record(struct in_flight_view *view, struct wide_state *state,
                                         uint64_t part, uint64_t n)
{
	struct in_flight_snapshot snapshot;
	uint64_t released;

	if (!state->at.cell)
		return 0;
	do {
		enum in_flight_header header;

		state->at.header = record_header(&state->at);
		header = in_flight_header_of(view->key.limit, &state->at, view->key.now_ns);
		read_state(view, state, header, &snapshot);
		released =
		    header == IN_FLIGHT_OPEN ? u64_min(n, in_flight_given_in(&snapshot.counts, part)) : 0;
	} while (released > 0 && !in_flight_release(&state->at, &snapshot, part, released));
	return released;
}

/*
 * Adds a permit on the counts that were checked, and sets its end. Returns false if the caller has
 * to read the key again.
 */
static bool add_permit(struct in_flight_view *view, uint64_t *until_ns)
{
	const struct in_flight_params *params = &view->key.limit->in_flight;
	struct wide_state *newest = &view->key.states[0];
	uint64_t start_ns = view->key.now_ns, part = view->snapshot.counts.part;

	/* This clock may lag behind the one that began the newest part: then the permit begins with it,
	 * at the first time that is rounded into it. */
	if (in_flight_part(params, start_ns) != part)
		start_ns = part * params->part_ns + IN_FLIGHT_START_NS;
	if (!in_flight_acquire(&newest->at, &view->snapshot))
		return false;
	if (!permit_is_retained(view)) {
		/*
		 * A new life of the key may have cleaned the counts, so only in the same life is it taken
		 * off.
		 */
		if (in_flight_is_same_life(record_header(&newest->at), newest->at.header))
			release_from_record(view, newest, part, 1);
		return false;
	}
	*until_ns =
	    in_flight_until_ns(params, start_ns, estimate_window(params, view->snapshot.estimate));
	return true;
}

/* Decides on a request, and acquires unless it is a peek. Returns the permit's end, or 0. */
static uint64_t acquire_or_peek(struct in_flight_view *view, const struct algo_call *call,
                                struct algo_decision *out)
{
	bool consumes = algo_consumes(call), counts_denial = consumes || call->counts_denial;
	unsigned priority = call->priority;
	uint64_t until_ns = 0;

	for (;;) {
		enum header_result stored;

		read_and_expire(view);
		if (counts_denial && !record_class(view, priority))
			continue;
		set_limits(view);
		if (total_in_flight(view) >= class_quota(view, priority)) {
			if (counts_denial)
				update_headroom(view, priority, false);
			deny(view, counts_denial, out);
			return 0;
		}
		stored = HEADER_STORED;
		if (consumes)
			stored = make_header_fit(view);
		else if (reported_key_is_full(&view->key))
			stored = HEADER_NO_CAPACITY;
		if (stored == HEADER_NO_CAPACITY) {
			deny_table_full(view, out);
			return 0;
		}
		if (!consumes) {
			fill_decision(view, out);
			return 0;
		}
		if (stored == HEADER_STORED && add_permit(view, &until_ns)) {
			update_headroom(view, priority, true);
			fill_decision(view, out);
			return until_ns;
		}
	}
}

/*
 * Takes a permit of a part off the newest record, or off a former one. Returns false if no record
 * has it.
 */
static bool release_one(struct in_flight_view *view, uint64_t part)
{
	while (view->header == IN_FLIGHT_OPEN && in_flight_given_in(&view->snapshot.counts, part) > 0) {
		if (in_flight_release(&view->key.states[0].at, &view->snapshot, part, 1))
			return true;
		read_in_flight_view(view);
	}
	for (size_t i = 1; i < view->key.count; i++)
		if (release_from_record(view, &view->key.states[i], part, 1)) {
			read_in_flight_view(view);
			return true;
		}
	return false;
}

/*
 * Applies the report of one permit, or its refund, which has no outcome. The permit's end says when
 * it was given, and in its last digits the estimator's window then (in_flight_until_ns). Returns
 * false if it is not in flight.
 */
static bool apply_report(struct in_flight_view *view, const struct algo_call *call)
{
	const struct in_flight_params *params = &view->key.limit->in_flight;
	uint64_t until_ns = call->until_ns, start_ns = in_flight_start_ns(params, until_ns);
	bool is_report = call->op == ALGO_REPORT;
	struct estimate_report report = {
	    .outcome = is_report ? call->outcome : WEIR_OUTCOME_IGNORED,
	    .sample = {call->latency_ns ? call->latency_ns : sat_sub(view->key.now_ns, start_ns),
	               total_in_flight(view)},
	    .window = (uint8_t)(until_ns % IN_FLIGHT_START_NS),
	    .now_ns = view->key.now_ns};

	if (until_ns <= view->key.now_ns || !release_one(view, in_flight_part_of(params, start_ns)))
		return false;
	update_estimate(view, &report);
	return true;
}

/* Releases up to `n` permits of the newest part that has any. Returns how many. */
RARE static uint64_t release_newest(struct in_flight_view *view, uint64_t n)
{
	unsigned back = 0; /* parts before the newest */

	read_and_expire(view);
	while (back < IN_FLIGHT_PARTS && in_flight_given_before(&view->snapshot.counts, back) == 0)
		back++;
	if (back == IN_FLIGHT_PARTS)
		return 0;
	return release_from_record(view, &view->key.states[0], view->snapshot.counts.part - back, n);
}

/*
 * Applies the outcome of another server's permit. Without the caller's latency there is no sample:
 * the time since the permit was given would compare two clocks.
 */
RARE static void count_foreign_report(struct in_flight_view *view, const struct algo_call *call)
{
	struct estimate_report report = {.outcome = call->outcome, .now_ns = view->key.now_ns};

	read_and_expire(view);
	if (call->outcome == WEIR_OUTCOME_IGNORED || call->latency_ns == 0)
		return;
	report.window = estimate_window(&view->key.limit->in_flight, view->snapshot.estimate);
	report.sample = (struct adaptive_sample){.latency_ns = call->latency_ns,
	                                         .in_flight = u64_max(total_in_flight(view), 1)};
	update_estimate(view, &report);
}

/* Releases the permit that ends at call->until_ns. Returns whether it was in flight. */
static bool release_named(struct in_flight_view *view, const struct algo_call *call)
{
	read_and_expire(view);
	return call->cost > 0 && apply_report(view, call);
}

static void release_newest_permits(struct in_flight_view *view, uint64_t n)
{
	uint64_t released;

	while (n > 0 && (released = release_newest(view, n)) > 0)
		n -= released;
	read_and_expire(view);
}

/* Carries out a report or refund: of the permit that it names by its end, or of the newest ones. */
static void release_in_flight(struct in_flight_view *view, const struct algo_call *call,
                              struct algo_decision *out)
{
	bool is_named = call->until_ns != 0, released_one = false;

	if (is_named)
		released_one = release_named(view, call);
	else
		release_newest_permits(view, call->cost);
	close_header(view);
	if (algo_op_reports(call->op)) /* the answer to a report has no state of the key */
		out->quota = out->remaining = out->reset_after_ns = 0;
	else
		report_state(view, out);
	out->allowed = released_one || !is_named;
}

/* Forgets all permits and measurements. Reports of earlier permits count no more. */
RARE static void reset_in_flight(struct in_flight_view *view, struct algo_decision *out)
{
	read_in_flight_view(view);
	for (size_t i = 0; i < view->key.count; i++) {
		struct wide_state *state = &view->key.states[i];
		struct record_step step = {.limit = view->key.limit, .now_ns = view->key.now_ns};
		struct cell header = in_flight_spent_header(state->at.record.tag, view->key.now_ns);

		while (in_flight_header_of(view->key.limit, &state->at, view->key.now_ns) !=
		           IN_FLIGHT_NONE &&
		       !wide_store_header(state, &step, header))
			state->at.header = record_header(&state->at);
	}
	read_in_flight_view(view);
	report_state(view, out);
}

uint64_t in_flight_apply(const struct call_target *target, const struct algo_call *call,
                         struct algo_decision *out)
{
	struct in_flight_view view;

	reported_key_init(&view.key, target);
	if (algo_op_requests(call->op))
		return acquire_or_peek(&view, call, out);
	if (call->op == ALGO_RESET) {
		reset_in_flight(&view, out);
	} else if (call->op == ALGO_COUNT) {
		count_foreign_report(&view, call);
		report_state(&view, out);
	} else {
		release_in_flight(&view, call, out);
	}
	return 0;
}
