/*
 * apply_breaker.c: carries out calls on a circuit breaker's key: acquires, reports, refunds,
 * resets, and what an operator or a quorum group decides.
 *
 * A key's state is a header, its cell in a table, and a record, whose cells change one by one
 * (records/breaker_record.h). algo/outcomes/breaker_state.h computes each change. An acquire adds
 * its permit to an in-flight entry, a count of permits, and then, in half-open, a probe to the
 * phase (closed, open, half-open, or forced by an operator). A report first ends the probe, then
 * releases the permit and counts the result. The call that finds that the window trips opens the
 * breaker, by one swap of the phase. docs/design/breaker-states.md says why the order is this, and
 * what a process leaves that dies in between.
 *
 * Most keys are quiescent: closed, with a window that can't trip by time or by a success for a
 * short span. Calls on these need neither the window nor the other entries.
 */
#include <string.h>

#include "base/prng.h"
#include "base/os/fence.h"
#include "records/breaker_record.h"
#include "store/wide/breaker_phase.h"
#include "store/wide/breaker_view.h"

/* Sets how long until the key has no state: no result counts and no permit is in flight. */
static void set_reset_after(const struct breaker_view *view, const struct breaker_state *state,
                            uint64_t own_ns, struct algo_decision *out)
{
	const struct breaker_params *params = &view->key.limit->breaker;
	struct breaker_tally tally;
	uint64_t ahead_ns = breaker_view_tally(view, &tally);

	ahead_ns = u64_max(ahead_ns, u64_max(own_ns, view->snapshot.last_ends_in_ns));
	out->reset_after_ns = u64_max(ahead_ns, breaker_ttl_ns(params, state, view->key.now_ns));
}

/* Fills in a denial. If it `counts`, a request beyond max_concurrent may count as failed. */
static void deny(struct breaker_view *view, bool counts, struct algo_decision *out)
{
	if (out->reason == WEIR_REASON_OVER_LIMIT)
		out->retry_after_ns = u64_min(out->retry_after_ns, view->snapshot.first_ends_in_ns);
	set_reset_after(view, &view->snapshot.state, 0, out);
	if (counts && out->reason == WEIR_REASON_OVER_LIMIT &&
	    view->key.limit->breaker.refusals_fail && breaker_is_closed(&view->snapshot.state))
		breaker_phase_count(view,
		                    (struct breaker_results){{.failed = true}, 1, view->key.now_ns, 0});
	else if (counts)
		breaker_phase_store_header(view, &view->snapshot.state);
}

/* Reads a copy of the view again: whether more permits are in flight than max_concurrent. */
__attribute__((noinline, cold)) static bool read_is_over_bound(struct breaker_view again)
{
	fence_behind_swap();
	breaker_view_read(&again, NULL);
	return again.snapshot.in_flight > again.key.limit->breaker.max_concurrent;
}

/*
 * Whether more permits are in flight than the bound allows. If all entries of single permits are
 * side by side, there are no more entries. In a mixed record two calls may each have taken the last
 * one, and the later of them finds out here.
 */
static bool exceeds_bound(const struct breaker_view *view)
{
	return (view->snapshot.is_mixed || view->key.count > 1) &&
	       view->key.limit->breaker.max_concurrent != 0 && read_is_over_bound(*view);
}

/*
 * Adds the permit that `state` has granted. Returns false if the caller has to read the key again.
 * `out` may become a denial because the table is full.
 */
static bool acquire_breaker_permit(struct breaker_view *view, const struct breaker_state *state,
                                   uint64_t id, struct algo_decision *out, uint64_t *until_ns)
{
	const struct algo_limit *limit = view->key.limit;
	struct breaker_permit permit = breaker_permit_of(
	    &limit->breaker, breaker_until_ns(&limit->breaker, breaker_start(state, view->key.now_ns)),
	    id);
	/* `state` is stored below, after the permit that it needs; until then the read phase holds. */
	enum header_result stored = breaker_phase_store_header(view, &view->snapshot.state);
	bool adds_probe = state->phase == BREAKER_HALF_OPEN;

	if (stored == HEADER_NO_CAPACITY) {
		algo_decision_table_full(limit, out);
		*until_ns = 0;
		return true;
	}
	if (stored == HEADER_CHANGED ||
	    breaker_record_acquire(limit, &view->key.states[0].at, &view->snapshot, &permit,
	                           view->key.now_ns) != BREAKER_ACQUIRED)
		return false;
	/* The first probe ends the sleep of an open breaker; later ones change no phase. */
	if (exceeds_bound(view) || (adds_probe && !breaker_phase_change(view, state, ALGO_BY_SLEEP))) {
		breaker_record_release(limit, &view->key.states[0].at, permit);
		return false;
	}
	*until_ns = permit.until_ns;
	return true;
}

/* Lets a denied request pass if the limit only judges. Returns the end of its unrecorded permit. */
static uint64_t pass_if_judge_only(const struct breaker_view *view, bool consumes,
                                   struct algo_decision *out)
{
	const struct breaker_params *params = &view->key.limit->breaker;

	if (!params->judge_only)
		return 0;
	algo_decision_allow(out);
	return consumes ? breaker_unrecorded_until_ns(params, view->key.now_ns) : 0;
}

/* Whether a permit is unrecorded. Permits from before a reload may only seem so. */
static bool is_unrecorded(const struct breaker_view *view, uint64_t until_ns)
{
	return breaker_is_unrecorded(&view->key.limit->breaker, until_ns) && !view->snapshot.is_mixed &&
	       view->key.count == 1;
}

/* Decides on a request, and acquires unless it is a peek. Returns the permit's end, or 0. */
static uint64_t acquire_or_peek(struct breaker_view *view, const struct algo_call *call,
                                struct algo_decision *out)
{
	bool consumes = algo_consumes(call);
	/* A peek at a limit that only judges denies nothing: the acquire behind it counts. */
	bool counts_denial =
	    consumes || (call->counts_denial && !view->key.limit->breaker.judge_only);
	bool draws = counts_denial && !call->has_drawn;
	uint64_t draw = call->draw, until_ns = 0;

	for (;;) {
		struct breaker_request request;
		struct breaker_state state;

		breaker_phase_update(view, NULL);
		state = view->snapshot.state;
		if (draws && draw == 0 && breaker_needs_draw(&state))
			draw = prng_next();
		request = (struct breaker_request){.draw = draws ? &draw : NULL,
		                                   .notification = view->notification,
		                                   .in_flight = view->snapshot.in_flight,
		                                   .is_peek = !consumes,
		                                   .counts_denial = counts_denial};
		if (!breaker_decide(view->key.limit, &state, view->key.now_ns, &request, out)) {
			deny(view, counts_denial, out);
			return pass_if_judge_only(view, consumes, out);
		}
		if (!consumes) {
			if (reported_key_is_full(&view->key))
				algo_decision_table_full(view->key.limit, out);
			else
				set_reset_after(view, &view->snapshot.state, 0, out);
			return out->allowed ? 0 : pass_if_judge_only(view, consumes, out);
		}
		if (acquire_breaker_permit(view, &state, call->permit, out, &until_ns)) {
			if (until_ns > 0)
				set_reset_after(view, &state, until_ns - view->key.now_ns, out);
			return out->allowed ? until_ns : pass_if_judge_only(view, consumes, out);
		}
	}
}

/* Reports the key's state by the snapshot. */
static void report_snapshot(const struct breaker_view *view, struct algo_decision *out)
{
	out->remaining = breaker_capacity(&view->key.limit->breaker, &view->snapshot.state,
	                                  view->snapshot.in_flight);
	set_reset_after(view, &view->snapshot.state, 0, out);
}

/* Reports the key's state after a release: reads it again. */
static void report_state(struct breaker_view *view, struct algo_decision *out)
{
	breaker_phase_update(view, NULL);
	report_snapshot(view, out);
}

/* Whether the permit is a probe of the half-open phase that was read, and has not timed out. */
static bool is_probe(const struct breaker_view *view, const struct breaker_permit *permit)
{
	const struct breaker_state *state = &view->snapshot.state;
	uint64_t end_ns = breaker_probe_end_ns(&view->key.limit->breaker, permit->until_ns);

	return state->phase == BREAKER_HALF_OPEN && breaker_counts(state, permit->start_ns) &&
	       end_ns > view->key.now_ns;
}

/*
 * Releases a permit that is no probe, and then counts its result, unless `counts_result` is false.
 * Returns whether it was in flight.
 */
static bool release_and_count(struct breaker_view *view, const struct record_state *record,
                              struct breaker_permit permit, struct breaker_result result,
                              bool counts_result)
{
	const struct breaker_state *state = &view->snapshot.state;

	if (!breaker_record_release(view->key.limit, record, permit))
		return false;
	if (counts_result && breaker_is_closed(state) && breaker_counts(state, permit.start_ns))
		breaker_phase_count(view,
		                    (struct breaker_results){result, 1, view->key.now_ns, permit.stripe});
	return true;
}

/*
 * Releases a permit, and counts its result: a probe's in the phase, any other one in the window if
 * `counts_in_window`. Returns whether it was in flight.
 */
static bool release_permit(struct breaker_view *view, struct breaker_permit permit,
                           struct breaker_result result, bool counts_in_window)
{
	for (;;) {
		const struct record_state *record;
		bool has_ended;

		breaker_phase_update(view, NULL);
		has_ended = permit.until_ns <= view->key.now_ns;
		if (is_unrecorded(view, permit.until_ns))
			return !has_ended;
		record = has_ended ? NULL : breaker_view_find_permit(view, &permit);
		if (!record)
			return false;
		if (!reported_key_has_record(&view->key)) {
			/* The result counts in the newest table, which gets a record; or, if full, is lost. */
			if (breaker_phase_store_header(view, &view->snapshot.state) != HEADER_NO_CAPACITY)
				continue;
			return release_and_count(view, record, permit, result, false);
		}
		if (!is_probe(view, &permit))
			return release_and_count(view, record, permit, result, counts_in_window);
		if (breaker_phase_end_probes(view, result, 1, view->key.now_ns)) {
			breaker_record_release(view->key.limit, record, permit);
			return true;
		}
	}
}

/* The result of the permit's request. */
static struct breaker_result result_of_call(const struct algo_limit *limit,
                                            const struct algo_call *call, uint64_t start_ns,
                                            uint64_t now_ns)
{
	if (!algo_op_reports(call->op))
		return (struct breaker_result){.ignored = true};
	return breaker_result_of(&limit->breaker, call->outcome,
	                         call->latency_ns ? call->latency_ns : sat_sub(now_ns, start_ns));
}

/*
 * Counts the outcome of another server's permit in the window of a closed key. A probe's outcome
 * decides on the phase at the server that gave it (release_permit()).
 */
static void count_foreign(struct breaker_view *view, const struct algo_call *call)
{
	struct breaker_permit permit;
	enum header_result stored = HEADER_CHANGED;

	while (stored == HEADER_CHANGED) {
		breaker_phase_update(view, NULL);
		stored = reported_key_has_record(&view->key)
		             ? HEADER_STORED
		             : breaker_phase_store_header(view, &view->snapshot.state);
	}
	permit = breaker_permit_of(&view->key.limit->breaker, call->until_ns, call->permit);
	if (stored == HEADER_STORED && !is_unrecorded(view, call->until_ns) &&
	    breaker_is_closed(&view->snapshot.state) &&
	    breaker_counts(&view->snapshot.state, permit.start_ns))
		breaker_phase_count(
		    view, (struct breaker_results){
		              result_of_call(view->key.limit, call, permit.start_ns, view->key.now_ns), 1,
		              view->key.now_ns, permit.stripe});
}

/*
 * Releases the `n` newest permits. In half-open some of these are probes of the phase: they end
 * first, with a result that is ignored.
 */
__attribute__((noinline)) static void release_newest(struct breaker_view *view, uint64_t n,
                                                     struct algo_decision *out)
{
	static const struct breaker_result ignored = {.ignored = true};
	struct breaker_list list;
	unsigned probes;

	list.single_ends.n = u64_max(n, 1); /* so many of the newest ends are listed */
	do {
		const struct breaker_state *state = &view->snapshot.state;

		breaker_phase_update(view, &list);
		probes = (unsigned)u64_min(u64_min(n, view->snapshot.in_flight_of_phase), state->probes_in_flight);
		if (!reported_key_has_record(&view->key) || state->phase != BREAKER_HALF_OPEN)
			probes = 0;
	} while (probes > 0 && !breaker_phase_end_probes(view, ignored, probes, view->key.now_ns));
	breaker_view_release_newest(view, &list, n);
	report_snapshot(view, out);
}

/* The permit that a report or refund is about. The newest, if it names none. */
static struct breaker_permit permit_of_call(struct breaker_view *view,
                                            const struct breaker_params *params,
                                            const struct algo_call *call)
{
	if (call->until_ns != 0)
		return breaker_permit_of(params, call->until_ns, call->permit);
	breaker_phase_update(view, NULL);
	return breaker_permit_of(params, view->key.now_ns + view->snapshot.last_ends_in_ns, 0);
}

/*
 * Carries out a report or refund of one permit. One of cost 0 only updates the phase. A SETTLE does
 * not count the result, because another server has done so.
 */
static void release_one(struct breaker_view *view, const struct algo_call *call,
                        struct algo_decision *out)
{
	const struct algo_limit *limit = view->key.limit;
	struct breaker_permit permit = permit_of_call(view, &limit->breaker, call);
	struct breaker_result result = result_of_call(limit, call, permit.start_ns, view->key.now_ns);
	bool released = call->cost > 0 && release_permit(view, permit, result, call->op != ALGO_SETTLE);

	/* Nobody reads the key's state in the decision of a report. */
	if (call->op == ALGO_REFUND && !released && call->cost > 0)
		report_snapshot(view, out); /* nothing has changed since the read */
	else if (call->op == ALGO_REFUND)
		report_state(view, out);
	else if (call->cost == 0)
		breaker_phase_update(view, NULL); /* a permit that has timed out may open it now */
	out->allowed = released || call->until_ns == 0;
}

/* Carries out a report, count or refund: of one permit, or if a refund names none, of the newest.
 */
static void release_breaker_permits(struct breaker_view *view, const struct algo_call *call,
                                    struct algo_decision *out)
{
	if (call->op == ALGO_COUNT) {
		count_foreign(view, call);
		report_state(view, out);
	} else if (call->until_ns == 0 && call->op == ALGO_REFUND) {
		release_newest(view, call->cost, out);
	} else {
		release_one(view, call, out);
	}
}

/*
 * Makes a closed phase with an empty window, unless that is the phase already, or an operator has
 * forced it. Returns false if another thread has changed the phase.
 */
static bool close_anew(struct breaker_view *view)
{
	const struct breaker_state *state = &view->snapshot.state;
	/* The window is empty because its results belong to the phase that began before. */
	struct breaker_state after = {.phase = BREAKER_CLOSED,
	                              .since_ns = u64_max(view->key.now_ns, state->since_ns + 1)};
	struct breaker_tally tally;

	if (breaker_is_forced(state))
		return true;
	if (state->phase == BREAKER_CLOSED && breaker_view_tally(view, &tally) == 0)
		return true;
	return breaker_phase_change(view, &after, ALGO_BY_RESET);
}

/* Closes the key with an empty window. Permits from before are not in flight any more. */
static void reset_breaker(struct breaker_view *view, struct algo_decision *out)
{
	bool is_reset = false;

	if (view->notification)
		view->notification->resets = true;
	while (!is_reset) {
		breaker_phase_update(view, NULL);
		if (reported_key_has_record(&view->key)) {
			breaker_record_expire_all(view->key.limit, &view->key.states[0].at);
			breaker_view_expire_former(view);
			is_reset = close_anew(view);
		} else {
			bool has_former_record = view->key.count > 1;

			/* The new phase needs a record in the newest table. */
			is_reset = !has_former_record || breaker_phase_store_header(
			                                     view, &view->snapshot.state) == HEADER_NO_CAPACITY;
		}
	}
	view->snapshot.in_flight = view->snapshot.last_ends_in_ns = 0;
	report_snapshot(view, out);
}

/* When a force ends. A time further ahead than a cell can store means for ever. */
static uint64_t forced_until(const struct algo_call *call, uint64_t now_ns)
{
	bool ends = call->until_ns != 0 && sat_sub(call->until_ns, now_ns) <= ALGO_HORIZON_NS;

	return ends ? call->until_ns : BREAKER_FOREVER;
}

/*
 * Puts the key into a phase. Returns false if the caller has to read the key anew. `out` becomes a
 * denial if the table is full.
 */
static bool enter_phase(struct breaker_view *view, const struct breaker_state *after,
                        enum algo_cause cause, struct algo_decision *out)
{
	enum header_result stored = breaker_phase_store_header(view, after);

	if (stored == HEADER_NO_CAPACITY)
		algo_decision_table_full(view->key.limit, out);
	return stored == HEADER_NO_CAPACITY ||
	       (stored == HEADER_STORED && breaker_phase_change(view, after, cause));
}

/* An operator's call: forces the key open or closed, or ends such a phase (auto). */
static void force_phase(struct breaker_view *view, const struct algo_call *call,
                        struct algo_decision *out)
{
	static const enum breaker_phase phases[] = {[WEIR_FORCE_OPEN] = BREAKER_FORCED_OPEN,
	                                            [WEIR_FORCE_CLOSED] = BREAKER_FORCED_CLOSED,
	                                            [WEIR_FORCE_AUTO] = BREAKER_CLOSED};
	bool is_auto = call->force == WEIR_FORCE_AUTO;
	struct breaker_state after;

	do {
		breaker_view_read(view, NULL);
		if (is_auto && !breaker_is_forced(&view->snapshot.state))
			break;
		/* The since_ns of a forced phase is its end. */
		after = (struct breaker_state){.phase = phases[call->force],
		                               .since_ns = is_auto ? view->key.now_ns
		                                                   : forced_until(call, view->key.now_ns)};
	} while (!enter_phase(view, &after, ALGO_BY_FORCE, out));
	if (!out->allowed)
		return;
	if (view->notification)
		view->notification->rejoins = is_auto; /* the quorum group decides again */
	report_state(view, out);
}

/*
 * Applies a decision of the quorum group. If an operator has forced the phase, `out->allowed` is
 * false: the group has to wait.
 */
static void apply_group_decision(struct breaker_view *view, const struct algo_call *call,
                                 struct algo_decision *out)
{
	struct breaker_state after;

	do {
		breaker_view_read(view, NULL);
		if (view->notification)
			*view->notification = (struct algo_notification){0};
		after = view->snapshot.state;
		if (!breaker_apply_group(&view->key.limit->breaker, &after, call, view->key.now_ns))
			break;
	} while (!enter_phase(view, &after, ALGO_BY_GROUP, out));
	if (!out->allowed)
		return;
	report_state(view, out);
	out->allowed = !breaker_is_forced(&after);
	if (view->notification)
		view->notification->since_ns = after.since_ns;
}

/*
 * Applies an acquire or a report of success to a quiescent key. If it returns false, nothing has
 * changed, and the general functions have to apply the call.
 */
static bool apply_quiescent(struct reported_key *key, const struct algo_call *call,
                            struct algo_decision *out, uint64_t *until_ns)
{
	const struct record_state *at = &key->states[0].at;
	bool consumes = call->op == ALGO_ACQUIRE;

	if (!(consumes || call->op == ALGO_REPORT) || call->cost == 0)
		return false;
	reported_key_read_newest(key);
	if (!reported_key_has_header(key))
		return false;
	if (consumes) {
		*until_ns = breaker_record_try_acquire(key->limit, at, call->permit, key->now_ns, out);
		return *until_ns != 0;
	}
	*until_ns = 0;
	breaker_quiescent_outcome(out);
	out->remaining = out->reset_after_ns = 0;
	return breaker_record_try_report(
	    key->limit, at,
	    &(struct breaker_report){call->until_ns, call->permit, call->latency_ns, call->outcome},
	    key->now_ns);
}

__attribute__((noinline)) static uint64_t
apply_with_view(struct breaker_view *view, const struct algo_call *call, struct algo_decision *out)
{
	uint64_t until_ns = 0;

	view->notification = call->notification;
	view->probes_lost_at_ns = 0;
	view->phase_change_count = 0;
	memset(view->phase_changes, 0, sizeof view->phase_changes);
	if (algo_op_requests(call->op)) {
		until_ns = acquire_or_peek(view, call, out);
	} else if (algo_op_releases(call->op)) {
		out->remaining = out->reset_after_ns = 0;
		release_breaker_permits(view, call, out);
	} else if (call->op == ALGO_RESET) {
		reset_breaker(view, out);
	} else if (call->op == ALGO_FORCE) {
		force_phase(view, call, out);
	} else {
		apply_group_decision(view, call, out);
	}
	out->phase = (uint8_t)(view->phase_change_count > 0
	                           ? view->phase_changes[view->phase_change_count - 1].to
	                           : view->snapshot.state.phase);
	out->phase_change_count = view->phase_change_count;
	memcpy(out->phase_changes, view->phase_changes, sizeof out->phase_changes);
	return until_ns;
}

uint64_t breaker_apply(const struct call_target *target, const struct algo_call *call,
                       struct algo_decision *out)
{
	struct breaker_view view;
	uint64_t until_ns;

	reported_key_init(&view.key, target);
	if (apply_quiescent(&view.key, call, out, &until_ns))
		return until_ns;
	algo_decision_allow(out);
	return apply_with_view(&view, call, out);
}
