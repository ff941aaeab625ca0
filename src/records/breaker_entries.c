/*
 * breaker_entries.c: reads all permits in flight of a circuit breaker's key, expires those that
 * have timed out, and releases permits without knowing their ids: the newest ones, for a refund, or
 * all, for a reset.
 *
 * Permits are counted in *in-flight entries*, cells of the key's record: a single entry has one
 * permit; a group has several of one part of time, and its word is their number. A record is
 * *mixed* after a reload that gave its cells another meaning: then any cell may be an entry
 * (breaker_record.h).
 */
#include "records/breaker_record.h"
#include "records/breaker_cells.h"

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
	uint64_t until_ns = now_ns + (uint64_t)cell_ahead_ns(entry, now_ns), parts_ago = 0;
	uint64_t start_ns = until_ns - params->timeout_ns;
	uint64_t lost_at_ns = u64_min(until_ns, now_ns); /* an entry too far ahead is lost now */

	if (!breaker_expire_entry(at, entry)) /* another thread has changed it */
		return;
	if (!breaker_counts(&snapshot->state, start_ns)) /* permits of an earlier phase */
		return;
	expiry->lost_count += cell_word(entry);
	expiry->first_lost_at_ns =
	    expiry->first_lost_at_ns ? u64_min(expiry->first_lost_at_ns, until_ns) : until_ns;
	expiry->last_lost_at_ns = u64_max(expiry->last_lost_at_ns, until_ns);
	if (params->part_ns)
		parts_ago = breaker_part(params, now_ns) - breaker_part(params, lost_at_ns);
	if (parts_ago < BREAKER_LOST_PARTS)
		expiry->lost_by_part[parts_ago] += cell_word(entry);
}

/* Lists an entry that may be released as one of the newest. Too many groups are left out. */
static void list_entry(struct breaker_list *list, struct cell *at, struct cell entry,
                       uint64_t ahead_ns)
{
	if (breaker_entry_is_single(entry)) {
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
	uint64_t oldest_probe_ns = sat_sub(now_ns + 1, params->probe_ns); /* earlier ones are lost */
	uint64_t counted_from_ns = u64_max(snapshot->state.since_ns, oldest_probe_ns);

	if (!breaker_is_in_flight(params, cell, record->tag))
		return;
	if (breaker_is_overdue(params, ahead_ns)) {
		if (expiry)
			expire_entry(params, now_ns, &record->cells[index], cell, snapshot, expiry);
		snapshot->has_overdue |= !expiry;
		return;
	}
	snapshot->in_flight += cell_word(cell);
	if (cell_ahead_ns(cell, counted_from_ns + params->timeout_ns) >= 0)
		snapshot->in_flight_of_phase += cell_word(cell);
	else if (snapshot->state.phase == BREAKER_HALF_OPEN)
		read_lost_probe(params, cell, snapshot);
	snapshot->first_ends_in_ns = u64_min(snapshot->first_ends_in_ns, (uint64_t)ahead_ns);
	snapshot->last_ends_in_ns = u64_max(snapshot->last_ends_in_ns, (uint64_t)ahead_ns);
	if (__builtin_expect(expiry && expiry->list, 0))
		list_entry(expiry->list, &record->cells[index], cell, (uint64_t)ahead_ns);
}

/* The low words of most cells already say that they are no entry. */
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

/*
 * How long until the in-flight entry at an index ends, or 0 if there is none or it has timed out.
 * Sets `*entry` unless the result is 0.
 */
static uint64_t entry_ends_in_ns(const struct breaker_params *params, uint64_t now_ns,
                                 const struct record *record, unsigned index, struct cell *entry)
{
	int64_t ahead_ns;

	/* The low words of most cells already say that they are no entry. */
	if (!breaker_may_be_in_flight(breaker_low(record, index), record->tag))
		return 0;
	*entry = record_load(record, index);
	ahead_ns = cell_ahead_ns(*entry, now_ns);
	if (!breaker_is_in_flight(params, *entry, record->tag) || breaker_is_overdue(params, ahead_ns))
		return 0;
	return (uint64_t)ahead_ns;
}

/* Calls `visit` with the end of each single entry. */
void breaker_record_visit_singles(const struct algo_limit *limit, uint64_t now_ns,
                                  const struct record_state *at, newest_visit *visit,
                                  struct newest *newest)
{
	for (unsigned i = BREAKER_FIRST_STRIPE; i < at->record.width; i++) {
		struct cell entry;
		uint64_t ends_in_ns = entry_ends_in_ns(&limit->breaker, now_ns, &at->record, i, &entry);

		if (ends_in_ns > 0 && breaker_entry_is_single(entry))
			visit(newest, ends_in_ns);
	}
}

/*
 * Releases the permits with single entries that `newest` includes. Returns how many. Raises
 * `*last_ns` to how long until the last permit ends that stays.
 */
uint64_t breaker_record_release_newest(const struct algo_limit *limit, uint64_t now_ns,
                                       const struct record *record, struct newest *newest,
                                       uint64_t *last_ns)
{
	uint64_t released = 0;

	for (unsigned i = BREAKER_FIRST_STRIPE; record->cells && i < record->width; i++) {
		struct cell entry;
		uint64_t ends_in_ns = entry_ends_in_ns(&limit->breaker, now_ns, record, i, &entry);

		if (ends_in_ns == 0)
			continue;
		if (breaker_entry_is_single(entry) && newest_includes(newest, ends_in_ns) &&
		    breaker_expire_entry(&record->cells[i], entry)) {
			newest_count_release(newest, ends_in_ns);
			released++;
		} else {
			*last_ns = u64_max(*last_ns, ends_in_ns);
		}
	}
	return released;
}

/* Releases up to `n` permits of a group. Returns how many. */
uint64_t breaker_group_release(const struct algo_limit *limit, uint32_t tag,
                               const struct breaker_group *group, uint64_t n)
{
	struct cell before, after;
	uint64_t in_flight, released;

	do {
		before = cell_peek(group->cell);
		if (!breaker_is_in_flight(&limit->breaker, before, tag))
			return 0;
		in_flight = cell_word(before);
		released = u64_min(n, in_flight);
		after = cell_with_word(before, (uint32_t)(in_flight - released));
	} while (!cell_swap(group->cell, before, after));
	return released;
}

void breaker_record_expire_all(const struct algo_limit *limit, const struct record_state *at)
{
	for (unsigned i = BREAKER_FIRST_STRIPE; i < at->record.width; i++) {
		struct cell cell = record_load(&at->record, i);

		if (breaker_is_in_flight(&limit->breaker, cell, at->record.tag))
			breaker_expire_entry(&at->record.cells[i], cell);
	}
}
