/*
 * log_refund.c: refunds requests that a sliding log has counted, and expires its oldest ones.
 *
 * A log has the newest request in the key's header, a cell in a table, and the others in a record,
 * a ring of cells. `back` counts backward from the header's index: 1 is the newest entry of the
 * record. An entry has
 *
 * - a *name*, its `until`, which no other entry has, and by which a call may refund it;
 * - a *lead*: it ends so many nanoseconds before its name;
 * - a *sum*, of the costs of all entries up to and with its own (modulo LOG_SUM + 1), so its own
 *   cost is the difference from the sum of the entry before it;
 * - a *span*, a hint how many entries were live when the next one came;
 * - marks: it is FIRST if nothing before it counts, otherwise PLAIN, and besides GONE, MOVING, or
 *   both. Both together are PART: only some of its units are refunded.
 *
 * The header's own entry is refunded by a swap of the header. An entry of the record is marked
 * GONE, which only one thread can do, and still counts then. The index of a GONE entry is a gap.
 * Each newer entry moves back by one index, over the gap, and at last the header does. The header's
 * swap makes the refund effective (want_close_gap). A PART is handled as a GONE entry, but the
 * entry that takes over its index also takes over the units of it that are not refunded.
 *
 * A function `want_…` changes no cell: it describes the next swap in `*change`. The caller carries
 * it out, and calls again until no change is wanted.
 */
#include "records/log.h"

/* At most so many entries are marked before the header moves back over all of them. */
#define GONE_RUN_MAX 256

/* The cell of the same request with another sum, span and state (bits LOG_…). */
static struct cell with_state(const struct record *record, struct cell entry, unsigned sum,
                              unsigned span, unsigned state)
{
	return log_make_entry(
	    record, (struct log_fields){entry.high >> 4, sum, span, log_lead(record, entry), state});
}

static uint64_t name_of_entry(const struct log_view *view, struct cell entry)
{
	return view->read_at_ns + (uint64_t)cell_ahead_ns(entry, view->read_at_ns);
}

/*
 * The cost of the entry `cell`, `back` before the header's: what its sum has more than that of the
 * entry before it. Returns 0 if that is unknown, because the cell before has a stale entry or none.
 */
static unsigned entry_units(const struct log_view *view, unsigned back, struct cell cell)
{
	struct cell earlier;
	bool is_earlier;

	if (log_has_mark(cell, LOG_FIRST)) /* the sums begin with it */
		return log_sum(cell);
	if (back + 1 > view->record->width)
		return 0;
	earlier = log_entry(view, back + 1);
	is_earlier = cell_tag(earlier) == view->record->tag && !log_is_named_later(earlier, cell);
	if (!is_earlier || !log_sum_is_before(earlier, cell))
		return 0;
	return (log_sum(cell) - log_sum(earlier)) & LOG_SUM;
}

/* Marks `units` of an entry as refunded. */
static struct cell partly_refunded(const struct record *record, struct cell entry, unsigned units)
{
	return log_make_entry(record,
	                      (struct log_fields){entry.high >> 4, log_sum(entry),
	                                          log_span(record, entry), log_lead(record, entry),
	                                          cell_generation(entry) | LOG_PART, units});
}

/* The refunded units of the GONE entry, or PART, `back` before the header's. */
static unsigned refunded_units(const struct log_view *view, unsigned back, struct cell gone)
{
	return log_is_partly_refunded(gone) ? log_refunded_units(view->record, gone)
	                                    : entry_units(view, back, gone);
}

/* If the newest entry is a PART: its units that are not refunded, which a header takes over. */
static unsigned rest_of_newest(const struct log_view *view, struct cell newest)
{
	unsigned sum_before =
	    view->live_count > 1 ? log_sum(log_entry(view, 2)) : view->sum_before_oldest;

	if (!log_is_partly_refunded(newest))
		return 0;
	return (unsigned)sat_sub((log_sum(newest) - sum_before) & LOG_SUM,
	                         refunded_units(view, 1, newest));
}

/* How far back the oldest live entry is that ends at `until_ns` or later; 0 if there is none. */
static unsigned find_entry_back(const struct log_view *view, uint64_t until_ns)
{
	int64_t wanted_ahead_ns = (int64_t)(until_ns - view->read_at_ns);
	unsigned found_back = 0, too_far_back = view->live_count + 1;

	while (too_far_back > found_back + 1) {
		unsigned middle = found_back + (too_far_back - found_back) / 2;

		if (cell_ahead_ns(log_entry(view, middle), view->read_at_ns) >= wanted_ahead_ns)
			found_back = middle;
		else
			too_far_back = middle;
	}
	return found_back;
}

/*
 * Finds the entry named `until_ns` that was `back` before the header's. Other threads may have
 * moved it further back since. A search in the direction in which entries move does not miss it,
 * although it is GONE at its former index. Returns 0 if there is none or it is refunded.
 */
static unsigned follow_moved_entry(const struct log_view *view, uint64_t until_ns, unsigned back,
                                   struct cell *entry)
{
	int64_t wanted_ahead_ns = (int64_t)(until_ns - view->read_at_ns);

	for (; back > 0 && back <= view->live_count; back++) {
		int64_t ahead_ns;

		*entry = log_entry(view, back);
		ahead_ns = cell_ahead_ns(*entry, view->read_at_ns);
		if (ahead_ns < wanted_ahead_ns)
			break;
		if (ahead_ns == wanted_ahead_ns && !log_has_mark(*entry, LOG_GONE))
			return back;
	}
	return 0;
}

/* Makes the progress with which the next step goes on from the entry `back` without a new read. */
static struct log_progress progress_from(const struct log_view *view, unsigned back)
{
	return (struct log_progress){.read_at_ns = view->read_at_ns,
	                             .live_count = (uint16_t)view->live_count,
	                             .back = (uint16_t)back};
}

/* Lets the next steps close the gap of the entry `gone`, `back` before the header's. */
static void close_gap_next(const struct log_view *view, unsigned back, struct cell gone,
                           struct record_change *change)
{
	change->gap_name_ns = name_of_entry(view, gone);
	change->progress = progress_from(view, back);
}

static bool entry_is_unchanged(const struct log_view *view, unsigned back, struct cell cell)
{
	return cell_bits(log_entry(view, back)) == cell_bits(cell);
}

/*
 * Wants the next change for `cell`, which is MOVING to the index of the GONE entry before it (the
 * gap): its copy there, or, once copied, the mark GONE at its own index. If neither fits, the
 * record is damaged, and the cell becomes PLAIN. If the cell has changed, the GONE entry may have
 * come to its index afterwards, so the record is read again.
 */
static void want_finish_move(const struct log_view *view, unsigned back, struct cell cell,
                             struct record_change *change)
{
	struct cell gap = log_entry(view, back + 1);
	bool is_copied = log_has_same_name(cell, gap);
	unsigned sum_in_gap, span_in_gap;

	if (!entry_is_unchanged(view, back, cell)) {
		change->want = RECORD_WANT_AGAIN;
	} else if (!is_copied && log_has_mark(gap, LOG_GONE)) {
		/* As if it had always been at the gap's index: without the units before it that go. */
		sum_in_gap = log_sum(cell) - refunded_units(view, back + 1, gap);
		span_in_gap = (unsigned)u64_max(sat_sub(view->live_count, back), 1);
		log_want_entry(change, view, back + 1, gap,
		               with_state(view->record, cell, sum_in_gap, span_in_gap,
		                          cell_generation(gap) & LOG_FIRST));
	} else { /* the move is over, or in a damaged record has no gap to go to */
		log_want_entry(change, view, back, cell,
		               with_state(view->record, cell, log_sum(cell), log_span(view->record, cell),
		                          is_copied ? LOG_GONE : LOG_PLAIN));
	}
}

/*
 * Counts how many of the newest entries are wholly GONE, and finds the oldest of them. They may be
 * read one after the other: only the next newer entry moves to the index of a GONE one, and that is
 * GONE, too, or the header. So under this header they stay GONE.
 */
static unsigned count_gone_run(const struct log_view *view, struct cell *oldest_gone)
{
	unsigned n = 0;
	bool has_first = false; /* before a FIRST entry no other counts */

	while (n < GONE_RUN_MAX && n < view->live_count && !has_first) {
		struct cell cell = log_entry(view, n + 1);

		if (!log_has_mark(cell, LOG_GONE) || log_is_partly_refunded(cell))
			break;
		*oldest_gone = cell;
		has_first = log_has_mark(cell, LOG_FIRST);
		n++;
	}
	return n;
}

/*
 * The header moved by `back` to the index of the entry `gone`, which it takes the place of. That
 * may be a PART only if it is the newest entry: then the header takes over the rest of its units.
 */
static struct log_view header_moved_back(const struct log_view *view, unsigned back,
                                         struct cell gone)
{
	struct log_view header = *view;
	unsigned cost = view->header_cost + (back == 1 ? rest_of_newest(view, gone) : 0);

	header.index = record_back(view->record, view->index, back);
	header.is_first = log_has_mark(gone, LOG_FIRST);
	header.header_span = view->live_count - back;
	header.own_cell = gone; /* by the end of which the header's word may store its own */
	header.newest_cell = (struct cell){0, 0}; /* not loaded */
	/* If the cost is more than the word can store, the log is full in any case. */
	header.header_cost = (unsigned)u64_min(cost, log_cost_max(view->record));
	return header;
}

/*
 * Wants a header at the index of the oldest of all GONE entries next to it, so that one swap drops
 * them all. Returns false if there are none, or if the word of a header there can't store that it
 * ends when the present one does. A header without units may get another name for that.
 */
static bool want_drop_gone_run(const struct log_view *view, struct record_change *change)
{
	struct cell oldest_gone = view->newest_cell;
	unsigned back = count_gone_run(view, &oldest_gone);
	uint64_t end_ns = view->until_ns - view->lead_ns;
	struct log_view header;

	if (back == 0)
		return false;
	header = header_moved_back(view, back, oldest_gone);
	if (!log_header_fits(&header) && header.header_cost == 0) /* so no caller knows its name */
		log_set_name_and_lead(&header, view->until_ns, end_ns);
	if (!log_header_fits(&header) || header.until_ns - header.lead_ns != end_ns)
		return false;
	log_want_header(change, &header, RECORD_INTERIM);
	return true;
}

/*
 * The GONE entry `newest` as a note: it ends when the header does, so a header at its index can
 * store its own end by reference to it. The note's name and lead are 1 ns less than the header's:
 * no caller knows that name.
 */
static struct cell note_in_gone_entry(const struct log_view *view, struct cell newest)
{
	return log_make_entry(view->record,
	                      (struct log_fields){view->until_ns - 1, log_sum(newest),
	                                          log_span(view->record, newest), view->lead_ns - 1,
	                                          cell_generation(newest)});
}

/*
 * Wants a header at the index of the newest entry, which is GONE or a PART, and so is dropped. If
 * the header's word can't store its lead, the cell at that index first becomes a note, and the call
 * that finds the note makes the header. A PART has no space for a note, so the lead is shortened.
 */
static void want_drop_newest_gone(const struct log_view *view, struct cell newest,
                                  struct record_change *change)
{
	struct log_view header;

	if (want_drop_gone_run(view, change))
		return;
	header = header_moved_back(view, 1, newest);
	if (log_is_partly_refunded(newest) && !log_header_fits(&header))
		log_shorten_lead(&header);
	if (log_header_fits(&header))
		log_want_header(change, &header, RECORD_INTERIM);
	else
		log_want_entry(change, view, 1, newest, note_in_gone_entry(view, newest));
}

/* Whether an entry has to be moved, or dropped with its index. */
static bool is_gap_or_moving(struct cell entry)
{
	return log_has_mark(entry, LOG_GONE | LOG_MOVING);
}

/* Finds the oldest gap or moving entry of those up to `back`. Returns how far back it is, or 0. */
static unsigned find_oldest_gap(const struct log_view *view, unsigned back, struct cell *gap)
{
	for (; back > 0; back--) {
		*gap = log_entry(view, back);
		if (is_gap_or_moving(*gap))
			break;
	}
	return back;
}

/*
 * Wants the next change that closes the oldest gap of those from the newest entry to the one `back`
 * before the header's. Returns false if there is none.
 *
 * The entry after the gap is marked MOVING, so that nobody refunds it meanwhile. It is then copied
 * to the gap's index, and marked GONE at its own. The newest entry leaves by a swap of the header.
 * Only that swap changes the sum of all entries, so a thread that dies before it has refunded
 * nothing.
 *
 * Each cell's time only grows, and no entry returns to a state that it has had at the same time. So
 * the swap of a writer that stalls fails. Any thread that finds a step undone can do it.
 */
static bool want_close_gap(const struct log_view *view, unsigned back, struct record_change *change)
{
	struct cell cell = {0, 0}, next = {0, 0};

	back = find_oldest_gap(view, back, &cell);
	if (back == 0)
		return false;
	close_gap_next(view, back, cell, change);
	/* Several gaps in a row: goes on to the newest of them, behind which `next` can move. */
	for (; back > 1 && log_has_mark(cell, LOG_GONE); back--, cell = next) {
		next = log_entry(view, back - 1);
		if (!is_gap_or_moving(next))
			break;
	}
	if (log_is_moving(cell)) {
		want_finish_move(view, back, cell, change);
	} else if (back > 1 && !entry_is_unchanged(view, back, cell)) {
		/* Another thread has closed this gap: `next` may be the entry that has moved here. */
		change->want = RECORD_WANT_AGAIN;
	} else if (back > 1) {
		log_want_entry(change, view, back - 1, next,
		               with_state(view->record, next, log_sum(next), log_span(view->record, next),
		                          LOG_MOVING));
	} else if (view->has_live_header) {
		want_drop_newest_gone(view, cell, change);
	} else {
		/* The view of log_continue_step has no header, so the record has to be read anew. */
		change->want = RECORD_WANT_AGAIN;
	}
	return true;
}

/*
 * Wants the oldest entry, `back` before the header's, to end now, if the others alone have `quota`
 * units in use. Returns false otherwise.
 */
static bool want_expire_oldest(const struct log_view *view, unsigned back, uint64_t quota,
                               struct record_change *change)
{
	struct cell oldest = log_entry(view, back);
	unsigned cost = entry_units(view, back, oldest);

	if (is_gap_or_moving(oldest) || cost == 0 || view->units_in_use < quota + cost)
		return false;
	log_want_entry(
	    change, view, back, oldest,
	    log_make_entry(view->record, (struct log_fields){view->read_at_ns, log_sum(oldest),
	                                                     log_span(view->record, oldest), 0,
	                                                     cell_generation(oldest)}));
	change->progress = progress_from(view, back);
	change->progress.units_in_use = (uint16_t)(view->units_in_use - cost);
	change->progress.next_step = LOG_NEXT_EXPIRE;
	return true;
}

/*
 * For a call that may exceed the limit: wants the next change that expires the oldest entries, as
 * long as the others alone fill the quota. Returns false if there is none.
 */
bool log_expire_replaced(const struct log_view *view, uint64_t quota, struct record_change *change)
{
	if (view->live_count == 0 || view->units_in_use <= quota)
		return false;
	/* Gaps first: an entry that is being moved may count at two indexes. */
	if (want_close_gap(view, view->live_count, change)) {
		change->progress.next_step = LOG_NEXT_MOVE;
		return true;
	}
	return want_expire_oldest(view, view->live_count, quota, change);
}

/* Wants the record's entry `cell`, `back` before the header's, to be refunded, or a part of it. */
static void want_refund_entry(const struct algo_call *call, const struct log_view *view,
                              unsigned back, struct cell cell, struct record_change *change)
{
	/* If the entry has moved meanwhile, the cost is wrong, but then the swap fails. */
	unsigned cost = entry_units(view, back, cell), sum = log_sum(cell);
	unsigned span = log_span(view->record, cell);
	bool has_name = call->until_ns != 0;
	/* No later entry has a sum that was made from the sum of this one. */
	bool is_newest_sum = back == 1 && view->header_cost == 0;

	if (log_has_mark(cell, LOG_GONE)) { /* since it was found */
		change->want = RECORD_WANT_AGAIN;
	} else if (log_is_moving(cell)) {
		want_finish_move(view, back, cell, change);
	} else if (call->cost >= cost) { /* the whole entry */
		log_want_entry(change, view, back, cell,
		               with_state(view->record, cell, sum, span, cell_generation(cell) | LOG_GONE));
		/* No other entry has the name, so a refund by name has no units left to refund. */
		change->refunded = has_name ? call->cost : cost;
		close_gap_next(view, back, cell, change);
	} else if (is_newest_sum) {
		log_want_entry(change, view, back, cell,
		               with_state(view->record, cell, sum - (unsigned)call->cost, span,
		                          cell_generation(cell)));
		change->refunded = call->cost;
	} else if (call->cost > 0) { /* makes it a PART */
		log_want_entry(change, view, back, cell,
		               partly_refunded(view->record, cell, (unsigned)call->cost));
		change->refunded = call->cost;
		close_gap_next(view, back, cell, change);
	}
}

/*
 * A refund without a name refunds the newest entries, and has marked them down to `back`: wants the
 * next older one marked, too. One swap of the header drops all of them, as if each had been
 * refunded at that instant. Returns false if the refund has no units left for a whole entry, or the
 * run is long enough.
 */
static bool want_mark_next(const struct algo_call *call, const struct log_view *view, unsigned back,
                           struct record_change *change)
{
	struct cell last = log_entry(view, back), cell;
	unsigned cost;

	if (call->cost == 0 || back >= GONE_RUN_MAX || back >= view->live_count ||
	    log_is_partly_refunded(last) || !log_has_mark(last, LOG_GONE) ||
	    log_has_mark(last, LOG_FIRST))
		return false;
	cell = log_entry(view, back + 1);
	cost = entry_units(view, back + 1, cell);
	if (is_gap_or_moving(cell) || cost == 0 || cost > call->cost)
		return false;
	want_refund_entry(call, view, back + 1, cell, change);
	return true;
}

/*
 * Wants the next change of a refund or expiry that has begun under the same header. The view has
 * only the fields that log_progress stores. A change that needs more is made after the record is
 * read anew.
 */
void log_continue_step(const struct record_step *step, struct record_change *change)
{
	const struct log_progress *progress = &step->progress;
	struct log_header header = log_header(step->record->width, cell_word(step->header));
	struct log_view view = {.record = step->record,
	                        .index = header.index,
	                        .read_at_ns = progress->read_at_ns,
	                        .live_count = progress->live_count,
	                        .units_in_use = progress->units_in_use};
	bool has_change;

	if (progress->next_step == LOG_NEXT_EXPIRE)
		has_change = progress->back > 1 &&
		             want_expire_oldest(&view, progress->back - 1u, step->limit->log.count, change);
	else if (progress->next_step == LOG_NEXT_MOVE || step->call->until_ns != 0)
		has_change = want_close_gap(&view, progress->back, change);
	else
		has_change = want_mark_next(step->call, &view, progress->back, change);
	if (has_change)
		change->progress.next_step = progress->next_step;
	else
		change->want = RECORD_WANT_AGAIN;
}

/*
 * Wants the next change that closes the gap of the entry that this refund has marked last. Returns
 * false if it has marked none, or the gap is closed.
 */
static bool want_close_own_gap(const struct record_step *step, const struct log_view *view,
                               struct record_change *change)
{
	return step->gap_name_ns != 0 &&
	       (want_drop_gone_run(view, change) ||
	        want_close_gap(view, find_entry_back(view, step->gap_name_ns), change));
}

/*
 * Wants the next change of a refund: of the newest entries, or of the one that the call names. The
 * gap of an entry that this refund has marked is closed before it marks another, because entries of
 * newer requests may have come after it.
 */
void log_refund(const struct record_step *step, const struct log_view *view,
                struct record_change *change)
{
	const struct algo_call *call = step->call;
	uint64_t refunded = u64_min(call->cost, view->header_cost);
	bool has_name = call->until_ns != 0;
	struct cell entry;
	unsigned back;

	if (refunded > 0 && (!has_name || call->until_ns == view->until_ns)) {
		struct log_view header = *view;

		header.header_cost -= (unsigned)refunded;
		change->refunded = refunded;
		log_want_header(change, &header, RECORD_INTERIM);
		return;
	}
	if (view->live_count == 0 || want_close_own_gap(step, view, change))
		return;
	if (has_name && call->cost > 0) {
		back =
		    follow_moved_entry(view, call->until_ns, find_entry_back(view, call->until_ns), &entry);
		if (back > 0)
			want_refund_entry(call, view, back, entry, change);
	} else if (!has_name && !want_close_gap(view, 1, change) && call->cost > 0) {
		want_refund_entry(call, view, 1, log_entry(view, 1), change);
	}
}
