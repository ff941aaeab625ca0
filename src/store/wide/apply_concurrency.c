/*
 * apply_concurrency.c: carries out calls on a key of a limit on concurrency: acquires, releases and
 * counts its permits.
 *
 * A permit is a *lease*, a cell in the key's *record*. The *header*, the key's cell in a table of
 * the limit, retains the record. A key may have a record in the limit's newest table and in former
 * ones, and parameters may change meanwhile. An acquire therefore
 *
 * - (1) reads all leases, and denies if others hold too many;
 * - (2) makes the header fit: present, not closing, and ending no earlier than the lease;
 * - (3) acquires leases;
 * - (4) checks that the header still fits; if not, it starts over, with these leases if it can.
 *
 * New leases are in the first `max` cells of the newest record, so no more than `max` fit there.
 * But older leases may be in a former table's record, or in later cells, since `max` was greater.
 * Then (4) reads all leases again: of several calls that grant at once, the last to acquire finds
 * the leases of the others. docs/design/reported-states.md has the proof.
 */
#include "records/leases.h"
#include "store/wide/reported_key.h"

/* A key as one call reads it. */
struct lease_view {
	struct reported_key key;
	struct leases_use use;
};

/* Reads the key's headers. The caller then reads or releases the leases. */
static void read_lease_headers(struct lease_view *view)
{
	reported_key_read(&view->key);
	view->use = LEASES_USE_NONE;
}

static void read_lease_view(struct lease_view *view)
{
	const struct reported_key *key = &view->key;

	read_lease_headers(view);
	for (size_t i = 0; i < key->count; i++)
		leases_read(key->limit, key->now_ns, key->states[i].at.header, &key->states[i].at.record,
		            &view->use);
}

/* Reads the view for an acquire. If the clock was set back, a second pass corrects the leases. */
static void read_and_cut_back(struct lease_view *view)
{
	const struct reported_key *key = &view->key;

	read_lease_view(view);
	if (!view->use.has_too_far)
		return;
	view->use = LEASES_USE_NONE;
	for (size_t i = 0; i < key->count; i++)
		leases_cut_back(key->limit, &key->states[i].at, key->now_ns, &view->use);
}

/* The leases that an acquire has so far: copies of `lease` in the record of `state`. */
struct acquired {
	struct wide_state state;
	const struct algo_limit *limit;
	struct cell lease;
	uint64_t lease_count;
};

/* The one state of such a limit is in no store. */
static bool limit_has_no_keys(const struct reported_key *key)
{
	return !key->target->store;
}

/*
 * Releases the leases of an acquire that starts over or is denied. Their end is the same in all its
 * passes, because now_ns is.
 */
static void release_acquired(const struct reported_key *key, struct acquired *acquired)
{
	struct leases_use use = LEASES_USE_NONE;
	struct leases_release release = {
	    .match = {.until_ns = key->now_ns + acquired->limit->leases.lease_ns,
	              .permit_word = cell_word(acquired->lease)},
	    .count_max = acquired->lease_count,
	    .limit_has_no_keys = limit_has_no_keys(key),
	    .now_ns = key->now_ns};

	acquired->state.at.header = record_header(&acquired->state.at); /* others may have changed it */
	leases_release(acquired->limit, &acquired->state.at, &release, &use);
	acquired->lease_count = 0;
}

/*
 * Steps (3) and (4): acquires the leases that are missing for `cost`. Returns whether there are as
 * many and the header still fits, and all leases are in the first `max` cells of one record, so
 * that the caller need not read them again.
 */
static bool acquire_missing(const struct reported_key *key, struct acquired *acquired,
                            uint64_t cost)
{
	const struct algo_limit *limit = key->limit;
	const struct record_state *at = &key->states[0].at;
	bool all_are_in_first_cells;

	acquired->state = key->states[0];
	acquired->lease_count +=
	    leases_acquire(limit, at, acquired->lease, cost - acquired->lease_count, key->now_ns);
	all_are_in_first_cells =
	    key->count == 1 && leases_span(at->header, &at->record) == limit->leases.max;
	return acquired->lease_count == cost && all_are_in_first_cells &&
	       leases_header_fits(limit, record_header(at), at->record.tag,
	                          key->now_ns + limit->leases.lease_ns) &&
	       reported_key_is_current(key);
}

/* Sets the decision of a grant, after whose read `acquired` leases were added. Returns its end. */
static uint64_t grant_permit(struct lease_view *view, uint64_t acquired, struct algo_decision *out)
{
	const struct algo_limit *limit = view->key.limit;

	view->use.held += acquired;
	view->use.last_end_in_ns = u64_max(view->use.last_end_in_ns, limit->leases.lease_ns);
	leases_set_decision(limit, &view->use, out);
	return view->key.now_ns + limit->leases.lease_ns;
}

static bool leases_have_capacity(const struct lease_view *view, uint64_t cost, uint64_t own)
{
	return sat_sub(view->use.held, own) + cost <= view->key.limit->leases.max;
}

static void peek_leases(struct lease_view *view, const struct algo_call *call,
                        struct algo_decision *out)
{
	do { /* a release in between may have freed the entry that was missing */
		read_lease_view(view);
		out->allowed = leases_have_capacity(view, u64_max(call->cost, 1), 0);
	} while (!out->allowed && !reported_key_is_unchanged(&view->key));
	if (out->allowed && reported_key_is_full(&view->key))
		algo_decision_table_full(view->key.limit, out);
	else
		leases_set_decision(view->key.limit, &view->use, out);
}

/* Releases the matching leases of all the key's records, and sets the decision. */
static void release_matching(struct lease_view *view, struct leases_release *release,
                             struct algo_decision *out)
{
	const struct reported_key *key = &view->key;

	read_lease_headers(view);
	for (size_t i = 0; i < key->count; i++)
		leases_release(key->limit, &key->states[i].at, release, &view->use);
	leases_set_decision(key->limit, &view->use, out);
}

/*
 * Releases the newest leases that have no permit's id. noinline: the other calls then have no
 * struct newest, a sample of ends, on the stack.
 */
__attribute__((noinline)) static void release_newest_leases(struct lease_view *view,
                                                            struct leases_release *release,
                                                            struct algo_decision *out)
{
	struct newest newest;

	reported_key_read(&view->key);
	newest_begin(&newest, release->count_max);
	reported_key_visit(&view->key, leases_visit_unnamed, newest_add_end, &newest);
	reported_key_find_newest(&view->key, leases_visit_unnamed, release->count_max, &newest);
	release->newest = &newest;
	release_matching(view, release, out);
}

/*
 * Releases `cost` leases. With a permit's id: those of the permit. Without: leases of no permit,
 * those that end at `until_ns` or, if that is 0, the newest ones. A reset releases all.
 */
static void release_or_reset(struct lease_view *view, const struct algo_call *call,
                             struct algo_decision *out)
{
	bool resets = call->op == ALGO_RESET;
	bool is_last_of_permit = call->op == ALGO_REFUND_LAST && call->until_ns != 0 && call->cost > 0;
	bool names_no_lease = call->permit == 0 && call->until_ns == 0;
	struct leases_release release = {.match = {.until_ns = call->until_ns,
	                                           .permit_word = leases_word(call->permit),
	                                           .is_any_permit = resets},
	                                 .count_max = resets ? UINT64_MAX : call->cost,
	                                 .clears_other_permits = is_last_of_permit,
	                                 .limit_has_no_keys = limit_has_no_keys(&view->key),
	                                 .now_ns = view->key.now_ns};

	if (!resets && names_no_lease && call->cost > 0)
		release_newest_leases(view, &release, out);
	else
		release_matching(view, &release, out);
	out->allowed = release.released_count > 0 || call->permit == 0;
}

/* Step (2). The view of the leases stays valid. */
static enum header_result make_header_fit(struct reported_key *key)
{
	const struct algo_limit *limit = key->limit;
	const struct record_state *at = &key->states[0].at;

	if (leases_header_fits(limit, at->header, at->record.tag, key->now_ns + limit->leases.lease_ns))
		return HEADER_STORED;
	return reported_key_store_header(
	    key, leases_make_header(limit, at->header, at->record.tag, key->now_ns));
}

/* Repeats steps (1) to (4) until they decide. Returns the end of the permit, or 0 if denied. */
static uint64_t acquire_permit(struct lease_view *view, const struct algo_call *call,
                               struct algo_decision *out)
{
	struct reported_key *key = &view->key;
	struct acquired acquired;

	for (acquired.lease_count = 0;;) {
		const struct record_state *at = &key->states[0].at;
		bool has_leases = acquired.lease_count > 0; /* of the pass before */
		enum header_result stored;
		uint64_t missing;

		read_and_cut_back(view); /* (1), and (4) if it has leases */
		if (has_leases && (key->limit != acquired.limit || at->cell != acquired.state.at.cell)) {
			release_acquired(key, &acquired); /* they are in a record that was replaced */
			continue;
		}
		out->allowed = leases_have_capacity(view, call->cost, acquired.lease_count);
		if (!out->allowed && has_leases) {
			release_acquired(key, &acquired);
		} else if (!out->allowed && !reported_key_is_unchanged(key)) {
			continue; /* a release in between may have freed the entry that was missing */
		}
		if (!out->allowed) {
			leases_set_decision(key->limit, &view->use, out);
			return 0;
		}
		acquired.limit = key->limit;
		acquired.lease = leases_make_cell(key->limit, call, key->now_ns, at->record.tag);
		stored = make_header_fit(key); /* (2) */
		if (stored == HEADER_NO_CAPACITY) { /* the key has no header, so no leases to release */
			algo_decision_table_full(key->limit, out);
			return 0;
		}
		missing = call->cost - acquired.lease_count; /* 0: (1) has just read them with all others */
		if (stored == HEADER_STORED && /* (3) */
		    (missing == 0 || acquire_missing(key, &acquired, call->cost)))
			return grant_permit(view, missing, out);
	}
}

/* Returns the end of the permit that an acquire gives, or 0. */
uint64_t leases_apply(const struct call_target *target, const struct algo_call *call,
                      struct algo_decision *out)
{
	struct lease_view view;

	reported_key_init(&view.key, target);
	if (algo_consumes(call))
		return acquire_permit(&view, call, out);
	if (algo_op_requests(call->op))
		peek_leases(&view, call, out);
	else if (call->op == ALGO_COUNT) /* another server's lease; outcomes do not count here */
		out->remaining = out->reset_after_ns = 0;
	else
		release_or_reset(&view, call, out);
	return 0;
}
