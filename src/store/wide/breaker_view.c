/*
 * breaker_view.c: reads the state of a circuit breaker's key: its records in the newest and in the
 * former tables of the limit, as one.
 *
 * A limit that needed wider records has left former tables behind. Nothing new is stored in their
 * records: their permits and results count until they end, and each call adds them to those of the
 * newest record.
 */
#include "store/wide/breaker_view.h"

static bool has_former(const struct breaker_view *view)
{
	return __builtin_expect(view->key.count > 1, 0);
}

/*
 * Adds the in-flight entries of former tables, and takes the phase of the newest of them if the
 * newest table has no record. Drops former records without a live header from the key.
 */
static void read_former(struct breaker_view *view, struct breaker_expiry *expiry)
{
	struct reported_key *key = &view->key;
	size_t count = 1;

	for (size_t i = 1; i < key->count; i++) {
		const struct record_state *at = &key->states[i].at;
		bool is_first = count == 1;
		struct breaker_snapshot snapshot;

		if (!at->cell || !header_is_live(at->header, key->now_ns))
			continue;
		if (is_first && !reported_key_has_record(key)) {
			breaker_record_read_phase(key->limit, key->now_ns, &at->record, &snapshot);
			view->snapshot.state = snapshot.state;
		}
		breaker_record_add_in_flight(key->limit, key->now_ns, &at->record, &view->snapshot, expiry);
		key->states[count++] = key->states[i];
	}
	key->count = count;
}

/*
 * Reads the key anew. Unless `expiry` is NULL, permits that have timed out expire on the way. They
 * do not if the newest table has no record, because nothing could count them as lost then.
 */
void breaker_view_read(struct breaker_view *view, struct breaker_expiry *expiry)
{
	const struct record_state *at = &view->key.states[0].at;
	const struct algo_limit *limit;

	reported_key_read(&view->key);
	limit = view->key.limit;
	if (!reported_key_has_record(&view->key))
		expiry = NULL;
	if (reported_key_has_header(&view->key))
		breaker_record_adopt_layout(limit, at, view->key.now_ns);
	breaker_record_read(limit, view->key.now_ns, &at->record, &view->snapshot, expiry);
	if (has_former(view))
		read_former(view, expiry);
}

/* Half-open: stores when the probes timed out that a read has expired. */
void breaker_view_record_lost(struct breaker_view *view, const struct breaker_expiry *expiry)
{
	const struct breaker_params *params = &view->key.limit->breaker;

	view->probes_lost_at_ns = breaker_probes_lost_ns(
	    params, view->probes_lost_at_ns, breaker_probe_end_ns(params, expiry->first_lost_at_ns));
	view->probes_lost_at_ns = breaker_probes_lost_ns(
	    params, view->probes_lost_at_ns, breaker_probe_end_ns(params, expiry->last_lost_at_ns));
}

/* Releases permits of groups, those of the newest group first. */
static uint64_t release_from_groups(struct breaker_view *view, struct breaker_list *list,
                                    uint64_t n)
{
	uint32_t tag = view->key.states[0].at.record.tag;
	uint64_t released = 0;

	while (list->group_count > 0 && released < n) {
		struct breaker_group *groups = list->groups, *newest = groups;

		for (size_t i = 1; i < list->group_count; i++)
			newest = groups[i].ahead_ns > newest->ahead_ns ? &groups[i] : newest;
		released += breaker_group_release(view->key.limit, tag, newest, n - released);
		*newest = groups[--list->group_count];
	}
	return released;
}

/* Releases up to `n` single permits, the newest first, of all records. Returns how many. */
static uint64_t release_singles(struct breaker_view *view, struct newest *newest, uint64_t n)
{
	const struct reported_key *key = &view->key;
	uint64_t released = 0, last_remaining_ns = 0;

	if (n == 0 || newest->count == 0)
		return 0;
	/* `newest` has the ends of all singles, and then says which of them are the `n` newest. */
	reported_key_find_newest(key, breaker_record_visit_singles, n, newest);
	for (size_t i = 0; i < key->count; i++)
		released += breaker_record_release_newest(
		    key->limit, key->now_ns, &key->states[i].at.record, newest, &last_remaining_ns);
	view->snapshot.last_ends_in_ns = last_remaining_ns;
	return released;
}

/* Releases up to `n` listed permits. Those of the limit's present kind of entry come first. */
uint64_t breaker_view_release_newest(struct breaker_view *view, struct breaker_list *list,
                                     uint64_t n)
{
	bool bounded = view->key.limit->breaker.max_concurrent != 0;
	uint64_t released = bounded ? 0 : release_from_groups(view, list, n);

	released += release_singles(view, &list->single_ends, n - released);
	if (bounded && released < n)
		released += release_from_groups(view, list, n - released);
	view->snapshot.in_flight = sat_sub(view->snapshot.in_flight, released);
	if (view->snapshot.in_flight == 0)
		view->snapshot.last_ends_in_ns = 0;
	return released;
}

/* Sums up the window's results in all records. Returns for how long the newest one counts. */
uint64_t breaker_view_tally(const struct breaker_view *view, struct breaker_tally *tally)
{
	const struct reported_key *key = &view->key;
	uint64_t ahead_ns = breaker_record_tally(key->limit, &key->states[0].at.record, &view->snapshot,
	                                         key->now_ns, tally);
	struct breaker_snapshot snapshot;

	if (!has_former(view))
		return ahead_ns;
	snapshot = view->snapshot;
	snapshot.is_mixed = true; /* in a former record, too, results may be in any cell */
	for (size_t i = 1; i < key->count; i++)
		ahead_ns = u64_max(ahead_ns, breaker_record_add_tally(key->limit, &key->states[i].at.record,
		                                                      &snapshot, key->now_ns, tally));
	return ahead_ns;
}

/*
 * Finds the oldest record that seems to have the permit. The records are read from the newest to
 * the oldest. All groups of a newer one end later, so it seems to have the permits of the older
 * ones, too: the last that is found has it.
 */
static const struct record_state *find_in_records(const struct breaker_view *view,
                                                  struct breaker_permit *permit)
{
	const struct record_state *found = NULL;
	struct breaker_permit there = *permit;

	for (size_t i = 0; i < view->key.count; i++) {
		const struct record_state *at = &view->key.states[i].at;

		if (at->cell && breaker_record_has_permit(view->key.limit, at, &there)) {
			*permit = there;
			found = at;
		}
		there.index = 0; /* it was the index in this record */
	}
	return found;
}

/*
 * Where any cell may be an entry, searches single entries first: a permit that has one must not be
 * taken off a group.
 */
const struct record_state *breaker_view_find_permit(const struct breaker_view *view,
                                                    struct breaker_permit *permit)
{
	const struct record_state *found = NULL;

	permit->in_single_only = view->snapshot.is_mixed || has_former(view);
	if (permit->in_single_only)
		found = find_in_records(view, permit);
	if (found)
		return found;
	permit->in_single_only = false;
	return find_in_records(view, permit);
}

void breaker_view_expire_former(const struct breaker_view *view)
{
	for (size_t i = 1; i < view->key.count; i++)
		breaker_record_expire_all(view->key.limit, &view->key.states[i].at);
}
