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

/*
 * Inserts the key's header in the newest table, or changes it so that it retains the record for as
 * long as the phase of `state` needs.
 */
enum header_result breaker_phase_store_header(struct breaker_view *view,
                                              const struct breaker_state *state)
{
	struct reported_key *key = &view->key;
	const struct record_state *at = &key->states[0].at;
	uint64_t now_ns = key->now_ns;
	enum header_result stored;
	bool is_new;

	if (at->cell &&
	    breaker_record_header_fits(key->limit, at->header, at->record.tag, state, now_ns))
		return HEADER_STORED;
	stored = reported_key_store_header(
	    key, breaker_record_header(key->limit, at->record.tag, state, now_ns));
	is_new = stored == HEADER_CHANGED && !at->cell;
	if (is_new && view->snapshot.state.since_ns > 0) /* the phase was read in a former table */
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
 * Ends `count` probes of the half-open phase with the same result, which may change the phase. If a
 * quorum group decides, the key remains half-open, and the result is added to view->notification.
 * Returns false if another thread has changed the phase.
 */
bool breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                              unsigned count, uint64_t at_ns)
{
	bool group_decides = view->notification != NULL;
	struct breaker_state after = view->snapshot.state;
	struct algo_notification notification = {0};
	enum algo_cause cause;

	if (group_decides)
		notification = *view->notification;
	breaker_end_probes(&view->key.limit->breaker, &after, result, count, at_ns,
	                   group_decides ? &notification : NULL);
	cause = after.phase == BREAKER_OPEN ? ALGO_BY_BAD_PROBE : ALGO_BY_GOOD_PROBES;
	if (!breaker_phase_change(view, &after, cause))
		return false;
	if (group_decides)
		*view->notification = notification;
	return true;
}

/*
 * Opens the breaker if its window trips. If a quorum group decides, only adds to view->notification
 * that it does. Returns whether the window has tripped without a group; even then the breaker may
 * not be open, because another thread has changed the phase first. `has_counted`: this call has
 * added a result to the part of now.
 */
static bool trip_if_due(struct breaker_view *view, bool has_counted)
{
	struct breaker_state after = view->snapshot.state;
	struct breaker_tally tally;
	enum algo_cause cause;

	if (!breaker_is_closed(&after))
		return false;
	breaker_view_tally(view, &tally);
	cause = breaker_trip_cause(&view->key.limit->breaker, &tally);
	if (cause == ALGO_BY_NOTHING) {
		bool has_one_record = view->key.count == 1;

		/* For a short span, further successes need not judge the window again. */
		if (has_counted && has_one_record && tally.calls >= view->key.limit->breaker.minimum)
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

/* Counts lost permits in the parts in which they timed out. Returns as trip_if_due. */
static bool count_lost_permits(struct breaker_view *view, const struct breaker_expiry *expiry)
{
	const struct breaker_params *params = &view->key.limit->breaker;
	struct breaker_results results = {.result = result_of_timeout(view)};

	for (unsigned parts_ago = 0; parts_ago < BREAKER_LOST_PARTS; parts_ago++) {
		results.count = expiry->lost_by_part[parts_ago];
		results.ended_at_ns = sat_sub(view->key.now_ns, parts_ago * params->part_ns);
		if (results.count > 0)
			breaker_record_count(view->key.limit, &view->key.states[0].at, &view->snapshot,
			                     &results, view->key.now_ns);
	}
	return trip_if_due(view, false);
}

/*
 * Reads the key. Counts the permits that have timed out, or, of probes, stores when they did.
 * Returns false if another thread has changed the phase, which these permits would have opened.
 */
static bool read_and_count_lost(struct breaker_view *view, struct breaker_list *list)
{
	struct breaker_expiry expiry = {.list = list};

	if (list) {
		newest_begin(&list->single_ends, list->single_ends.n);
		list->group_count = 0;
	}
	breaker_view_read(view, &expiry);
	if (expiry.lost_count == 0)
		return true;
	if (view->snapshot.state.phase == BREAKER_HALF_OPEN) {
		breaker_view_record_lost(view, &expiry);
		return true;
	}
	/* The window has tripped, and the breaker is still closed: the swap of the phase failed. */
	return !(count_lost_permits(view, &expiry) && breaker_is_closed(&view->snapshot.state));
}

/* Half-open: how many probes the phase counts as in flight and the records do not. */
static unsigned lost_probes(const struct breaker_view *view)
{
	const struct breaker_state *state = &view->snapshot.state;

	if (state->phase != BREAKER_HALF_OPEN)
		return 0;
	return (unsigned)sat_sub(state->probes_in_flight, view->snapshot.in_flight_of_phase);
}

/* Ends lost probes at the time at which they timed out, or now if that is not known. */
static void end_lost_probes(struct breaker_view *view, unsigned count)
{
	uint64_t now_ns = view->key.now_ns;
	uint64_t lost_ns = breaker_probes_lost_ns(&view->key.limit->breaker, view->probes_lost_at_ns,
	                                          view->snapshot.probes_lost_at_ns);

	breaker_phase_end_probes(view, result_of_timeout(view), count,
	                         lost_ns ? u64_min(lost_ns, now_ns) : now_ns);
}

/*
 * Reads the key, and counts permits that have timed out, until nothing changes: each call begins
 * so. In half-open, probes that the phase counts as in flight and the record does not are lost, for
 * whatever reason; they end here. `list` gets the permits in flight, unless it is NULL.
 */
void breaker_phase_update(struct breaker_view *view, struct breaker_list *list)
{
	for (;;) {
		unsigned lost;

		if (!read_and_count_lost(view, list))
			continue;
		lost = lost_probes(view);
		if (!reported_key_has_record(&view->key)) {
			/* The results of lost permits count in the newest table, so the key needs a record. */
			if ((lost == 0 && !view->snapshot.has_overdue) ||
			    breaker_phase_store_header(view, &view->snapshot.state) == HEADER_NO_CAPACITY)
				return;
		} else if (lost > 0) {
			end_lost_probes(view, lost);
		} else if (!view->key.limit->breaker.finished_only || !trip_if_due(view, false)) {
			return; /* a part that has finished since the last report may trip the window */
		}
	}
}
