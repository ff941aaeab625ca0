/*
 * breaker_record.c: reads the phase and the permits in flight of a circuit breaker's key, and adds
 * and releases permits.
 *
 * They are in the cells of the key's *record*; its *header*, a cell in a table, only retains that.
 * A permit has a single entry, or shares one with others of its time and *stripe*. While a key is
 * *quiescent* nothing but a bad result changes the phase, so a call reads few cells. A record is
 * *mixed* after a reload that gave its cells another meaning (breaker_record.h).
 */
#include "records/breaker_record.h"
#include "records/breaker_cells.h"

/* The phase that a cell stores; closed if the cell is of another key. */
static struct breaker_state unpack_phase(struct cell cell, uint32_t tag, uint64_t now_ns)
{
	struct breaker_state state;
	uint32_t word = cell_word(cell);
	uint64_t since_ns = now_ns + (uint64_t)cell_ahead_ns(cell, now_ns);
	bool is_for_ever = cell_generation(cell) & BREAKER_PHASE_FOR_EVER;

	if (cell_tag(cell) != tag)
		return (struct breaker_state){.phase = BREAKER_CLOSED};
	state = (struct breaker_state){.phase = word & 7,
	                               .since_ns = is_for_ever ? BREAKER_FOREVER : since_ns,
	                               .ended = cell_generation(cell) >> 1};
	if (state.phase == BREAKER_OPEN) {
		state.doublings = word >> 3 & 127;
		state.spread = word >> 10 & 127;
	} else {
		state.in_flight = word >> 3 & 127;
		state.good = word >> 10 & 127;
		state.bad = word >> 17 & 127;
		state.slow = word >> 24 & 127;
	}
	return state;
}

/* The doublings of the open phase before a half-open one. */
__attribute__((noinline, cold)) static unsigned doublings_before(const struct record *record,
                                                                 uint64_t since_ns)
{
	struct cell sleep = record_load(record, BREAKER_SLEEP_AT);
	bool is_own = cell_tag(sleep) == record->tag && cell_ahead_ns(sleep, since_ns) <= 0;

	return is_own ? cell_word(sleep) & BREAKER_DOUBLINGS_MAX : 0;
}

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

/* Reads the phase into `snapshot`, as it is at now_ns, and no permits. */
void breaker_record_read_phase(const struct algo_limit *limit, uint64_t now_ns,
                               const struct record *record, struct breaker_snapshot *snapshot)
{
	struct breaker_state stored;

	*snapshot = (struct breaker_snapshot){.first_ends_in_ns = UINT64_MAX,
	                                      .phase_cell = record_load(record, BREAKER_PHASE_AT)};
	stored = unpack_phase(snapshot->phase_cell, record->tag, now_ns);
	if (__builtin_expect(stored.phase == BREAKER_HALF_OPEN, 0))
		stored.doublings = doublings_before(record, stored.since_ns);
	snapshot->state = breaker_at(&limit->breaker, &stored, now_ns);
}

struct cell_range {
	unsigned first, end; /* before the end */
};

/*
 * Expires an entry that has timed out. Adds its permits to `expiry`; the caller counts them in the
 * newest record.
 */
__attribute__((noinline, cold)) static void expire_entry(const struct breaker_params *params,
                                                         uint64_t now_ns, struct cell *at,
                                                         struct cell entry,
                                                         const struct breaker_snapshot *snapshot,
                                                         struct breaker_expiry *expiry)
{
	uint64_t until_ns = now_ns + (uint64_t)cell_ahead_ns(entry, now_ns);
	uint64_t over_ns = u64_min(until_ns, now_ns), parts_ago = 0;

	if (!breaker_expire_entry(at, entry) ||
	    !breaker_counts(&snapshot->state, until_ns - params->timeout_ns))
		return;
	expiry->lost_count += cell_word(entry);
	expiry->first_lost_at_ns =
	    expiry->first_lost_at_ns ? u64_min(expiry->first_lost_at_ns, until_ns) : until_ns;
	expiry->last_lost_at_ns = u64_max(expiry->last_lost_at_ns, until_ns);
	if (params->part_ns)
		parts_ago = breaker_part(params, now_ns) - breaker_part(params, over_ns);
	if (parts_ago < BREAKER_LOST_PARTS)
		expiry->lost_by_part[parts_ago] += cell_word(entry);
}

/* Lists an entry that may be released as one of the newest. Too many groups are left out. */
static void list_entry(struct breaker_list *list, struct cell *at, struct cell entry,
                       uint64_t ahead_ns)
{
	if (cell_generation(entry) & 1) {
		newest_add_end(&list->single_ends, ahead_ns);
	} else if (list->group_count < BREAKER_GROUPS_MAX) {
		list->groups[list->group_count++] = (struct breaker_group){at, ahead_ns};
	}
}

/* Half-open: an entry has no probe of this phase, or a lost one: records when that timed out. */
__attribute__((noinline, cold)) static void read_lost_probe(const struct breaker_params *params,
                                                            struct cell cell,
                                                            struct breaker_snapshot *snapshot)
{
	uint64_t first_ns = snapshot->state.since_ns + params->timeout_ns;
	int64_t more_ns = cell_ahead_ns(cell, first_ns);

	if (more_ns >= 0) /* the permit was given in this phase */
		snapshot->probes_lost_at_ns =
		    breaker_probes_lost_ns(params, snapshot->probes_lost_at_ns,
		                           breaker_probe_end_ns(params, first_ns + (uint64_t)more_ns));
}

/* Adds the entry at `index`, if it is one, to the snapshot, or expires it if it has timed out. */
static void read_in_flight_cell(const struct breaker_params *params, uint64_t now_ns,
                                const struct record *record, unsigned index,
                                struct breaker_snapshot *snapshot, struct breaker_expiry *expiry)
{
	struct cell cell = cell_peek(&record->cells[index]);
	int64_t ahead_ns = cell_ahead_ns(cell, now_ns);
	uint64_t phase_permits_end_ns =
	    u64_max(snapshot->state.since_ns, sat_sub(now_ns + 1, params->probe_ns)) +
	    params->timeout_ns;

	if (!breaker_is_in_flight_by_either_mark(params, cell, record->tag))
		return;
	if (breaker_is_overdue(params, ahead_ns)) {
		if (expiry)
			expire_entry(params, now_ns, &record->cells[index], cell, snapshot, expiry);
		snapshot->has_overdue |= !expiry;
		return;
	}
	snapshot->in_flight += cell_word(cell);
	if (cell_ahead_ns(cell, phase_permits_end_ns) >= 0)
		snapshot->in_flight_of_phase += cell_word(cell);
	else if (snapshot->state.phase == BREAKER_HALF_OPEN)
		read_lost_probe(params, cell, snapshot);
	snapshot->first_ends_in_ns = u64_min(snapshot->first_ends_in_ns, (uint64_t)ahead_ns);
	snapshot->last_ends_in_ns = u64_max(snapshot->last_ends_in_ns, (uint64_t)ahead_ns);
	if (__builtin_expect(expiry && expiry->list, 0))
		list_entry(expiry->list, &record->cells[index], cell, (uint64_t)ahead_ns);
}

/* The low words of most cells already say that they count no permit. */
static void read_in_flight_cells(const struct breaker_params *params, uint64_t now_ns,
                                 const struct record *record, struct cell_range cell_range,
                                 struct breaker_snapshot *snapshot, struct breaker_expiry *expiry)
{
	for (unsigned i = cell_range.first; i < cell_range.end; i++)
		if (breaker_may_be_in_flight(breaker_low(record, i), record->tag))
			read_in_flight_cell(params, now_ns, record, i, snapshot, expiry);
}

/*
 * Reads whether the record is mixed. A half-open phase that began in a mixed record keeps it mixed,
 * because the cells say when its probes were lost.
 */
static void read_layout(uint64_t now_ns, const struct record *record,
                        struct breaker_snapshot *snapshot)
{
	struct cell layout = record_load(record, BREAKER_LAYOUT_AT);
	uint64_t since_ns =
	    snapshot->state.phase == BREAKER_HALF_OPEN ? snapshot->state.since_ns : now_ns;

	snapshot->is_mixed = cell_tag(layout) == record->tag && cell_ahead_ns(layout, since_ns) > 0;
}

void breaker_record_read(const struct algo_limit *limit, uint64_t now_ns,
                         const struct record *record, struct breaker_snapshot *snapshot,
                         struct breaker_expiry *expiry)
{
	const struct breaker_params *params = &limit->breaker;
	unsigned cells = breaker_in_flight_cells(params), stride = breaker_stride(params);
	unsigned stripes = breaker_stripes(params), at = breaker_in_flight_at(params);

	if (!record->cells) {
		*snapshot = (struct breaker_snapshot){.first_ends_in_ns = UINT64_MAX};
		return;
	}
	breaker_record_read_phase(limit, now_ns, record, snapshot);
	read_layout(now_ns, record, snapshot);
	if (snapshot->is_mixed) {
		breaker_record_add_in_flight(limit, now_ns, record, snapshot, expiry);
		return;
	}
	for (unsigned stripe = 0; stripe < stripes; stripe++, at += stride)
		read_in_flight_cells(params, now_ns, record, (struct cell_range){at, at + cells}, snapshot,
		                     expiry);
}

/* Adds the entries of a record of which any cell may be one: a mixed or a former table's. */
void breaker_record_add_in_flight(const struct algo_limit *limit, uint64_t now_ns,
                                  const struct record *record, struct breaker_snapshot *snapshot,
                                  struct breaker_expiry *expiry)
{
	read_in_flight_cells(&limit->breaker, now_ns, record,
	                     (struct cell_range){BREAKER_FIRST_STRIPE, record->width}, snapshot,
	                     expiry);
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
 * these ends.
 */
static enum breaker_acquired acquire_shared_entry(const struct breaker_params *params,
                                                  const struct record_state *at,
                                                  struct breaker_permit permit, uint64_t now_ns,
                                                  uint64_t *last_ns)
{
	unsigned index = index_of_in_flight_part(params, permit.start_ns, permit.stripe);
	struct cell before = record_load(&at->record, index), after;
	uint64_t until_ns = permit.until_ns;
	uint32_t count = 0;

	if (breaker_is_in_flight(params, before, at->record.tag)) {
		int64_t more_ns = cell_ahead_ns(before, until_ns);

		if (cell_ahead_ns(before, now_ns) <= 0)
			return BREAKER_AGAIN; /* the former permits have to be expired first */
		count = cell_word(before);
		until_ns += more_ns > 0 ? (uint64_t)more_ns : 0;
		if (count == BREAKER_IN_FLIGHT_MAX)
			return BREAKER_FULL;
	} else if (breaker_is_in_flight_by_either_mark(params, before, at->record.tag)) {
		return BREAKER_FULL; /* the entry has a permit of a former max_concurrent */
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
	struct cell after = cell_make(at->record.tag, range.until_ns, 1, params->in_flight_mark | 1u),
	            results;
	uint32_t tag = at->record.tag;
	unsigned with_results = 0; /* the index of a cell with results; 0 for none */

	for (unsigned n = 0; n < range.count; n++) {
		unsigned index = range.first_index + (range.start + n) % range.count;
		struct cell before = record_load(&at->record, index);

		if (breaker_is_in_flight_by_either_mark(params, before, tag))
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

/* Adds a permit: to a single entry if max_concurrent bounds these, otherwise to a shared one. */
enum breaker_acquired breaker_record_acquire(const struct algo_limit *limit,
                                             const struct record_state *at,
                                             const struct breaker_snapshot *snapshot,
                                             struct breaker_permit permit, uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	unsigned first_entry = breaker_in_flight_at(params);
	struct entry_range range = {first_entry, params->max_concurrent, 0, permit.until_ns};
	enum breaker_acquired acquired;
	uint64_t last_ns;

	if (params->max_concurrent) {
		range.start = record_start(permit.until_ns, params->max_concurrent);
		return acquire_single_entry(limit, at, snapshot, range, now_ns);
	}
	acquired = acquire_shared_entry(params, at, permit, now_ns, &last_ns);
	if (acquired != BREAKER_FULL)
		return acquired;
	/* Its entry has a permit of a former max_concurrent. */
	range.count = at->record.width - first_entry;
	mark_mixed(limit, at, record_load(&at->record, BREAKER_LAYOUT_AT), now_ns);
	return acquire_single_entry(limit, at, snapshot, range, now_ns);
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
		if (breaker_is_in_flight(params, *cell, at->record.tag) &&
		    cell_ahead_ns(*cell, permit.until_ns) >= 0)
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
	return breaker_is_in_flight_by_either_mark(params, cell, tag) && cell_generation(cell) & 1 &&
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
	unbounded.in_flight_mark &= (uint8_t)~1u;
	permit.stripe = breaker_stripes(&unbounded) > 1 ? permit.id_stripe : 0;
	return find_shared_entry(&unbounded, at, permit, cell);
}

/* Finds the entry that counts a permit. Returns its index, or 0. */
static unsigned find_permit(const struct algo_limit *limit, const struct record_state *at,
                            struct breaker_permit permit, struct cell *cell)
{
	const struct breaker_params *params = &limit->breaker;
	unsigned index = 0;

	if (permit.index != 0) {
		*cell = record_load(&at->record, permit.index);
		if (cell_is_of_permit(params, *cell, at->record.tag, permit.until_ns))
			return permit.index;
	}
	if (!permit.is_single && params->max_concurrent == 0)
		index = find_shared_entry(params, at, permit, cell);
	if (index == 0)
		index = find_single_entry(params, at, permit, cell);
	if (index == 0 && !permit.is_single && params->max_concurrent != 0)
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
	    acquire_shared_entry(params, at, permit, now_ns, &last_ns) != BREAKER_ACQUIRED)
		return 0;
	breaker_quiescent_outcome(out);
	out->remaining = ALGO_COUNT_MAX;
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
 * The name of the stored phase and of the parameters that judge it. One other phase in 2^32 has the
 * same.
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

	snapshot->phase_cell = record_load(record, BREAKER_PHASE_AT);
	/* `high` is when the span of `low` began. An earlier now makes the difference far greater. */
	if (now_ns - quiescent.high >= (uint32_t)quiescent.low ||
	    quiescent.low >> 32 != quiescent_name(&limit->breaker, snapshot->phase_cell, record->tag))
		return false;
	snapshot->state = unpack_phase(snapshot->phase_cell, record->tag, now_ns);
	snapshot->state.phase = BREAKER_CLOSED; /* a stored ramp has become closed by time */
	return true;
}

/* How long until a part of this length ends. */
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
	struct breaker_state stored = unpack_phase(snapshot->phase_cell, at->record.tag, now_ns);
	struct cell before = record_load(&at->record, BREAKER_QUIESCENT_AT), after = {0, now_ns};
	uint64_t span_ns = u64_min(snapshot->first_ends_in_ns, UINT32_MAX);
	int64_t header_ns =
	    cell_ahead_ns(at->header, now_ns + retention_ns(limit, &snapshot->state, now_ns));

	if (snapshot->is_mixed || snapshot->state.phase != BREAKER_CLOSED ||
	    stored.since_ns != snapshot->state.since_ns || stored.since_ns > now_ns ||
	    snapshot->last_ends_in_ns > params->timeout_ns || header_ns <= 0 ||
	    cell_is_pinned(at->header))
		return;
	if (params->part_ns)
		span_ns = u64_min(span_ns,
		                  rest_of_part_ns(now_ns, breaker_part(params, now_ns), params->part_ns));
	span_ns = u64_min(span_ns, rest_of_part_ns(now_ns, breaker_in_flight_part(params, now_ns),
	                                           breaker_in_flight_part_ns(params)));
	span_ns = u64_min(span_ns, (uint64_t)header_ns);
	after.low = quiescent_name(params, snapshot->phase_cell, at->record.tag) << 32 | span_ns;
	record_swap(at, BREAKER_QUIESCENT_AT, before, after);
}
