/*
 * log.c: decides acquires, peeks and resets of a sliding log: a rate limit that stores each allowed
 * request, and so counts exactly the units of (now - period, now].
 *
 * The newest request is in the key's *header*, a cell in the limit's table. The others are in its
 * *record*, a ring of cells. `back` counts backward from the header's index: 0 is the header's *own
 * cell*, to which its entry is copied when a new request takes over the header; 1 is the newest
 * entry of the record. For example, after the requests A to F in a record of 4 cells, F is in the
 * header with index 1, and its own cell still has B:
 *
 *     index    0    1    2    3
 *     cell     E    B    C    D
 *     back     1    0    3    2
 *
 * An entry has a *name*, its cell's `until`, which is later than all names before. It ends `lead`
 * nanoseconds before that. It stores the sum of all costs up to and with its own (modulo 2^15), so
 * the units in use are the difference of two sums. FIRST marks an entry with nothing before it.
 *
 * The *span* of an entry is a hint how far back the oldest live entry was when the next one came.
 * The oldest live entry is found from the newest by the spans on the way: it is as far back as the
 * span says, or less far, because entries have ended since. A narrow header (of a record up to 128
 * cells) stores that span, so all cells that a request reads can be fetched at once. A record has
 * more cells than the limit's count, so the last entry that is over is still in it.
 *
 * A refund moves the header back in the ring. The cells that it leaves are *stale*: read backward
 * round the ring, they come after older entries, but their names are later than theirs.
 *
 * A function `want_…` changes no cell: it describes the next swap in `*change`. The caller carries
 * it out and decides anew, until a change is RECORD_FINAL. log.h has the bits of a cell.
 */
#include "records/log.h"

/* Whether a cell has an entry of the key that is not over. */
static bool is_live_entry(const struct log_view *view, struct cell cell)
{
	return cell_tag(cell) == view->record->tag &&
	       !log_is_over(view->record, cell, cell_ahead_ns(cell, view->read_at_ns));
}

/*
 * Loads the entry `back` before the header. Returns whether it is live and not stale, given a live
 * entry `later` that was loaded at `later_back`. An entry named later than that is stale, unless a
 * refund has moved `later` since: then another entry is at `later_back`, and is compared instead.
 */
static bool load_live_entry(const struct log_view *view, unsigned back, unsigned later_back,
                            struct cell later, struct cell *entry)
{
	for (;;) {
		struct cell loaded_before = later;

		*entry = log_entry(view, back);
		if (!is_live_entry(view, *entry))
			return false;
		if (!log_is_named_later(*entry, later))
			return true;
		later = log_entry(view, later_back);
		if (log_has_same_name(later, loaded_before))
			return false; /* stale */
	}
}

/*
 * Searches the oldest live entry between `live_back`, where `oldest` is live, and `dead_back`,
 * where none is. Returns how far back it is. Goes on from `dead_back` in steps that double until it
 * meets a live entry, and then halves what is left. In a narrow record the first step is 1, because
 * its spans are exact: few entries have ended since.
 */
static inline unsigned search_oldest_live(const struct log_view *view, unsigned live_back,
                                          unsigned dead_back, struct cell oldest)
{
	unsigned stride = log_is_narrow(view->record->width) ? 1 : (dead_back - live_back) / 2;
	struct cell cell;

	while (dead_back > live_back + 1) {
		unsigned back = dead_back > live_back + stride ? dead_back - stride
		                                               : live_back + (dead_back - live_back) / 2;

		if (load_live_entry(view, back, live_back, oldest, &cell)) {
			live_back = back;
			oldest = cell;
			stride = (unsigned)u64_max((dead_back - live_back) / 2, 1);
		} else {
			dead_back = back;
			stride *= 2;
		}
	}
	return live_back;
}

/*
 * Counts the live entries of the record: all up to some index back, and none behind it. Goes back
 * by one span after the other, as long as the entry found there is live; each has a span of its
 * own. Spans of wide records are rounded down to powers of 4, and refunds may have left short ones.
 */
static unsigned count_live_entries(const struct log_view *view)
{
	unsigned live_back = 1, span = view->header_span, last_back = view->record->width - 1;
	struct cell oldest = view->newest_cell; /* the entry at `live_back`, known to be live */

	if (view->is_first || !is_live_entry(view, oldest))
		return 0;
	while (live_back < last_back && !log_has_mark(oldest, LOG_FIRST)) {
		/* A span includes its own entry. A span of 1 must not end the search too early. */
		unsigned further = (unsigned)u64_max(span, 2) - 1;
		unsigned next_back = (unsigned)u64_min(live_back + further, last_back);
		struct cell next;

		if (!load_live_entry(view, next_back, live_back, oldest, &next))
			return search_oldest_live(view, live_back, next_back, oldest);
		live_back = next_back;
		oldest = next;
		span = log_span(view->record, next);
	}
	return live_back;
}

/* The units of the entries from the oldest live one up to and with the one `back`. */
static unsigned units_up_to(const struct log_view *view, unsigned back)
{
	return (log_sum(log_entry(view, back)) - view->sum_before_oldest) & LOG_SUM;
}

/* Adds the live entries of the record to the units in use, of which the view has the header's. */
static void add_record_units(const struct log_params *params, struct log_view *view)
{
	struct cell oldest;

	view->live_count = count_live_entries(view);
	view->units_in_use = view->header_cost;
	if (view->live_count == 0)
		return;
	oldest = log_entry(view, view->live_count);
	if (!log_has_mark(oldest, LOG_FIRST)) { /* before a FIRST entry the sum is 0 */
		struct cell before = log_entry(view, view->live_count + 1);

		/*
		 * After refunds a thread whose clock lags may find a stale cell before the oldest entry.
		 * Then the oldest alone is taken to have the whole count: too much rather than too little.
		 */
		view->sum_before_oldest = log_sum_is_before(before, oldest)
		                              ? log_sum(before)
		                              : (log_sum(oldest) - (unsigned)params->count) & LOG_SUM;
	}
	view->units_in_use += units_up_to(view, 1);
}

/*
 * The lead of a wide record's header, in nanoseconds. Its code is a number of bits (2^(code - 1),
 * or 0), or says which cell of the record ends when the header does.
 */
static unsigned lead_of_code(const struct log_view *view, unsigned code)
{
	int64_t lead_ns;

	if (code <= LOG_LEAD_SIMPLE)
		return code == 0 ? 0 : 1u << (code - 1);
	lead_ns = -log_ahead_ns(view->record, code == LOG_LEAD_OWN ? view->own_cell : view->newest_cell,
	                        view->until_ns);
	if (lead_ns < 0 || lead_ns > log_lead_max(view->record)) /* the file is damaged */
		return 0;
	return (unsigned)lead_ns;
}

/* Sets the fields of `view` that follow from the header's word and generation. */
void log_unpack_header(struct cell header, struct log_view *view)
{
	struct log_header fields = log_header(view->record->width, cell_word(header));

	view->header_cost = fields.cost;
	view->index = fields.index < view->record->width ? fields.index : 0; /* 0: a damaged file */
	view->is_first = cell_generation(header) & LOG_FIRST;
	/*
	 * The own cell is loaded first: if the header's entry is there already, then the cells that are
	 * loaded after it are those from which the entry's sum was made, or newer ones.
	 */
	view->own_cell = log_entry(view, 0);
	view->newest_cell = view->is_first ? (struct cell){0, 0} : log_entry(view, 1);
	if (log_is_narrow(view->record->width)) {
		view->header_span = fields.span;
		view->lead_ns = fields.lead;
	} else {
		view->header_span = log_span(view->record, view->newest_cell);
		view->lead_ns = lead_of_code(view, fields.lead);
	}
}

/* Makes all units in use one entry that begins now, of a header that is to be stored anew. */
static void merge_units(const struct record_step *step, struct log_view *view)
{
	view->is_merged = true;
	view->units_in_use = u64_min(view->units_in_use, step->limit->log.count);
	view->header_cost = (unsigned)view->units_in_use;
	view->is_first = true;
	view->live_count = 0;
	view->lead_ns = 0;
	view->read_at_ns = step->now_ns;
	view->until_ns = step->now_ns + step->limit->period_ns;
}

/*
 * Reads the header and the live entries. Without a live header the view is empty. If the header was
 * moved to another table, or a clock that was set back since has written it, all units in use are
 * merged.
 */
static struct log_view view_of_log(const struct record_step *step)
{
	struct log_view view = {.record = step->record,
	                        .until_ns = step->now_ns + step->limit->period_ns,
	                        .is_first = true,
	                        .read_at_ns = step->now_ns};
	int64_t name_ahead_ns, begin_ahead_ns; /* of the header's entry */

	if (!header_is_live(step->header, step->now_ns))
		return view;
	if (cell_generation(step->header) == RECORD_MOVED) {
		view.units_in_use = step->limit->log.count; /* its record in the former table is lost */
		merge_units(step, &view);
		return view;
	}
	name_ahead_ns = cell_ahead_ns(step->header, step->now_ns);
	view.until_ns = step->now_ns + (uint64_t)name_ahead_ns;
	log_unpack_header(step->header, &view);
	if (name_ahead_ns <= view.lead_ns) { /* the header's entry has ended, and all before it, too */
		view.header_cost = 0;
		view.is_first = true;
	}
	begin_ahead_ns = name_ahead_ns - view.lead_ns - (int64_t)step->limit->period_ns;
	if (begin_ahead_ns > 0) /* a thread whose clock is ahead has written it */
		view.read_at_ns = step->now_ns + (uint64_t)begin_ahead_ns;
	add_record_units(&step->limit->log, &view);
	if (begin_ahead_ns > (int64_t)ALGO_SKEW_NS) /* ... so far ahead that the clock was set back */
		merge_units(step, &view);
	else
		view.has_live_header = true;
	return view;
}

/*
 * Before a new entry takes over the header, for which `change->header` is set: wants the header's
 * present entry copied to its own cell first, unless it is there already. If two threads copy it,
 * the one whose clock lags sees more live entries. The header of either may be stored next, so the
 * longer span stays.
 */
__attribute__((always_inline)) static inline void
want_header_entry(struct cell header, const struct log_view *view, struct record_change *change)
{
	struct cell stored = view->own_cell;
	bool is_first = view->live_count == 0;
	unsigned sum = (log_sum(view->newest_cell) + view->header_cost) & LOG_SUM;
	struct cell entry = log_make_entry(
	    view->record,
	    (struct log_fields){view->until_ns, is_first ? view->header_cost : sum,
	                        view->live_count + 1, view->lead_ns, is_first ? LOG_FIRST : LOG_PLAIN});
	bool has_name = cell_tag(stored) == view->record->tag && log_has_same_name(stored, header);
	bool is_stored_as_first =
	    is_first && cell_generation(stored) == LOG_FIRST && log_sum(stored) == view->header_cost;
	/* Also if this thread sees no live entry before it: another one has seen some. */
	bool is_stored_as_plain = !view->is_first && cell_generation(stored) == LOG_PLAIN &&
	                          log_sum(stored) == sum &&
	                          log_span(view->record, stored) >= log_span(view->record, entry);

	if (has_name && (is_stored_as_first || is_stored_as_plain))
		return;
	log_want_entry(change, view, 0, stored, entry);
	change->then_header = true;
}

/* Wants a new header whose one entry begins now and has all units in use. */
static void want_merged_header(const struct log_view *view, struct record_change *change)
{
	struct log_view header = *view;

	header.header_cost = (unsigned)view->units_in_use;
	log_want_header(change, &header, RECORD_FINAL);
}

/*
 * The note for the own cell of a header that replaces the one of `view` and ends at `end_ns`: it
 * has the old header's name and the lead with which it ends then, too. Returns the own cell as it
 * is if it has that name, because another thread has stored the note, or if no lead is so long.
 */
static struct cell note_of_end(const struct log_view *view, uint64_t end_ns)
{
	int64_t lead_ns = (int64_t)(view->until_ns - end_ns);
	struct cell note;

	if (lead_ns < 0 || lead_ns > log_lead_max(view->record))
		return view->own_cell;
	note = log_make_entry(view->record,
	                      (struct log_fields){view->until_ns, 0, 1, (unsigned)lead_ns, LOG_GONE});
	return log_has_same_name(view->own_cell, note) ? view->own_cell : note;
}

/*
 * Wants `header` at the same index, in place of one that is refunded or reset. It gets a name from
 * `least_name_ns` on and ends at `end_ns`. If the header's word can't store the lead between the
 * two, a note in the own cell tells the end: first that cell is swapped, then the header.
 */
static void want_replaced_header(struct record_change *change, const struct log_view *view,
                                 uint64_t least_name_ns, uint64_t end_ns, struct log_view *header)
{
	bool needs_note;

	header->own_cell = note_of_end(view, end_ns);
	log_set_name_and_lead(header, least_name_ns, end_ns);
	log_want_header(change, header, RECORD_FINAL);
	needs_note = !log_is_narrow(view->record->width) && log_pack_lead(header) == LOG_LEAD_OWN &&
	             cell_bits(header->own_cell) != cell_bits(view->own_cell);
	if (!needs_note)
		return;
	log_want_entry(change, view, 0, view->own_cell, header->own_cell);
	change->then_header = true;
}

/*
 * Wants an entry of `cost` units that begins now. It becomes the new header, at the next index, or
 * at the same one if the header's entry has no units. Updates `*view` to what is in use then.
 */
static void want_new_entry(const struct record_step *step, unsigned cost, struct log_view *view,
                           struct record_change *change)
{
	uint64_t end_ns = view->read_at_ns + step->limit->period_ns;
	struct log_view next;

	view->units_in_use += cost;
	if (!view->has_live_header) {
		want_merged_header(view, change);
		return;
	}
	next = *view;
	next.header_cost = cost;
	if (view->header_cost == 0) {
		next.header_span = view->live_count;
		next.is_first = view->live_count == 0;
		want_replaced_header(change, view, view->until_ns + 1, end_ns, &next);
	} else {
		next.index = record_next(view->record, view->index);
		next.header_span = view->live_count + 1;
		next.is_first = false;
		next.own_cell = (struct cell){0, 0}; /* not loaded: the lead's code can't refer to it */
		/* The present header's entry; log_set_name_and_lead() needs only its end. */
		next.newest_cell = log_make_entry(
		    view->record, (struct log_fields){view->until_ns, 0, 1, view->lead_ns, LOG_PLAIN});
		log_set_name_and_lead(&next, view->until_ns + 1, end_ns);
		log_want_header(change, &next, RECORD_FINAL);
		want_header_entry(step->header, view, change);
	}
	*view = next;
}

/* Wants a header without units, before which nothing is read. */
static void want_reset(struct log_view *view, struct record_change *change)
{
	struct log_view header = *view;

	header.header_cost = header.header_span = 0;
	header.is_first = true;
	want_replaced_header(change, view, view->until_ns, view->until_ns - view->lead_ns, &header);
	view->units_in_use = 0;
}

/*
 * Before the log moves to a wider record: wants to close the header, so that nothing is granted on
 * it again. First its entry is copied to its own cell, from where log_widen.c copies it. Returns
 * false if no units are in use.
 */
bool log_want_close_header(const struct record_step *step, struct record_change *change)
{
	int64_t begin_ahead_ns =
	    cell_ahead_ns(step->header, step->now_ns) - (int64_t)step->limit->period_ns;
	struct record_step then = *step;
	struct log_view view;

	/* At a time at which the header's entry has begun. So no units are merged: all entries move. */
	then.now_ns += begin_ahead_ns > 0 ? (uint64_t)begin_ahead_ns : 0;
	view = view_of_log(&then);
	if (view.units_in_use == 0)
		return false;
	*change = (struct record_change){.want = RECORD_WANT_HEADER,
	                                 .header = cell_with_generation(step->header, RECORD_MOVED)};
	if (view.header_cost > 0)
		want_header_entry(step->header, &view, change);
	return true;
}

/*
 * How long until so many of the oldest entries have ended that `need` units are free. A binary
 * search: the entries up to the one `enough_back` have as many units, those up to `too_far_back`
 * have not.
 */
static uint64_t ns_until_capacity(const struct log_view *view, uint64_t now_ns, uint64_t need)
{
	unsigned enough_back = 1, too_far_back = view->live_count;

	if (view->live_count == 0 || units_up_to(view, 1) < need) /* the header's has to end, too */
		return view->until_ns - view->lead_ns - now_ns;
	if (units_up_to(view, too_far_back) >= need)
		enough_back = too_far_back;
	while (too_far_back > enough_back + 1) {
		unsigned middle = enough_back + (too_far_back - enough_back) / 2;

		if (units_up_to(view, middle) >= need)
			enough_back = middle;
		else
			too_far_back = middle;
	}
	return (uint64_t)log_ahead_ns(view->record, log_entry(view, enough_back), now_ns);
}

/* When the last unit in use ends: the header's, or the newest entry's if the header has none. */
static uint64_t end_of_use_ns(const struct log_view *view, uint64_t now_ns)
{
	if (view->header_cost > 0 || view->live_count == 0)
		return view->until_ns - view->lead_ns;
	return now_ns + (uint64_t)log_ahead_ns(view->record, view->newest_cell, now_ns);
}

/* Decides on a call from a new read of header and record: `out` and the next change. */
static void decide_from_view(const struct record_step *step, struct algo_decision *out,
                             struct record_change *change)
{
	uint64_t cost = u64_max(step->call->cost, 1);
	struct log_view view = view_of_log(step);
	enum algo_op op = step->call->op;
	/*
	 * Such a call passes even over the limit: the oldest entries expire to make space. Merged units
	 * are one entry, so none of it can expire.
	 */
	bool replaces = algo_op_replaces(op) && step->call->cost > 0 && !view.is_merged;

	if (replaces && log_expire_replaced(&view, step->limit->log.count, change))
		return; /* the call is decided when no entry has to expire any more */
	if (algo_op_requests(op)) {
		if (view.units_in_use + cost > step->limit->log.count && !replaces) {
			algo_decision_deny(
			    out, WEIR_REASON_OVER_LIMIT,
			    ns_until_capacity(&view, step->now_ns,
			                      view.units_in_use + cost - step->limit->log.count));
			if (view.is_merged && algo_op_consumes(op)) /* so that they are not merged again */
				want_merged_header(&view, change);
		} else if (algo_consumes(step->call)) {
			want_new_entry(step, (unsigned)cost, &view, change);
		}
	} else if (algo_op_releases(op)) {
		log_refund(step, &view, change);
	} else if (view.units_in_use > 0) { /* a reset */
		want_reset(&view, change);
	}
	out->remaining = sat_sub(step->limit->log.count, view.units_in_use);
	out->reset_after_ns =
	    view.units_in_use > 0 ? end_of_use_ns(&view, step->now_ns) - step->now_ns : 0;
}

/* Continues a refund or expiry under the same header, if one has begun, or decides anew. */
static void decide_log(const struct record_step *step, struct algo_decision *out,
                       struct record_change *change)
{
	if (__builtin_expect(step->progress.live_count > 0, 0))
		log_continue_step(step, change);
	else
		decide_from_view(step, out, change);
}

/* Adds the units in use to `uses`, each entry with its end and name, the oldest first. */
static void read_log(const struct record_step *step, struct uses *uses)
{
	struct log_view view = view_of_log(step);
	unsigned units_before = 0;

	for (unsigned back = view.live_count; back > 0; back--) {
		struct cell entry = log_entry(&view, back);
		uint64_t name_ns = view.read_at_ns + (uint64_t)cell_ahead_ns(entry, view.read_at_ns);
		unsigned units = units_up_to(&view, back);

		if (units > units_before)
			uses_add(uses, (struct uses_entry){units - units_before,
			                                   name_ns - log_lead(step->record, entry), name_ns});
		units_before = units;
	}
	uses->until_ns = view.until_ns - view.lead_ns;
	uses->newest_id = view.until_ns;
	if (view.header_cost > 0)
		uses_add(uses, (struct uses_entry){view.header_cost, uses->until_ns, view.until_ns});
}

const struct record_ops record_log = {.decide = decide_log, .read_uses = read_log};
