/*
 * breaker_phase.c: changes the phase of a circuit breaker's key: opens it when the window of
 * results trips, and closes it or opens it again by the results of probes.
 *
 * Each change of the phase is one compare-and-swap of its cell. If the phase is no longer the one
 * that was read, nothing changes, and the caller reads the key anew.
 */
#include "store/wide/breaker_phase.h"

#include <stddef.h>

/* Gives a new record the phase of the former table's record. */
__attribute__((noinline, cold)) static void inherit_phase(struct breaker_view *view)
{
	const struct record_state *at = &view->key.states[0].at;
	struct breaker_state former = view->snapshot.state;

	breaker_view_read(view, NULL);
	if (at->cell && view->snapshot.state.since_ns == 0)
		breaker_record_change_phase(at, &view->snapshot, &former);
}

/* Makes the header retain the record in the phase of `state`. */
enum header_result breaker_phase_store_header(struct breaker_view *view,
                                              const struct breaker_state *state)
{
	struct reported_key *key = &view->key;
	const struct record_state *at = &key->states[0].at;
	uint64_t now_ns = key->now_ns;
	enum header_result stored;

	if (at->cell &&
	    breaker_record_header_fits(key->limit, at->header, at->record.tag, state, now_ns))
		return HEADER_STORED;
	stored = reported_key_store_header(
	    key, breaker_record_header(key->limit, at->record.tag, state, now_ns));
	if (stored == HEADER_CHANGED && !at->cell && view->snapshot.state.since_ns > 0)
		inherit_phase(view);
	return stored;
}

/* Adds a phase change to those that the call reports. Too many are merged into the last one. */
static void record_phase_change(struct breaker_view *view, enum breaker_phase from,
                                enum breaker_phase to, enum algo_cause cause)
{
	if (from == to)
		return;
	if (view->phase_change_count < ALGO_PHASE_CHANGES_MAX)
		view->phase_changes[view->phase_change_count++].from = (uint8_t)from;
	view->phase_changes[view->phase_change_count - 1].to = (uint8_t)to;
	view->phase_changes[view->phase_change_count - 1].cause = (uint8_t)cause;
}

/* Changes the phase from the one that was read. Returns false if another thread has changed it. */
bool breaker_phase_change(struct breaker_view *view, const struct breaker_state *after,
                          enum algo_cause cause)
{
	enum breaker_phase from = view->snapshot.state.phase;

	if (!breaker_record_change_phase(&view->key.states[0].at, &view->snapshot, after))
		return false;
	record_phase_change(view, from, after->phase, cause);
	breaker_phase_store_header(view, after); /* if this fails, the next call does it */
	return true;
}

/*
 * Ends `count` probes of the half-open phase with the same result, which may change the phase. For
 * a quorum group, only a notification is made. Returns false if another thread has changed the
 * phase.
 */
bool breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                              unsigned count, uint64_t at_ns)
{
	struct breaker_state after = view->snapshot.state;
	struct algo_notification notification =
	    view->notification ? *view->notification : (struct algo_notification){0};

	breaker_end_probes(&view->key.limit->breaker, &after, result, count, at_ns,
	                   view->notification ? &notification : NULL);
	if (!breaker_phase_change(
	        view, &after, after.phase == BREAKER_OPEN ? ALGO_BY_BAD_PROBE : ALGO_BY_GOOD_PROBES))
		return false;
	if (view->notification)
		*view->notification = notification;
	return true;
}

/*
 * Opens the breaker if its window trips. Returns whether the window did; another thread may have
 * changed the phase first. A quorum group decides by itself, and only gets a notification.
 * `has_counted`: this call has added a result to the part of now.
 */
static bool trip_if_due(struct breaker_view *view, bool has_counted)
{
	struct breaker_state after = view->snapshot.state;
	struct breaker_tally tally;
	enum algo_cause cause;

	if (after.phase > BREAKER_RAMP)
		return false;
	breaker_view_tally(view, &tally);
	cause = breaker_trip_cause(&view->key.limit->breaker, &tally);
	if (cause == ALGO_BY_NOTHING) {
		if (has_counted && view->key.count == 1 && tally.calls >= view->key.limit->breaker.minimum)
			breaker_record_set_quiescent(view->key.limit, &view->key.states[0].at, &view->snapshot,
			                             view->key.now_ns);
		return false;
	}
	if (view->notification) {
		view->notification->trips = true;
		return false;
	}
	breaker_open(&after, view->key.now_ns);
	breaker_phase_change(view, &after, cause);
	return true;
}

void breaker_phase_count(struct breaker_view *view, struct breaker_results results)
{
	if (results.result.ignored)
		return;
	breaker_record_count(view->key.limit, &view->key.states[0].at, &view->snapshot, &results,
	                     view->key.now_ns);
	trip_if_due(view, results.ended_at_ns == view->key.now_ns);
}

/* The result of a permit that was not reported in time. */
static struct breaker_result result_of_timeout(const struct breaker_view *view)
{
	return breaker_result_of(&view->key.limit->breaker, WEIR_OUTCOME_TIMEOUT,
	                         view->key.limit->breaker.timeout_ns);
}

/* Counts lost permits in the parts in which they timed out. Returns whether the window trips. */
static bool count_lost_permits(struct breaker_view *view, const struct breaker_expiry *expiry)
{
	const struct breaker_params *params = &view->key.limit->breaker;
	struct breaker_results results = {.result = result_of_timeout(view),
	                                  .ended_at_ns = view->key.now_ns};

	for (unsigned before = 0; before < BREAKER_PARTS_MAX + 2; before++) {
		results.count = expiry->lost_by_part[before];
		results.ended_at_ns = sat_sub(view->key.now_ns, before * params->part_ns);
		if (results.count > 0)
			breaker_record_count(view->key.limit, &view->key.states[0].at, &view->snapshot,
			                     &results, view->key.now_ns);
	}
	return trip_if_due(view, false);
}

/*
 * Reads the key, and counts permits that have timed out, until nothing changes: each call begins
 * so. In half-open, probes that the phase counts as in flight and the record does not are lost, for
 * whatever reason; they end here. `list` gets the permits in flight, unless it is NULL.
 */
void breaker_phase_update(struct breaker_view *view, struct breaker_list *list)
{
	for (;;) {
		struct breaker_expiry expiry = {.list = list};
		const struct breaker_state *state = &view->snapshot.state;
		const struct breaker_params *params;
		uint64_t lost_ns;

		if (list) {
			newest_begin(&list->single_ends, list->single_ends.n);
			list->group_count = 0;
		}
		breaker_view_read(view, &expiry);
		params = &view->key.limit->breaker;
		if (expiry.lost_count > 0 && state->phase == BREAKER_HALF_OPEN)
			breaker_view_record_lost(view, &expiry);
		else if (expiry.lost_count > 0 && count_lost_permits(view, &expiry) &&
		         state->phase <= BREAKER_RAMP)
			continue; /* another thread has changed the phase meanwhile */
		if (view->snapshot.has_overdue || (state->phase == BREAKER_HALF_OPEN &&
		                                   state->in_flight > view->snapshot.in_flight_of_phase)) {
			/* Their results count in the newest table, in which the key has no record yet. */
			if (!view->key.states[0].at.cell) {
				if (breaker_phase_store_header(view, state) == HEADER_NO_CAPACITY)
					return;
				continue;
			}
			lost_ns = breaker_probes_lost_ns(params, view->probes_lost_at_ns,
			                                 view->snapshot.probes_lost_at_ns);
			breaker_phase_end_probes(view, result_of_timeout(view),
			                         state->in_flight - (unsigned)view->snapshot.in_flight_of_phase,
			                         lost_ns ? u64_min(lost_ns, view->key.now_ns)
			                                 : view->key.now_ns);
		} else if (!params->finished_only || !view->key.states[0].at.cell ||
		           !trip_if_due(view, false)) {
			return; /* a part that has finished since the last report may trip the window */
		}
	}
}
