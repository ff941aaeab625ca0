/*
 * log.c: decides acquires, peeks and resets of a sliding log: a rate limit that stores each allowed
 * request, and so counts exactly the units of (now - period, now].
 *
 * The newest request is in the key's *header*, a cell in the limit's table. The others are in its
 * *record*, a ring of cells behind the header. `back` counts backward from the header's index: 1 is
 * the newest entry of the record. An entry stores the sum of all costs up to and with its own
 * (modulo 2^15), so the units in use are the difference of two sums. Its *span* is a hint how many
 * entries were live when the next one came; its *name* is its `until`, later than all names before;
 * it ends `lead` nanoseconds before its name. FIRST marks an entry with nothing before it (log.h).
 *
 * A function `want_…` changes no cell: it describes the next swap in `*change`. The caller carries
 * it out and decides anew, until a change is RECORD_FINAL.
 *
 * The oldest live entry is found from the newest by the spans on the way: it is where it was when
 * the header was written, or a little later. A narrow header (of a record up to 128 cells) stores
 * that span, so all cells that a request reads can be fetched at once.
 *
 * A record has more cells than the count, so the last entry that is over is still in it. Entries of
 * former rounds stay in the ring too. Their names, later than those behind them, tell them apart.
 */
#include "records/log.h"

/*
 * Loads the entry `back` before the header. Returns whether it is live and no later than `later`, a
 * live entry at `later_back`. A later entry is of a former round of the ring, unless a refund has
 * moved `later` meanwhile: then the cell at `later_back` has changed, and both are read again.
 */
static bool load_live_entry(const struct log_view *view, unsigned back, unsigned later_back,
                            struct cell later, struct cell *entry)
{
	int64_t ahead_ns, later_ahead_ns;

	do {
		*entry = log_entry(view, back);
		ahead_ns = cell_ahead_ns(*entry, view->read_at_ns);
		if (cell_tag(*entry) != view->record->tag || log_is_over(view->record, *entry, ahead_ns))
			return false;
		later_ahead_ns = cell_ahead_ns(later, view->read_at_ns);
		if (ahead_ns <= later_ahead_ns)
			return true;
		later = log_entry(view, later_back);
	} while (cell_ahead_ns(later, view->read_at_ns) != later_ahead_ns);
	return false;
}

/*
 * Searches the oldest live entry between `live_back`, where `oldest` is live, and `dead_back`,
 * where none is. Begins near `dead_back` in a narrow record, because there the oldest one is near.
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
	unsigned live_back = 1, span = view->header_span, dead_back;
	struct cell oldest = view->newest_cell, cell; /* the entry at `live_back`, known to be live */

	if (view->first_mark || cell_tag(oldest) != view->record->tag ||
	    log_is_over(view->record, oldest, cell_ahead_ns(oldest, view->read_at_ns)))
		return 0;
	for (;; live_back = dead_back, oldest = cell, span = log_span(view->record, cell)) {
		if (live_back == view->record->width - 1 || log_has_mark(oldest, LOG_FIRST))
			return live_back;
		dead_back = (unsigned)u64_min(live_back + u64_max(span, 2) - 1, view->record->width - 1);
		if (!load_live_entry(view, dead_back, live_back, oldest, &cell))
			break;
	}
	return search_oldest_live(view, live_back, dead_back, oldest);
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
	if (!log_has_mark(oldest, LOG_FIRST)) {
		struct cell spent = log_entry(view, view->live_count + 1);

		/*
		 * A clock that lags may find another entry there, after refunds. Then the whole count is in
		 * use.
		 */
		view->sum_before_oldest = log_is_before(spent, oldest)
		                              ? log_sum(spent)
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
	view->first_mark = cell_generation(header) & LOG_FIRST;
	/*
	 * This order: a thread that sees an entry in its own cell also sees the cells from which its
	 * sum was made.
	 */
	view->own_cell = log_entry(view, 0);
	view->newest_cell = view->first_mark ? (struct cell){0, 0} : log_entry(view, 1);
	if (log_is_narrow(view->record->width)) {
		view->header_span = fields.span;
		view->lead_ns = fields.lead;
	} else {
		view->header_span = log_span(view->record, view->newest_cell);
		view->lead_ns = lead_of_code(view, fields.lead);
	}
}

/*
 * Reads the header and the live entries. Without a live header the view is empty. If the header was
 * moved to another table, or a clock that was set back since has written it, all units in use are
 * merged, to become one entry of a new header.
 */
static struct log_view view_of_log(const struct record_step *step)
{
	struct log_view view = {.record = step->record,
	                        .until_ns = step->now_ns + step->limit->period_ns,
	                        .first_mark = LOG_FIRST,
	                        .read_at_ns = step->now_ns};
	int64_t name_ahead_ns, begin_ahead_ns; /* of the header's entry */

	if (!header_is_live(step->header, step->now_ns))
		return view;
	if (cell_generation(step->header) == RECORD_MOVED) {
		view.units_in_use = step->limit->log.count; /* its record in the former table is lost */
		view.is_merged = true;
		return view;
	}
	name_ahead_ns = cell_ahead_ns(step->header, step->now_ns);
	view.until_ns = step->now_ns + (uint64_t)name_ahead_ns;
	log_unpack_header(step->header, &view);
	if (name_ahead_ns <= view.lead_ns) { /* the header's entry has ended */
		view.header_cost = 0;
		view.first_mark = LOG_FIRST;
	}
	begin_ahead_ns = name_ahead_ns - view.lead_ns - (int64_t)step->limit->period_ns;
	if (begin_ahead_ns > 0) /* a thread whose clock is ahead has written it */
		view.read_at_ns = step->now_ns + (uint64_t)begin_ahead_ns;
	add_record_units(&step->limit->log, &view);
	if (begin_ahead_ns > (int64_t)ALGO_SKEW_NS) { /* the clock was set back */
		view.first_mark = LOG_FIRST;
		view.live_count = 0;
		view.lead_ns = 0;
		view.read_at_ns = step->now_ns;
		view.until_ns = step->now_ns + step->limit->period_ns;
		view.is_merged = true;
		return view;
	}
	view.has_live_header = true;
	return view;
}

/*
 * Before a new entry takes over the header: wants the header's present entry copied to its own cell
 * in the record, unless it is there already. If two threads copy it, the one whose clock lags sees
 * more live entries. Either of them may be the one that goes on, so the longer span stays.
 */
__attribute__((always_inline)) static inline void
want_header_entry(struct cell header, const struct log_view *view, struct record_change *change)
{
	struct cell stored = view->own_cell;
	unsigned mark = view->live_count == 0 ? LOG_FIRST : LOG_LATER;
	unsigned sum = (log_sum(view->newest_cell) + view->header_cost) & LOG_SUM;
	struct cell entry = log_make_entry(
	    view->record,
	    (struct log_fields){view->until_ns, mark == LOG_FIRST ? view->header_cost : sum,
	                        view->live_count + 1, view->lead_ns, mark});
	bool has_name =
	    cell_tag(stored) == view->record->tag && (stored.high | 15) == (header.high | 15);
	bool is_first_entry = cell_generation(stored) == LOG_FIRST && mark == LOG_FIRST &&
	                      log_sum(stored) == view->header_cost;
	bool is_later_entry = cell_generation(stored) == LOG_LATER && !view->first_mark &&
	                      log_sum(stored) == sum &&
	                      log_span(view->record, stored) >= log_span(view->record, entry);

	if (has_name && (is_first_entry || is_later_entry))
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
 * Wants `header` at the same index, in place of one that is refunded or reset. It gets a name from
 * `least_name_ns` on and ends at `end_ns`. If its lead does not fit in the header's word, the cell
 * at its index stores the lead: a note with the old header's name, marked GONE. There is one note
 * at most, so that another thread which decides on the same header computes the same end.
 */
static void want_replaced_header(struct record_change *change, const struct log_view *view,
                                 uint64_t least_name_ns, uint64_t end_ns, struct log_view *header)
{
	int64_t lead_ns = (int64_t)(view->until_ns - end_ns);
	bool has_note = view->own_cell.high >> 4 == view->until_ns << 4 >> 4;

	if (lead_ns >= 0 && lead_ns <= log_lead_max(view->record) && !has_note)
		header->own_cell = log_make_entry(
		    view->record, (struct log_fields){view->until_ns, 0, 1, (unsigned)lead_ns, LOG_GONE});
	log_set_name_and_lead(header, least_name_ns, end_ns);
	log_want_header(change, header, RECORD_FINAL);
	if (log_is_narrow(view->record->width) || log_pack_lead(header) != LOG_LEAD_OWN ||
	    cell_bits(header->own_cell) == cell_bits(view->own_cell))
		return;
	log_want_entry(change, view, 0, view->own_cell, header->own_cell);
	change->then_header = true;
}

/*
 * Wants an entry of `cost` units that begins now. It becomes the new header, at the next index, or
 * at the same one if the header's entry has no units. `*view` becomes the view after that.
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
		next.first_mark = next.header_span == 0 ? LOG_FIRST : LOG_LATER;
		want_replaced_header(change, view, view->until_ns + 1, end_ns, &next);
	} else {
		next.index = record_next(view->record, view->index);
		next.header_span = view->live_count + 1;
		next.first_mark = LOG_LATER;
		next.own_cell = (struct cell){0, 0}; /* unknown */
		next.newest_cell = log_make_entry(
		    view->record, (struct log_fields){view->until_ns, 0, 1, view->lead_ns, LOG_LATER});
		log_set_name_and_lead(&next, view->until_ns + 1, end_ns);
		log_want_header(change, &next, RECORD_FINAL);
		want_header_entry(step->header, view, change);
	}
	*view = next;
}

/* Wants a header without units, that nothing before it is read for. */
static void want_reset(struct log_view *view, struct record_change *change)
{
	struct log_view header = *view;

	header.header_cost = header.header_span = 0;
	header.first_mark = LOG_FIRST;
	want_replaced_header(change, view, view->until_ns, view->until_ns - view->lead_ns, &header);
	view->units_in_use = 0;
}

/*
 * Before the log moves to a wider record: wants to close the header, so that nothing is granted on
 * it again. Returns false if no units are in use. Reads the log at a time at which the header does
 * not seem to be of a clock that was set back.
 */
bool log_want_close_header(const struct record_step *step, struct record_change *change)
{
	int64_t begin_ahead_ns =
	    cell_ahead_ns(step->header, step->now_ns) - (int64_t)step->limit->period_ns;
	struct record_step then = *step;
	struct log_view view;

	then.now_ns += begin_ahead_ns > 0 ? (uint64_t)begin_ahead_ns : 0;
	view = view_of_log(&then);
	if (view.units_in_use == 0)
		return false;
	*change =
	    (struct record_change){.want = RECORD_WANT_HEADER,
	                           .header = {step->header.low, step->header.high & ~UINT64_C(15)}};
	change->header.high |= RECORD_MOVED;
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
	/* Such a call passes even over the limit: the oldest entries expire to make space. */
	bool replaces = algo_op_replaces(op) && step->call->cost > 0 && !view.is_merged;

	if (view.is_merged)
		view.units_in_use = u64_min(view.units_in_use, step->limit->log.count);
	if (replaces && log_expire_replaced(&view, step->limit->log.count, change))
		return;
	if (algo_op_requests(op)) {
		if (view.units_in_use + cost > step->limit->log.count && !replaces) {
			algo_decision_deny(
			    out, WEIR_REASON_OVER_LIMIT,
			    ns_until_capacity(&view, step->now_ns,
			                      view.units_in_use + cost - step->limit->log.count));
			if (view.is_merged && algo_op_consumes(op))
				want_merged_header(&view, change);
		} else if (algo_consumes(step->call)) {
			want_new_entry(step, (unsigned)cost, &view, change);
		}
	} else if (algo_op_releases(op)) {
		log_refund(step, &view, change);
	} else if (view.units_in_use > 0) {
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
	if (view.is_merged)
		view.header_cost = (unsigned)u64_min(view.units_in_use, step->limit->log.count);
	if (view.header_cost > 0)
		uses_add(uses, (struct uses_entry){view.header_cost, uses->until_ns, view.until_ns});
}

const struct record_ops record_log = {.decide = decide_log, .read_uses = read_log};
