/*
 * apply_concurrency.c: carries out calls on a key of a limit on concurrency.
 *
 * records/leases.h acquires and releases leases in one record. A key may have a record in the
 * limit's newest table and in former ones, and parameters may change meanwhile. An acquire
 * therefore
 *
 * - (1) reads all leases, and denies if others hold too many;
 * - (2) makes the header fit: present, not closing, and ending no earlier than the lease;
 * - (3) acquires leases;
 * - (4) checks that the header still fits; if not, it releases them and starts over.
 *
 * There may be leases beyond `max` entries, if `max` was lowered or the record has become wider.
 * Then (4) reads all leases again: of several calls that grant at once, the last to acquire sees
 * the others. docs/design/reported-states.md has the proof.
 */
#include "records/leases.h"
#include "store/wide/reported_key.h"

/* A key as one call reads it. */
struct lease_view {
	struct reported_key key;
	struct leases_use use;
};

static void begin_view(struct lease_view *view)
{
	reported_key_read(&view->key);
	view->use = (struct leases_use){.first_ns = UINT64_MAX};
}

static void read_lease_view(struct lease_view *view)
{
	const struct reported_key *key = &view->key;

	begin_view(view);
	for (size_t i = 0; i < key->count; i++)
		leases_read(key->limit, key->now_ns, key->states[i].at.header, &key->states[i].at.record,
		            &view->use);
}

/* Reads the view for an acquire. If the clock was set back, a second pass corrects the leases. */
static void read_and_correct(struct lease_view *view)
{
	const struct reported_key *key = &view->key;

	read_lease_view(view);
	if (!view->use.far)
		return;
	view->use = (struct leases_use){.first_ns = UINT64_MAX};
	for (size_t i = 0; i < key->count; i++)
		leases_cut_back(key->limit, &key->states[i].at, key->now_ns, &view->use);
}

/* The leases that an acquire has so far: `n` copies of `lease` in the record of `state`. */
struct acquired {
	struct wide_state state;
	const struct algo_limit *limit;
	struct cell lease;
	uint64_t n;
};

static void release_acquired(const struct reported_key *key, struct acquired *acquired)
{
	struct leases_use use = {.first_ns = UINT64_MAX};
	struct leases_release of = {
	    .match = {.until_ns = key->now_ns + acquired->limit->leases.lease_ns,
	              .word = cell_word(acquired->lease)},
	    .n = acquired->n,
	    .alone = !key->target->store,
	    .now_ns = key->now_ns};

	acquired->state.at.header = record_header(&acquired->state.at);
	leases_release(acquired->limit, &acquired->state.at, &of, &use);
	acquired->n = 0;
}

/*
 * Acquires the missing leases. Returns whether the grant is safe without reading all leases again.
 */
static bool acquire_missing(const struct reported_key *key, struct acquired *acquired,
                            uint64_t cost)
{
	const struct algo_limit *limit = key->limit;
	const struct record_state *at = &key->states[0].at;

	acquired->state = key->states[0];
	acquired->n += leases_acquire(limit, at, acquired->lease, cost - acquired->n, key->now_ns);
	return acquired->n == cost && key->count == 1 &&
	       leases_span(at->header, &at->record) == limit->leases.max &&
	       leases_header_fits(limit, record_header(at), at->record.tag,
	                          key->now_ns + limit->leases.lease_ns) &&
	       reported_key_is_current(key);
}

/* Fills in the decision of a grant. The view lacks `fresh` of the leases held now. */
static uint64_t grant_permit(struct lease_view *view, uint64_t fresh, struct algo_decision *out)
{
	const struct algo_limit *limit = view->key.limit;

	view->use.held += fresh;
	view->use.last_ns = u64_max(view->use.last_ns, limit->leases.lease_ns);
	leases_explain(limit, &view->use, out);
	return view->key.now_ns + limit->leases.lease_ns;
}

static bool has_capacity(const struct lease_view *view, uint64_t cost, uint64_t own)
{
	return sat_sub(view->use.held, own) + cost <= view->key.limit->leases.max;
}

static void peek_leases(struct lease_view *view, const struct algo_call *call,
                        struct algo_decision *out)
{
	do { /* a release in between may have freed the entry that was missing */
		read_lease_view(view);
		out->allowed = has_capacity(view, u64_max(call->cost, 1), 0);
	} while (!out->allowed && !reported_key_is_unchanged(&view->key));
	if (out->allowed && reported_key_is_full(&view->key))
		algo_decision_table_full(view->key.limit, out);
	else
		leases_explain(view->key.limit, &view->use, out);
}

static void release_matching(struct lease_view *view, struct leases_release *of,
                             struct algo_decision *out)
{
	const struct reported_key *key = &view->key;

	begin_view(view);
	for (size_t i = 0; i < key->count; i++)
		leases_release(key->limit, &key->states[i].at, of, &view->use);
	leases_explain(key->limit, &view->use, out);
}

/* Releases leases without a permit. noinline: the other calls then have no sample on the stack. */
__attribute__((noinline)) static void
release_newest_leases(struct lease_view *view, struct leases_release *of, struct algo_decision *out)
{
	struct newest newest;

	reported_key_read(&view->key);
	newest_begin(&newest, of->n);
	reported_key_visit(&view->key, leases_visit, newest_add_end, &newest);
	reported_key_find_newest(&view->key, leases_visit, of->n, &newest);
	of->newest = &newest;
	release_matching(view, of, out);
}

static void release_or_reset(struct lease_view *view, const struct algo_call *call,
                             struct algo_decision *out)
{
	bool resets = call->op == ALGO_RESET;
	struct leases_release of = {.match = {call->until_ns, leases_word(call->permit), resets},
	                            .n = resets ? UINT64_MAX : call->cost,
	                            .clears_permits = call->op == ALGO_REFUND_LAST &&
	                                              call->until_ns != 0 && call->cost > 0,
	                            .alone = !view->key.target->store,
	                            .now_ns = view->key.now_ns};

	if (!resets && call->permit == 0 && call->until_ns == 0 && call->cost > 0)
		release_newest_leases(view, &of, out);
	else
		release_matching(view, &of, out);
	out->allowed = of.freed > 0 || call->permit == 0;
}

/* Makes the header fit. The view of the leases stays valid. */
static enum header_result fit_lease_header(struct reported_key *key)
{
	const struct algo_limit *limit = key->limit;
	const struct record_state *at = &key->states[0].at;

	if (leases_header_fits(limit, at->header, at->record.tag, key->now_ns + limit->leases.lease_ns))
		return HEADER_STORED;
	return reported_key_store_header(
	    key, leases_raise_header(limit, at->header, at->record.tag, key->now_ns));
}

static uint64_t acquire_lease(struct lease_view *view, const struct algo_call *call,
                              struct algo_decision *out)
{
	struct reported_key *key = &view->key;
	struct acquired acquired;

	for (acquired.n = 0;;) {
		const struct record_state *at = &key->states[0].at;
		enum header_result stored;
		uint64_t missing;

		read_and_correct(view);
		if (acquired.n > 0 &&
		    (key->limit != acquired.limit || at->cell != acquired.state.at.cell)) {
			release_acquired(key, &acquired);
			continue;
		}
		out->allowed = has_capacity(view, call->cost, acquired.n);
		if (!out->allowed) {
			if (acquired.n == 0 && !reported_key_is_unchanged(key))
				continue;
			if (acquired.n > 0)
				release_acquired(key, &acquired);
			leases_explain(key->limit, &view->use, out);
			return 0;
		}
		acquired.limit = key->limit;
		acquired.lease = leases_make(key->limit, call, key->now_ns, at->record.tag);
		stored = fit_lease_header(key);
		if (stored == HEADER_NO_CAPACITY) {
			algo_decision_table_full(key->limit, out);
			return 0;
		}
		missing = call->cost - acquired.n;
		if (stored == HEADER_STORED &&
		    (missing == 0 || acquire_missing(key, &acquired, call->cost)))
			return grant_permit(view, missing, out);
	}
}

uint64_t leases_apply(const struct call_target *target, const struct algo_call *call,
                      struct algo_decision *out)
{
	struct lease_view view;

	reported_key_begin(&view.key, target);
	if (algo_consumes(call))
		return acquire_lease(&view, call, out);
	if (algo_op_requests(call->op))
		peek_leases(&view, call, out);
	else if (call->op == ALGO_COUNT) /* a lease is released only by the server that holds it */
		out->remaining = out->reset_after_ns = 0;
	else
		release_or_reset(&view, call, out);
	return 0;
}
