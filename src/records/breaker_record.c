/*
 * breaker_record.c: acquires and releases the permits of a circuit breaker's key, and decides at
 * once while the key is *quiescent*: then nothing but a bad result changes its phase, so a call
 * reads few cells.
 *
 * The key has a *record*, an array of cells. A cell that counts permits in flight is an *entry*:
 *
 * - a single entry, of one permit, if `max_concurrent` bounds these;
 * - otherwise a shared entry, of all permits that were given at about the same time. The record has
 *   four *stripes*, each with all cells, so that threads seldom write the same cell.
 *
 * A record is *mixed* after a reload that gave its cells another meaning: then any cell may be an
 * entry (breaker_record.h). The key's *header*, its cell in a table, only retains the record.
 */
#include "records/breaker_record.h"
#include "records/breaker_cells.h"

/* How long a record must be retained: for permits, then for a window that counts their results. */
static uint64_t retention_ns(const struct algo_limit *limit, const struct breaker_state *state,
                             uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	uint64_t window_ns =
	    params->part_ns ? (params->parts + 2) * params->part_ns : BREAKER_RETENTION_MIN_NS;

	return u64_max(params->timeout_ns + breaker_in_flight_part_ns(params) + window_ns,
	               u64_min(breaker_ttl_ns(params, state, now_ns), ALGO_HORIZON_NS / 2));
}

static struct cell make_in_flight_entry(const struct breaker_params *params, uint32_t tag,
                                        uint64_t until_ns, uint32_t count)
{
	return cell_make(tag, until_ns, count, params->in_flight_mark);
}

/* The index of the entry that counts permits given at `start_ns` together. */
static unsigned index_of_in_flight_part(const struct breaker_params *params, uint64_t start_ns,
                                        unsigned stripe)
{
	return breaker_in_flight_at(params) + stripe * breaker_stride(params) +
	       (unsigned)(breaker_in_flight_part(params, start_ns) % BREAKER_IN_FLIGHT_PARTS);
}

/*
 * Adds a permit to the entry that counts those of its time in its stripe, and sets when the last of
 * these ends. If a clock ahead of this one has reused the entry for a later part of time, the
 * permit ends with those of that part, so that its report finds them. Returns BREAKER_FULL if the
 * entry's count is full, or the cell has a single entry from before a reload.
 */
static enum breaker_acquired acquire_shared_entry(const struct breaker_params *params,
                                                  const struct record_state *at,
                                                  struct breaker_permit *permit, uint64_t now_ns,
                                                  uint64_t *last_ns)
{
	unsigned index = index_of_in_flight_part(params, permit->start_ns, permit->stripe);
	struct cell before = record_load(&at->record, index), after;
	uint64_t until_ns = permit->until_ns;
	uint32_t count = 0;

	if (breaker_is_shared_entry(params, before, at->record.tag)) {
		int64_t more_ns = cell_ahead_ns(before, until_ns);

		if (cell_ahead_ns(before, now_ns) <= 0)
			return BREAKER_AGAIN; /* the former permits have to be expired first */
		count = cell_word(before);
		until_ns += more_ns > 0 ? (uint64_t)more_ns : 0;
		if (count == BREAKER_IN_FLIGHT_MAX)
			return BREAKER_FULL;
		if (more_ns >= (int64_t)breaker_in_flight_part_ns(params)) {
			permit->start_ns += (uint64_t)more_ns;
			permit->until_ns = until_ns;
		}
	} else if (breaker_is_in_flight(params, before, at->record.tag)) {
		return BREAKER_FULL;
	}
	*last_ns = until_ns;
	after = make_in_flight_entry(params, at->record.tag, until_ns, count + 1);
	return record_swap(at, index, before, after) ? BREAKER_ACQUIRED : BREAKER_AGAIN;
}

/* The indexes at which a permit may have a single entry; the search begins `start` after the first.
 */
struct entry_range {
	unsigned first_index, count, start;
	uint64_t until_ns;
};

/* Whether a cell has results that may still count. */
static bool cell_has_results(struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag && cell_word(cell) >= BREAKER_NAME_BIT;
}

/* Stores a permit in the first free cell of a range, or in one that has results: those move. */
static enum breaker_acquired acquire_single_entry(const struct algo_limit *limit,
                                                  const struct record_state *at,
                                                  const struct breaker_snapshot *snapshot,
                                                  struct entry_range range, uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	struct cell after = cell_make(at->record.tag, range.until_ns, 1,
	                              params->in_flight_mark | BREAKER_SINGLE),
	            results;
	uint32_t tag = at->record.tag;
	unsigned with_results = 0; /* the index of a cell with results; 0 for none */

	for (unsigned n = 0; n < range.count; n++) {
		unsigned index = range.first_index + (range.start + n) % range.count;
		struct cell before = record_load(&at->record, index);

		if (breaker_is_in_flight(params, before, tag))
			continue;
		if (!cell_has_results(before, tag)) {
			if (record_swap(at, index, before, after))
				return BREAKER_ACQUIRED;
		} else if (with_results == 0) {
			with_results = index;
		}
	}
	if (with_results == 0)
		return BREAKER_FULL;
	/* Results are moved only if no other entry is free. */
	results = record_load(&at->record, with_results);
	if (!cell_has_results(results, tag) || !record_swap(at, with_results, results, after))
		return BREAKER_AGAIN;
	breaker_record_move_counts(limit, at, snapshot, results, now_ns);
	return BREAKER_ACQUIRED;
}

/* Marks the record as mixed for as long as its present cells may count. */
static void mark_mixed(const struct algo_limit *limit, const struct record_state *at,
                       struct cell layout, uint64_t now_ns)
{
	static const struct breaker_state closed = {.phase = BREAKER_CLOSED};
	uint64_t until_ns = now_ns + retention_ns(limit, &closed, now_ns);

	record_swap(at, BREAKER_LAYOUT_AT, layout,
	            cell_make(at->record.tag, until_ns, limit->breaker.layout, 0));
}

void breaker_record_adopt_layout(const struct algo_limit *limit, const struct record_state *at,
                                 uint64_t now_ns)
{
	struct cell layout = record_load(&at->record, BREAKER_LAYOUT_AT);
	uint32_t tag = at->record.tag, own = limit->breaker.layout;

	if (cell_tag(layout) != tag) { /* the record is new */
		record_swap(at, BREAKER_LAYOUT_AT, layout, cell_make(tag, now_ns, own, 0));
	} else if (cell_word(layout) != own) {
		mark_mixed(limit, at, layout, now_ns);
		record_swap(at, BREAKER_QUIESCENT_AT, record_load(&at->record, BREAKER_QUIESCENT_AT),
		            (struct cell){0, 0});
	}
}

/*
 * Adds a permit: to a single entry if max_concurrent bounds these, otherwise to a shared one. If
 * the shared one is full, the permit gets a single entry in any cell, as in a mixed record.
 */
enum breaker_acquired breaker_record_acquire(const struct algo_limit *limit,
                                             const struct record_state *at,
                                             const struct breaker_snapshot *snapshot,
                                             struct breaker_permit *permit, uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	unsigned first_entry = breaker_in_flight_at(params);
	struct entry_range range = {first_entry, params->max_concurrent, 0, permit->until_ns};
	enum breaker_acquired acquired;
	uint64_t last_ns;

	if (params->max_concurrent) {
		range.start = record_start(permit->until_ns, params->max_concurrent);
		return acquire_single_entry(limit, at, snapshot, range, now_ns);
	}
	acquired = acquire_shared_entry(params, at, permit, now_ns, &last_ns);
	if (acquired != BREAKER_FULL)
		return acquired;
	range.count = at->record.width - first_entry;
	mark_mixed(limit, at, record_load(&at->record, BREAKER_LAYOUT_AT), now_ns);
	return acquire_single_entry(limit, at, snapshot, range, now_ns);
}

/*
 * Whether a shared entry counts a permit that ends at `until_ns`. All permits of an entry are of
 * one part of time. One that ends later by a part or more has been reused: the permit has expired,
 * although the reporter's clock, which lags, is before the permit's end.
 */
static bool entry_has_permit(const struct breaker_params *params, struct cell entry,
                             uint64_t until_ns)
{
	int64_t later_ns = cell_ahead_ns(entry, until_ns);

	return later_ns >= 0 && later_ns < (int64_t)breaker_in_flight_part_ns(params);
}

/*
 * Finds the entry that the permit shares with others of its time, in the permit's stripe; without
 * an id it may be in any later stripe, too. Returns its index, or 0.
 */
static unsigned find_shared_entry(const struct breaker_params *params,
                                  const struct record_state *at, struct breaker_permit permit,
                                  struct cell *cell)
{
	unsigned index = index_of_in_flight_part(params, permit.start_ns, permit.stripe);

	for (;;) {
		if (index >= at->record.width)
			return 0;
		*cell = record_load(&at->record, index);
		if (breaker_is_shared_entry(params, *cell, at->record.tag) &&
		    entry_has_permit(params, *cell, permit.until_ns))
			return index;
		if (!permit.has_no_id || ++permit.stripe == breaker_stripes(params))
			return 0;
		index += breaker_stride(params);
	}
}

/* Whether a cell is the entry of one permit that ends at `until_ns`. */
static bool cell_is_of_permit(const struct breaker_params *params, struct cell cell, uint32_t tag,
                              uint64_t until_ns)
{
	return breaker_is_in_flight(params, cell, tag) && breaker_entry_is_single(cell) &&
	       cell_ahead_ns(cell, until_ns) == 0;
}

/*
 * Finds the permit's single entry: probably near the index where the acquire's search began,
 * otherwise anywhere. Returns its index, or 0.
 */
static unsigned find_single_entry(const struct breaker_params *params,
                                  const struct record_state *at, struct breaker_permit permit,
                                  struct cell *cell)
{
	unsigned first = BREAKER_FIRST_STRIPE, width = at->record.width, i;

	i = breaker_in_flight_at(params) + record_start(permit.until_ns, params->max_concurrent);
	i = i < width ? i : first;
	for (unsigned n = first; n < width; n++, i = i + 1 < width ? i + 1 : first) {
		*cell = record_load(&at->record, i);
		if (cell_is_of_permit(params, *cell, at->record.tag, permit.until_ns))
			return i;
	}
	return 0;
}

/* Finds the shared entry of a permit from before max_concurrent was set. Returns 0 without one. */
__attribute__((noinline, cold)) static unsigned
find_shared_before_bound(const struct breaker_params *params, const struct record_state *at,
                         struct breaker_permit permit, struct cell *cell)
{
	struct breaker_params unbounded = *params;

	unbounded.max_concurrent = 0;
	unbounded.in_flight_mark &= (uint8_t)~BREAKER_SINGLE;
	permit.stripe = breaker_stripes(&unbounded) > 1 ? permit.id_stripe : 0;
	return find_shared_entry(&unbounded, at, permit, cell);
}

/*
 * Finds the entry that counts a permit, first where it was found before, then of the kind that the
 * limit uses, then of the other kind, from before a reload. Returns its index, or 0.
 */
static unsigned find_permit(const struct algo_limit *limit, const struct record_state *at,
                            struct breaker_permit permit, struct cell *cell)
{
	const struct breaker_params *params = &limit->breaker;
	bool may_be_shared = !permit.in_single_only;
	unsigned index = 0;

	if (permit.index != 0) {
		*cell = record_load(&at->record, permit.index);
		if (cell_is_of_permit(params, *cell, at->record.tag, permit.until_ns))
			return permit.index;
	}
	if (may_be_shared && params->max_concurrent == 0)
		index = find_shared_entry(params, at, permit, cell);
	if (index == 0)
		index = find_single_entry(params, at, permit, cell);
	if (index == 0 && may_be_shared && params->max_concurrent != 0)
		index = find_shared_before_bound(params, at, permit, cell);
	return index;
}

bool breaker_record_has_permit(const struct algo_limit *limit, const struct record_state *at,
                               struct breaker_permit *permit)
{
	struct cell cell;

	permit->index = find_permit(limit, at, *permit, &cell);
	return permit->index != 0;
}

bool breaker_record_release(const struct algo_limit *limit, const struct record_state *at,
                            struct breaker_permit permit)
{
	struct cell before, after;
	unsigned index;

	do {
		index = find_permit(limit, at, permit, &before);
		if (index == 0)
			return false;
		after = (struct cell){before.low - 1, before.high};
	} while (!cell_swap(&at->record.cells[index], before, after));
	return true;
}

/*
 * In a quiescent key a call reads a few cells. flatten: the functions it needs are inlined, so that
 * no value goes through memory.
 */
#define FLAT __attribute__((flatten))

/* Acquires in a quiescent key. Returns the permit's end; 0 if the general path has to decide. */
FLAT uint64_t breaker_record_try_acquire(const struct algo_limit *limit,
                                         const struct record_state *at, uint64_t id,
                                         uint64_t now_ns, struct algo_decision *out)
{
	const struct breaker_params *params = &limit->breaker;
	struct breaker_permit permit = breaker_permit_of(params, breaker_until_ns(params, now_ns), id);
	struct breaker_snapshot snapshot;
	uint64_t last_ns;

	if (params->max_concurrent ||
	    !breaker_record_is_quiescent(limit, now_ns, &at->record, &snapshot) ||
	    acquire_shared_entry(params, at, &permit, now_ns, &last_ns) != BREAKER_ACQUIRED)
		return 0;
	breaker_quiescent_outcome(out);
	out->reset_after_ns = u64_max(last_ns - now_ns, breaker_record_ahead_ns(params, now_ns));
	return permit.until_ns;
}

/* Releases the permit of a success in a quiescent key. Returns false if it changed nothing. */
FLAT bool breaker_record_try_report(const struct algo_limit *limit, const struct record_state *at,
                                    const struct breaker_report *report, uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	struct breaker_permit permit = breaker_permit_of(params, report->until_ns, report->permit);
	uint64_t latency_ns =
	    report->latency_ns ? report->latency_ns : sat_sub(now_ns, permit.start_ns);
	struct breaker_result result = breaker_result_of(params, report->outcome, latency_ns);
	struct breaker_snapshot snapshot;

	if (result.failed || result.slow || report->until_ns <= now_ns ||
	    breaker_is_unrecorded(params, report->until_ns) ||
	    !breaker_record_is_quiescent(limit, now_ns, &at->record, &snapshot) ||
	    !breaker_counts(&snapshot.state, permit.start_ns) ||
	    !breaker_record_release(limit, at, permit))
		return false;
	if (!result.ignored)
		breaker_record_count(limit, at, &snapshot,
		                     &(struct breaker_results){result, 1, now_ns, permit.stripe}, now_ns);
	return true;
}

static bool phase_pins_header(const struct breaker_state *state)
{
	return state->phase != BREAKER_CLOSED;
}

bool breaker_record_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                const struct breaker_state *state, uint64_t now_ns)
{
	return cell_is_pinned(header) == phase_pins_header(state) &&
	       header_retains(header, tag, now_ns + retention_ns(limit, state, now_ns));
}

struct cell breaker_record_header(const struct algo_limit *limit, uint32_t tag,
                                  const struct breaker_state *state, uint64_t now_ns)
{
	uint64_t ahead_ns = u64_min(2 * retention_ns(limit, state, now_ns), ALGO_HORIZON_NS);

	return cell_make(tag, now_ns + ahead_ns, 0, phase_pins_header(state) ? CELL_PINNED : 0);
}

/*
 * The quiescent cell: `high` is when the key became quiescent; `low` is the name of its phase, and
 * for how many nanoseconds it is. The name is that of the stored phase and of the parameters that
 * judge it. One other phase in 2^32 has the same.
 */
static uint64_t quiescent_name(const struct breaker_params *params, struct cell phase, uint32_t tag)
{
	uint64_t mixed = phase.low ^ (phase.high ^ params->seal) * UINT64_C(0xff51afd7ed558ccd);

	if (cell_tag(phase) != tag)
		mixed = (uint64_t)tag << 32 ^ params->seal;
	return mixed * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

bool breaker_record_is_quiescent(const struct algo_limit *limit, uint64_t now_ns,
                                 const struct record *record, struct breaker_snapshot *snapshot)
{
	struct cell quiescent = record_load(record, BREAKER_QUIESCENT_AT);
	uint64_t name = quiescent.low >> 32, span_ns = (uint32_t)quiescent.low;
	uint64_t age_ns = now_ns - quiescent.high; /* wraps to beyond any span if now is earlier */

	snapshot->phase_cell = record_load(record, BREAKER_PHASE_AT);
	if (age_ns >= span_ns ||
	    name != quiescent_name(&limit->breaker, snapshot->phase_cell, record->tag))
		return false;
	snapshot->state = breaker_unpack_phase(snapshot->phase_cell, record->tag, now_ns);
	snapshot->state.phase = BREAKER_CLOSED; /* a stored ramp has become closed by time */
	return true;
}

/* Whether the stored phase is closed, and no time changes it. */
static bool phase_may_be_quiescent(const struct breaker_snapshot *snapshot, uint32_t tag,
                                   uint64_t now_ns)
{
	struct breaker_state stored = breaker_unpack_phase(snapshot->phase_cell, tag, now_ns);
	bool has_passed_into_another = stored.since_ns != snapshot->state.since_ns;
	bool is_of_clock_ahead = stored.since_ns > now_ns;

	return snapshot->state.phase == BREAKER_CLOSED && !has_passed_into_another &&
	       !is_of_clock_ahead;
}

/* How long until the `part` of now ends, if all parts have this length. */
static uint64_t rest_of_part_ns(uint64_t now_ns, uint64_t part, uint64_t part_ns)
{
	return (part + 1) * part_ns - now_ns;
}

/*
 * Stores that the key is quiescent up to the end of a part, a permit or the header, whichever comes
 * first: until then no time changes the phase. Does nothing if the phase may change otherwise.
 */
void breaker_record_set_quiescent(const struct algo_limit *limit, const struct record_state *at,
                                  const struct breaker_snapshot *snapshot, uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	struct cell before = record_load(&at->record, BREAKER_QUIESCENT_AT), after = {0, now_ns};
	uint64_t span_ns = u64_min(snapshot->first_ends_in_ns, UINT32_MAX);
	bool has_permit_of_clock_ahead = snapshot->last_ends_in_ns > params->timeout_ns;
	/* For how long calls need not prolong the header. */
	int64_t header_fits_ns =
	    cell_ahead_ns(at->header, now_ns + retention_ns(limit, &snapshot->state, now_ns));

	if (!phase_may_be_quiescent(snapshot, at->record.tag, now_ns) || snapshot->is_mixed ||
	    has_permit_of_clock_ahead || header_fits_ns <= 0 || cell_is_pinned(at->header))
		return;
	if (params->part_ns)
		span_ns = u64_min(span_ns,
		                  rest_of_part_ns(now_ns, breaker_part(params, now_ns), params->part_ns));
	span_ns = u64_min(span_ns, rest_of_part_ns(now_ns, breaker_in_flight_part(params, now_ns),
	                                           breaker_in_flight_part_ns(params)));
	span_ns = u64_min(span_ns, (uint64_t)header_fits_ns);
	after.low = quiescent_name(params, snapshot->phase_cell, at->record.tag) << 32 | span_ns;
	record_swap(at, BREAKER_QUIESCENT_AT, before, after);
}
