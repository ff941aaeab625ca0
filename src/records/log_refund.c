/*
 * log_refund.c: refunds requests that a sliding log has counted, and expires its oldest ones.
 *
 * A log has the newest request in the key's header, a cell in a table, and the others in a record,
 * a ring of cells. `back` counts backward from the header's index: 1 is the newest entry of the
 * record. An entry is named by its `until`. A function `want_…` changes no cell: it describes the
 * next swap in `*change`. The caller carries it out, and calls again until no change is wanted.
 *
 * The header's own entry is refunded by a swap of the header. An entry of the record is marked
 * GONE, which only one thread can do, and still counts then. Each newer entry moves back by one
 * index, over the gap, and at last the header does. The header's swap makes the refund effective.
 * See want_close_gap. A PART is an entry of which only some units are refunded.
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
 * The units of the entry `cell`, `back` before the header's. Returns 0 if the entry before it has
 * left.
 */
static unsigned entry_units(const struct log_view *view, unsigned back, struct cell cell)
{
	struct cell earlier;
	bool is_still_before;

	if (log_has_mark(cell, LOG_FIRST))
		return log_sum(cell);
	if (back + 1 > view->record->width)
		return 0;
	earlier = log_entry(view, back + 1);
	is_still_before =
	    cell_tag(earlier) == view->record->tag && log_is_before(earlier, cell) &&
	    cell_ahead_ns(earlier, view->read_at_ns) <= cell_ahead_ns(cell, view->read_at_ns);
	if (!is_still_before)
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

/* The refunded units of the GONE entry `back` before the header's. */
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

static bool entry_is_unchanged(const struct log_view *view, unsigned back, struct cell cell)
{
	return cell_bits(log_entry(view, back)) == cell_bits(cell);
}

/*
 * Wants the next change for `cell`, which is MOVING to the index of the GONE entry before it (the
 * gap): its copy there, or, once copied, the mark GONE at its own index. If neither fits, the
 * record is damaged, and the cell stays. If the cell has changed, the GONE entry may have come to
 * its index afterwards, so the record is read again.
 */
static void want_finish_move(const struct log_view *view, unsigned back, struct cell cell,
                             struct record_change *change)
{
	struct cell gap = log_entry(view, back + 1);
	unsigned sum = log_sum(cell);
	bool is_copied = (cell.high ^ gap.high) >> 4 == 0; /* both have the same name */

	if (!entry_is_unchanged(view, back, cell))
		change->want = RECORD_WANT_AGAIN;
	else if (!is_copied && log_has_mark(gap, LOG_GONE))
		log_want_entry(change, view, back + 1, gap,
		               with_state(view->record, cell, sum - refunded_units(view, back + 1, gap),
		                          (unsigned)u64_max(sat_sub(view->live_count, back), 1),
		                          cell_generation(gap) & LOG_FIRST));
	else
		log_want_entry(change, view, back, cell,
		               with_state(view->record, cell, sum, log_span(view->record, cell),
		                          is_copied ? LOG_GONE : LOG_LATER));
}

/*
 * Counts how many of the newest entries are wholly GONE, and finds the oldest of them. Entries read
 * as GONE behind these stay so under this header, since only the next entry moves to their index.
 */
static unsigned count_gone_run(const struct log_view *view, struct cell *oldest_gone)
{
	unsigned n = 0;

	while (n < GONE_RUN_MAX && n < view->live_count &&
	       !(n > 0 && log_has_mark(*oldest_gone, LOG_FIRST))) {
		struct cell cell = log_entry(view, n + 1);

		if (!log_has_mark(cell, LOG_GONE) || log_is_partly_refunded(cell))
			break;
		*oldest_gone = cell;
		n++;
	}
	return n;
}

/* The header moved by `back` to the index of the entry `gone`, which it takes the place of. */
static struct log_view header_moved_back(const struct log_view *view, unsigned back,
                                         struct cell gone)
{
	struct log_view header = *view;

	header.index = record_back(view->record, view->index, back);
	header.first_mark = cell_generation(gone) & LOG_FIRST;
	header.header_span = view->live_count - back;
	header.own_cell = gone;
	header.newest_cell = (struct cell){0, 0};
	header.header_cost = (unsigned)u64_min(
	    view->header_cost + (back == 1 ? rest_of_newest(view, gone) : 0),
	    log_cost_max(view->record)); /* more than this is a full log in any case */
	return header;
}

/*
 * Wants a header at the index of the oldest of all GONE entries next to it, so that one swap drops
 * them all. Returns false if there are none, or if the header's word can't store such an end.
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
	if (!log_header_fits(&header) && header.header_cost == 0) /* no caller knows its name */
		log_set_name_and_lead(&header, view->until_ns, end_ns);
	if (!log_header_fits(&header) || header.until_ns - header.lead_ns != end_ns)
		return false;
	log_want_header(change, &header, RECORD_INTERIM);
	return true;
}

/*
 * Wants a header at the index of the newest entry, which is GONE and so is dropped. The
 * header's lead is how long before its name it ends. If the header's word has no space for it, the
 * cell at that index first gets a note, also GONE: the note ends when the header does, and no
 * caller knows its name.
 */
static void want_drop_newest_gone(const struct log_view *view, struct cell newest,
                                  struct record_change *change)
{
	struct log_view header = header_moved_back(view, 1, newest);

	if (want_drop_gone_run(view, change))
		return;
	if (log_is_partly_refunded(newest) &&
	    !log_header_fits(&header)) /* a PART has no space for a note */
		log_shorten_lead(&header);
	if (log_header_fits(&header))
		log_want_header(change, &header, RECORD_INTERIM);
	else
		log_want_entry(
		    change, view, 1, newest,
		    log_make_entry(view->record,
		                   (struct log_fields){view->until_ns - 1, log_sum(newest),
		                                       log_span(view->record, newest), view->lead_ns - 1,
		                                       cell_generation(newest)}));
}

/*
 * Wants the next change that closes the gap of a GONE entry, of those up to `back`. Returns false
 * if there is none.
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
	struct cell cell = {0, 0}, next;

	/* The oldest gap, ... */
	for (; back > 0 && !log_has_mark(cell = log_entry(view, back), LOG_GONE | LOG_MOVING); back--)
		;
	if (back == 0)
		return false;
	change->gap_name_ns = name_of_entry(view, cell);
	change->progress = progress_from(view, back);
	/* ... and the newest entry of the run of GONE ones that begins there. */
	while (back > 1 && log_has_mark(cell, LOG_GONE) &&
	       log_has_mark(next = log_entry(view, back - 1), LOG_GONE | LOG_MOVING)) {
		cell = next;
		back--;
	}
	if (log_is_moving(cell)) {
		want_finish_move(view, back, cell, change);
	} else if (back > 1 && !entry_is_unchanged(view, back, cell)) {
		change->want =
		    RECORD_WANT_AGAIN; /* the next entry may have been at this index when it was read */
	} else if (back > 1) {
		log_want_entry(change, view, back - 1, next,
		               with_state(view->record, next, log_sum(next), log_span(view->record, next),
		                          LOG_MOVING));
	} else if (view->has_live_header) {
		want_drop_newest_gone(view, cell, change);
	} else {
		change->want = RECORD_WANT_AGAIN; /* the header's swap needs more than log_progress has */
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

	if (log_has_mark(oldest, LOG_GONE | LOG_MOVING) || cost == 0 ||
	    view->units_in_use < quota + cost)
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
	unsigned cost = entry_units(view, back, cell), sum = log_sum(cell);
	unsigned span = log_span(view->record, cell);

	/*
	 * If the entry has moved meanwhile, the cost is wrong, but then the swap fails. It may also be
	 * GONE since it was found.
	 */
	if (log_has_mark(cell, LOG_GONE)) {
		change->want = RECORD_WANT_AGAIN;
	} else if (log_is_moving(cell)) {
		want_finish_move(view, back, cell, change);
	} else if (call->cost >= cost) { /* the whole entry; a named refund ends with it */
		log_want_entry(change, view, back, cell,
		               with_state(view->record, cell, sum, span, cell_generation(cell) | LOG_GONE));
		change->refunded = call->until_ns ? call->cost : cost;
		change->gap_name_ns = name_of_entry(view, cell);
		change->progress = progress_from(view, back);
	} else if (back == 1 && view->header_cost == 0) { /* no entry after it has used its sum yet */
		log_want_entry(change, view, back, cell,
		               with_state(view->record, cell, sum - (unsigned)call->cost, span,
		                          cell_generation(cell)));
		change->refunded = call->cost;
	} else if (call->cost > 0) {
		log_want_entry(change, view, back, cell,
		               partly_refunded(view->record, cell, (unsigned)call->cost));
		change->refunded = call->cost;
		change->gap_name_ns = name_of_entry(view, cell);
		change->progress = progress_from(view, back);
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
	if (log_has_mark(cell, LOG_GONE | LOG_MOVING) || cost == 0 || cost > call->cost)
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
 * Wants the next change of a refund: of the newest entries, or of the one that the call names. The
 * gap of an entry that this refund has marked is closed before it marks another, because entries of
 * newer requests may have come after it.
 */
void log_refund(const struct record_step *step, const struct log_view *view,
                struct record_change *change)
{
	const struct algo_call *call = step->call;
	uint64_t header_units = view->is_merged ? view->units_in_use : view->header_cost;
	uint64_t refunded = u64_min(call->cost, header_units);
	bool has_name = call->until_ns != 0;
	struct cell entry;
	unsigned back;

	if (refunded > 0 && (!has_name || call->until_ns == view->until_ns)) {
		struct log_view header = *view;

		header.header_cost = (unsigned)(header_units - refunded);
		change->refunded = refunded;
		log_want_header(change, &header, RECORD_INTERIM);
		return;
	}
	if (view->live_count == 0)
		return;
	if (step->gap_name_ns != 0 &&
	    (want_drop_gone_run(view, change) ||
	     want_close_gap(view, find_entry_back(view, step->gap_name_ns), change)))
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
