/*
 * leases.c: acquires and releases the permits of a limit on concurrency. A permit is a *lease*, a
 * cell of the key's record that is taken until a release or until the lease ends.
 *
 * The key's *header*, a cell in the limit's table, counts nothing: it retains the record. Its word
 * stores a *span*: all leases have a lower index in the record. Each release raises the header's
 * version. The release of the last lease also marks the header as closing and then lets it end now,
 * so that other keys may take its cell (leases.h).
 */
#include "records/leases.h"

#include "base/os/fence.h"

#define SPAN_MASK RECORD_WORD_MASK

_Static_assert(ALGO_PERMITS_MAX <= SPAN_MASK, "a span fits in a header");

struct cell leases_make_cell(const struct algo_limit *limit, const struct algo_call *call,
                             uint64_t now_ns, uint32_t tag)
{
	return cell_make(tag, now_ns + limit->leases.lease_ns, leases_word(call->permit), CELL_PINNED);
}

static bool lease_matches(const struct leases_match *match, struct cell lease)
{
	return (match->is_any_permit || cell_word(lease) == match->permit_word) &&
	       (match->until_ns == 0 || cell_ahead_ns(lease, match->until_ns) == 0);
}

/* The cell of `lease` when it is free: without the generation PINNED. */
static struct cell free_cell_of_lease(struct cell lease)
{
	return cell_with_generation(lease, 0);
}

/* The same lease without its permit's id, so that no report or refund by the id finds it. */
static struct cell lease_without_permit(struct cell lease)
{
	return cell_with_word(lease, 0);
}

unsigned leases_span(struct cell header, const struct record *record)
{
	if (cell_tag(header) != record->tag || !cell_is_pinned(header))
		return 0;
	return (unsigned)u64_min(cell_word(header) & SPAN_MASK, record->width);
}

/* Adds the record's leases to `use`: how many are held, and when the first and last one end. */
void leases_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                 const struct record *record, struct leases_use *use)
{
	unsigned span = leases_span(header, record);
	uint64_t now_pinned = now_ns << 4 | CELL_PINNED; /* `high` of a lease that ends now */
	uint64_t held = 0;
	/* Times from now on as they stand in cells, in sixteenths of a nanosecond. */
	uint64_t first_less_1_16ths = UINT64_MAX, last_16ths = 0;

	for (unsigned i = 0; i < span; i++) { /* no branches, since a record may have 10,000 entries */
		struct cell lease = cell_peek(&record->cells[i]);
		int64_t ahead_16ths = (int64_t)(lease.high - now_pinned);
		bool is_pinned = (ahead_16ths & 15) == 0; /* the same low bits as `now_pinned` */
		bool is_held = (cell_tag(lease) == record->tag) & is_pinned & (ahead_16ths > 0);
		uint64_t ends_in_16ths = is_held ? (uint64_t)ahead_16ths : 0;

		held += is_held;
		/* 0 less 1 wraps to the greatest number, so a free entry is never the first. */
		first_less_1_16ths = u64_min(first_less_1_16ths, ends_in_16ths - 1);
		last_16ths = u64_max(last_16ths, ends_in_16ths);
	}
	use->held += held;
	if (held > 0)
		use->first_end_in_ns = u64_min(use->first_end_in_ns, (first_less_1_16ths + 1) >> 4);
	use->last_end_in_ns = u64_max(use->last_end_in_ns, last_16ths >> 4);
	use->has_too_far |= last_16ths >> 4 > limit->leases.lease_ns + ALGO_SKEW_NS;
}

/* Whether the header retains the record until `until_ns`, and its span allows `max` leases. */
bool leases_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                        uint64_t until_ns)
{
	return header_pins_record(header, tag, until_ns) &&
	       (cell_word(header) & SPAN_MASK) >= limit->leases.max;
}

/*
 * A header that fits for leases that begin now, and for an eighth of their time longer. It keeps
 * the version of the key's present header, and neither its end nor its span becomes less.
 */
struct cell leases_make_header(const struct algo_limit *limit, struct cell header, uint32_t tag,
                               uint64_t now_ns)
{
	uint64_t ahead_ns = limit->leases.lease_ns + limit->leases.lease_ns / 8;
	uint32_t word = 0, span = (uint32_t)limit->leases.max;

	if (cell_tag(header) == tag && cell_is_pinned(header)) {
		word = cell_word(header) & ~(SPAN_MASK | RECORD_CLOSING);
		if (cell_ahead_ns(header, now_ns) > 0) {
			span = (uint32_t)u64_max(span, cell_word(header) & SPAN_MASK);
			ahead_ns = u64_max(ahead_ns, (uint64_t)cell_ahead_ns(header, now_ns));
		}
	}
	return cell_make(tag, now_ns + ahead_ns, word | span, CELL_PINNED);
}

/* The spent header: it ends now, so other keys may take its cell although it is PINNED. */
static struct cell spent_header(struct cell header, uint64_t now_ns)
{
	return cell_make(cell_tag(header), now_ns, cell_word(header) & ~RECORD_CLOSING, CELL_PINNED);
}

/* The index at which the search for a permit's leases begins, in an acquire and in its release. */
static unsigned search_start(uint64_t until_ns, uint32_t permit_word, unsigned span)
{
	uint64_t until_in_cell = until_ns & UINT64_MAX >> 4; /* a cell stores 60 bits of it */

	return record_start(until_in_cell ^ permit_word, span);
}

/* Stores `lease` in up to `n` free entries. Returns how many. */
uint64_t leases_acquire(const struct algo_limit *limit, const struct record_state *state,
                        struct cell lease, uint64_t n, uint64_t now_ns)
{
	unsigned span = (unsigned)limit->leases.max, acquired = 0;
	unsigned index = search_start(lease.high >> 4, cell_word(lease), span);

	for (unsigned i = 0; i < span && acquired < n; i++, index = index + 1 == span ? 0 : index + 1) {
		struct cell before = record_load(&state->record, index);

		if (!leases_is_held(before, state->record.tag, now_ns))
			acquired += record_swap(state, index, before, lease);
	}
	fence_behind_swap(); /* all threads see the leases before the caller reads the header */
	return acquired;
}

/* Whether the first `span` entries of the record have no lease. */
static bool has_no_leases(const struct record_state *state, unsigned span, uint64_t now_ns)
{
	for (unsigned i = 0; i < span; i++)
		if (leases_is_held(cell_peek(&state->record.cells[i]), state->record.tag, now_ns))
			return false;
	return true;
}

/*
 * Raises the version of the header after a pass that released leases. The header was read before
 * that pass, which saw other leases held unless `none_held`. If other threads have changed the
 * header since, the entries are read again.
 *
 * If no leases are left, marks the header as closing in the same swap, reads the entries a second
 * time, and lets the header end if there are none still. An acquire that takes an entry either sees
 * afterwards that the header is closing, or took the entry before that second read. A limit without
 * keys has one header, whose cell no other key wants: it is never closed.
 */
static void update_header_after_release(const struct record_state *state,
                                        const struct leases_release *release, bool none_held)
{
	unsigned span = leases_span(state->header, &state->record);
	bool may_close = !release->limit_has_no_keys;
	bool closing = may_close && none_held;
	struct cell header = state->header, after = header_released(header, closing);

	while (!cell_swap(state->cell, header, after)) {
		header = record_header(state);
		span = leases_span(header, &state->record);
		if (span == 0)
			return; /* the cell is another key's by now */
		closing = may_close && has_no_leases(state, span, release->now_ns);
		after = header_released(header, closing);
	}
	fence_behind_swap(); /* all threads see the closing header before the second read */
	if (closing && has_no_leases(state, span, release->now_ns))
		cell_swap(state->cell, after, spent_header(after, release->now_ns));
}

/* How long until a lease ends; 0 for a free entry. */
static uint64_t lease_ends_in_ns(struct cell lease, uint32_t tag, uint64_t now_ns)
{
	return leases_is_held(lease, tag, now_ns) ? (uint64_t)cell_ahead_ns(lease, now_ns) : 0;
}

static void add_lease_use(const struct algo_limit *limit, uint64_t ends_in_ns,
                          struct leases_use *use)
{
	use->held++;
	use->first_end_in_ns = u64_min(use->first_end_in_ns, ends_in_ns);
	use->last_end_in_ns = u64_max(use->last_end_in_ns, ends_in_ns);
	use->has_too_far |= ends_in_ns > limit->leases.lease_ns + ALGO_SKEW_NS;
}

/*
 * Releases the lease at `index` if it matches. Once `count_max` are released, the others stay, but
 * lose their permit's id if the caller wishes. Returns whether the lease was released.
 */
static bool release_lease(const struct record_state *state, struct leases_release *release,
                          unsigned index)
{
	struct cell lease = record_load(&state->record, index);
	uint64_t ends_in_ns = lease_ends_in_ns(lease, state->record.tag, release->now_ns);
	bool is_newest = !release->newest || newest_includes(release->newest, ends_in_ns);

	if (ends_in_ns == 0 || !lease_matches(&release->match, lease) || !is_newest)
		return false;
	if (release->released_count == release->count_max) {
		if (release->clears_other_permits)
			record_swap(state, index, lease, lease_without_permit(lease));
		return false;
	}
	if (!record_swap(state, index, lease, free_cell_of_lease(lease)))
		return false;
	if (release->newest)
		newest_count_release(release->newest, ends_in_ns);
	release->released_count++;
	return true;
}

/*
 * Releases the matching leases of the record, and adds those that stay to `use`. The search begins
 * where the acquire of this permit began.
 */
void leases_release(const struct algo_limit *limit, const struct record_state *state,
                    struct leases_release *release, struct leases_use *use)
{
	const struct leases_match *match = &release->match;
	unsigned span = leases_span(state->header, &state->record);
	unsigned index = search_start(match->until_ns, match->permit_word, span);
	uint64_t released_before = release->released_count;
	uint64_t held_in_other_records = use->held; /* added by the caller's earlier calls */

	for (unsigned i = 0; i < span; i++, index = index + 1 == span ? 0 : index + 1) {
		struct cell lease = cell_peek(&state->record.cells[index]);
		uint64_t ends_in_ns = lease_ends_in_ns(lease, state->record.tag, release->now_ns);

		if (ends_in_ns == 0)
			continue;
		/* This match, of a read in two halves, only spares most entries a whole load. */
		if (!lease_matches(match, lease) || !release_lease(state, release, index))
			add_lease_use(limit, ends_in_ns, use);
	}
	if (release->released_count > released_before)
		update_header_after_release(state, release, use->held == held_in_other_records);
}

/* Calls `visit` with the end of each lease that has no permit's id. */
void leases_visit_unnamed(const struct algo_limit *limit, uint64_t now_ns,
                          const struct record_state *state, newest_visit *visit,
                          struct newest *newest)
{
	unsigned span = leases_span(state->header, &state->record);

	(void)limit; /* a parameter of the function type reported_key_ends */
	for (unsigned i = 0; i < span; i++) {
		struct cell lease = cell_peek(&state->record.cells[i]);
		uint64_t ends_in_ns = lease_ends_in_ns(lease, state->record.tag, now_ns);

		if (ends_in_ns > 0 && cell_word(lease) == 0)
			visit(newest, ends_in_ns);
	}
}

/*
 * After the clock was set back: makes leases that end too far ahead begin now. Adds all leases to
 * `use`.
 */
void leases_cut_back(const struct algo_limit *limit, const struct record_state *state,
                     uint64_t now_ns, struct leases_use *use)
{
	unsigned span = leases_span(state->header, &state->record);
	uint64_t lease_ns = limit->leases.lease_ns;

	for (unsigned index = 0; index < span; index++) {
		struct cell lease = record_load(&state->record, index);
		uint64_t ends_in_ns = lease_ends_in_ns(lease, state->record.tag, now_ns);

		if (ends_in_ns > lease_ns + ALGO_SKEW_NS) {
			record_swap(
			    state, index, lease,
			    cell_make(cell_tag(lease), now_ns + lease_ns, cell_word(lease), CELL_PINNED));
			ends_in_ns = lease_ns;
		}
		if (ends_in_ns > 0)
			add_lease_use(limit, ends_in_ns, use);
	}
}

/* Sets the rest of a decision, of which `out->allowed` is set. */
void leases_set_decision(const struct algo_limit *limit, const struct leases_use *use,
                         struct algo_decision *out)
{
	out->remaining = sat_sub(limit->leases.max, use->held);
	out->reset_after_ns = use->last_end_in_ns;
	if (!out->allowed)
		algo_decision_deny(out, WEIR_REASON_OVER_LIMIT,
		                   u64_min(limit->retry_ns, use->first_end_in_ns));
}

/* Adds each lease to the list of uses: one unit, its end, and its permit's id. */
static void read_lease_uses(const struct record_step *step, struct uses *uses)
{
	unsigned span = leases_span(step->header, step->record);

	for (unsigned i = 0; i < span; i++) {
		struct cell lease = record_load(step->record, i);
		uint64_t until_ns = step->now_ns + (uint64_t)cell_ahead_ns(lease, step->now_ns);

		if (leases_is_held(lease, step->record->tag, step->now_ns))
			uses_add(uses, (struct uses_entry){1, until_ns, cell_word(lease)});
	}
}

const struct record_ops record_leases = {
    .read_uses = read_lease_uses}; /* leases are acquired by leases_acquire, not by a step */
