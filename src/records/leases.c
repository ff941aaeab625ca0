#include "records/leases.h"

#include "base/os/fence.h"

#define SPAN RECORD_WORD_MASK

_Static_assert(ALGO_PERMITS_MAX <= SPAN, "a span fits in a head");

struct cell leases_make(const struct algo_limit *limit, const struct algo_call *call,
                        uint64_t now_ns, uint32_t tag)
{
	return cell_make(tag, now_ns + limit->leases.lease_ns, leases_word(call->permit), CELL_PINNED);
}

static bool lease_matches(const struct leases_match *match, struct cell lease)
{
	return (match->any_word || cell_word(lease) == match->word) &&
	       (match->until_ns == 0 || cell_ahead_ns(lease, match->until_ns) == 0);
}

/* The cell of `lease` when it is free. */
static struct cell released_lease(struct cell lease)
{
	lease.high &= ~UINT64_C(15);
	return lease;
}

unsigned leases_span(struct cell header, const struct record *record)
{
	if (cell_tag(header) != record->tag || !cell_is_pinned(header))
		return 0;
	return (unsigned)u64_min(cell_word(header) & SPAN, record->width);
}

void leases_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                 const struct record *record, struct leases_use *use)
{
	unsigned span = leases_span(header, record);
	uint64_t held = 0, first = UINT64_MAX, last = 0; /* 1/16 ns, from now on */

	for (unsigned i = 0; i < span; i++) { /* no branches, since a record may have 10,000 entries */
		struct cell lease = cell_peek(&record->cells[i]);
		int64_t ahead = (int64_t)(lease.high - (now_ns << 4 | CELL_PINNED));
		bool is_held = (cell_tag(lease) == record->tag) & ((ahead & 15) == 0) & (ahead > 0);
		uint64_t mine = is_held ? (uint64_t)ahead : 0;

		held += is_held;
		first = u64_min(first, mine - 1); /* wraps to the greatest number for a free entry */
		last = u64_max(last, mine);
	}
	use->held += held;
	use->first_ns = u64_min(use->first_ns, first == UINT64_MAX ? first : (first + 1) >> 4);
	use->last_ns = u64_max(use->last_ns, last >> 4);
	use->far |= last >> 4 > limit->leases.lease_ns + ALGO_SKEW_NS;
}

bool leases_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                        uint64_t until_ns)
{
	return header_pins_record(header, tag, until_ns) &&
	       (cell_word(header) & SPAN) >= limit->leases.max;
}

struct cell leases_raise_header(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                uint64_t now_ns)
{
	uint64_t ahead_ns = limit->leases.lease_ns + limit->leases.lease_ns / 8;
	uint32_t word = 0, span = (uint32_t)limit->leases.max;

	if (cell_tag(header) == tag && cell_is_pinned(header)) {
		word = cell_word(header) & ~(SPAN | RECORD_CLOSING);
		if (cell_ahead_ns(header, now_ns) > 0) {
			span = (uint32_t)u64_max(span, cell_word(header) & SPAN);
			ahead_ns = u64_max(ahead_ns, (uint64_t)cell_ahead_ns(header, now_ns));
		}
	}
	return cell_make(tag, now_ns + ahead_ns, word | span, CELL_PINNED);
}

/* The spent header: other keys may take its cell. */
static struct cell spent_header(struct cell header, uint64_t now_ns)
{
	return cell_make(cell_tag(header), now_ns, cell_word(header) & ~RECORD_CLOSING, CELL_PINNED);
}

uint64_t leases_acquire(const struct algo_limit *limit, const struct record_state *state,
                        struct cell lease, uint64_t n, uint64_t now_ns)
{
	unsigned span = (unsigned)limit->leases.max, acquired = 0;
	unsigned index = record_start(lease.high >> 4 ^ cell_word(lease), span);

	for (unsigned i = 0; i < span && acquired < n; i++, index = index + 1 == span ? 0 : index + 1) {
		struct cell before = record_load(&state->record, index);

		if (!leases_is_held(before, state->record.tag, now_ns))
			acquired += record_swap(state, index, before, lease);
	}
	fence_behind_swap(); /* all threads see the leases before the caller reads the header */
	return acquired;
}

/* Whether the first `span` entries have no lease. */
static bool record_is_idle(const struct record_state *state, unsigned span, uint64_t now_ns)
{
	for (unsigned i = 0; i < span; i++)
		if (leases_is_held(cell_peek(&state->record.cells[i]), state->record.tag, now_ns))
			return false;
	return true;
}

/*
 * Raises the version of the header after a pass that released leases. The header was read before
 * that pass, which found other leases unless `idle`. If the header has changed since, other threads
 * have released leases at the same time, and the entries are read again.
 *
 * An acquire that takes an entry either sees afterwards that the header is closing, or took the
 * entry before the second read here.
 */
static void count_release(const struct record_state *state, const struct leases_release *release,
                          bool idle)
{
	unsigned span = leases_span(state->header, &state->record);
	bool closing = idle && !release->alone;
	struct cell header = state->header, after = header_released(header, closing);

	while (!cell_swap(state->cell, header, after)) {
		header = record_header(state);
		span = leases_span(header, &state->record);
		if (span == 0)
			return; /* the cell is another key's by now */
		closing = !release->alone && record_is_idle(state, span, release->now_ns);
		after = header_released(header, closing);
	}
	fence_behind_swap(); /* all threads see the closing header before the second read */
	if (closing && record_is_idle(state, span, release->now_ns))
		cell_swap(state->cell, after, spent_header(after, release->now_ns));
}

/* How far ahead a lease ends; 0 for a free entry. */
static uint64_t lease_ahead_ns(struct cell lease, uint32_t tag, uint64_t now_ns)
{
	return leases_is_held(lease, tag, now_ns) ? (uint64_t)cell_ahead_ns(lease, now_ns) : 0;
}

static void add_lease_use(const struct algo_limit *limit, uint64_t ahead_ns, struct leases_use *use)
{
	use->held++;
	use->first_ns = u64_min(use->first_ns, ahead_ns);
	use->last_ns = u64_max(use->last_ns, ahead_ns);
	use->far |= ahead_ns > limit->leases.lease_ns + ALGO_SKEW_NS;
}

/*
 * Releases a lease that matches, or clears its permit once `n` are released. Returns whether it was
 * released.
 */
static bool release_lease(const struct record_state *state, struct leases_release *release,
                          unsigned index)
{
	struct cell lease = record_load(&state->record, index), nameless = lease;
	uint64_t ahead_ns = lease_ahead_ns(lease, state->record.tag, release->now_ns);
	bool is_newest = !release->newest || newest_includes(release->newest, ahead_ns);

	if (ahead_ns == 0 || !lease_matches(&release->match, lease) || !is_newest)
		return false;
	if (release->freed == release->n) {
		nameless.low = lease.low >> 32 << 32;
		if (release->clears_permits)
			record_swap(state, index, lease, nameless);
		return false;
	}
	if (!record_swap(state, index, lease, released_lease(lease)))
		return false;
	if (release->newest)
		newest_count_release(release->newest, ahead_ns);
	release->freed++;
	return true;
}

void leases_release(const struct algo_limit *limit, const struct record_state *state,
                    struct leases_release *release, struct leases_use *use)
{
	const struct leases_match *match = &release->match;
	unsigned span = leases_span(state->header, &state->record);
	unsigned index = record_start((match->until_ns & UINT64_MAX >> 4) ^ match->word, span);
	uint64_t before = release->freed, others = use->held;

	for (unsigned i = 0; i < span; i++, index = index + 1 == span ? 0 : index + 1) {
		struct cell lease = cell_peek(&state->record.cells[index]);
		uint64_t ahead_ns = lease_ahead_ns(lease, state->record.tag, release->now_ns);

		if (ahead_ns > 0 && !(lease_matches(match, lease) && release_lease(state, release, index)))
			add_lease_use(limit, ahead_ns, use);
	}
	if (release->freed > before)
		count_release(state, release, use->held == others);
}

void leases_visit(const struct algo_limit *limit, uint64_t now_ns, const struct record_state *state,
                  newest_visit *visit, struct newest *newest)
{
	unsigned span = leases_span(state->header, &state->record);

	(void)limit; /* the function is a reported_key_ends */
	for (unsigned i = 0; i < span; i++) {
		struct cell lease = cell_peek(&state->record.cells[i]);
		uint64_t ahead_ns = lease_ahead_ns(lease, state->record.tag, now_ns);

		if (ahead_ns > 0 && cell_word(lease) == 0)
			visit(newest, ahead_ns);
	}
}

void leases_cut_back(const struct algo_limit *limit, const struct record_state *state,
                     uint64_t now_ns, struct leases_use *use)
{
	unsigned span = leases_span(state->header, &state->record);
	uint64_t lease_ns = limit->leases.lease_ns;

	for (unsigned index = 0; index < span; index++) {
		struct cell lease = record_load(&state->record, index);
		uint64_t ahead_ns = lease_ahead_ns(lease, state->record.tag, now_ns);

		if (ahead_ns > lease_ns + ALGO_SKEW_NS) {
			record_swap(
			    state, index, lease,
			    cell_make(cell_tag(lease), now_ns + lease_ns, cell_word(lease), CELL_PINNED));
			ahead_ns = lease_ns;
		}
		if (ahead_ns > 0)
			add_lease_use(limit, ahead_ns, use);
	}
}

void leases_explain(const struct algo_limit *limit, const struct leases_use *use,
                    struct algo_decision *out)
{
	out->remaining = sat_sub(limit->leases.max, use->held);
	out->reset_after_ns = use->last_ns;
	if (!out->allowed)
		algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, u64_min(limit->retry_ns, use->first_ns));
}

static void read_leases(const struct record_step *step, struct uses *uses)
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
    .read_uses = read_leases}; /* leases are acquired by leases_acquire, not by a step */
