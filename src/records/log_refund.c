/*
 * log_refund.c: refunds entries of a sliding log, and expires its oldest entries.
 *
 * The header's own entry is refunded by a swap of the header. An entry of the record is marked
 * GONE, which only one thread can do, and still counts then. Each entry after it moves by one
 * index, and at last the header does. The header's swap makes the refund effective. See
 * want_close_gap.
 */
#include "records/log.h"

/* At most so many entries are marked before the header moves behind all of them. */
#define RUN 256

/* Changes fields of an entry. It stays the same request. */
static struct cell altered_entry(const struct record *record, struct cell entry, unsigned sum,
                                 unsigned span, unsigned state)
{
	return log_make(
	    record, (struct log_fields){entry.high >> 4, sum, span, log_lead(record, entry), state});
}

static uint64_t name_of_entry(const struct log_view *view, struct cell entry)
{
	return view->at + (uint64_t)cell_ahead_ns(entry, view->at);
}

/*
 * The units of the entry `cell`, `back` before the header's. Returns 0 if the entry before it has
 * left.
 */
static unsigned cost_of_entry(const struct log_view *view, unsigned back, struct cell cell)
{
	struct cell earlier;

	if (log_is(cell, LOG_FIRST))
		return log_sum(cell);
	if (back + 1 > view->record->width)
		return 0;
	earlier = log_entry(view, back + 1);
	if (cell_tag(earlier) != view->record->tag || !log_is_before(earlier, cell) ||
	    cell_ahead_ns(earlier, view->at) > cell_ahead_ns(cell, view->at))
		return 0;
	return (log_sum(cell) - log_sum(earlier)) & LOG_SUM;
}

/* Marks `units` of an entry as refunded. */
static struct cell gone_in_part(const struct record *record, struct cell entry, unsigned units)
{
	return log_make(record, (struct log_fields){entry.high >> 4, log_sum(entry),
	                                            log_span(record, entry), log_lead(record, entry),
	                                            cell_generation(entry) | LOG_PART, units});
}

/* The refunded units of the GONE entry `back` before the header's. */
static unsigned units_gone(const struct log_view *view, unsigned back, struct cell gone)
{
	return log_is_part(gone) ? log_part(view->record, gone) : cost_of_entry(view, back, gone);
}

/* The units that a header takes over from the newest entry, if a part of that was refunded. */
static unsigned rest_of_newest(const struct log_view *view, struct cell newest)
{
	unsigned before = view->live > 1 ? log_sum(log_entry(view, 2)) : view->base;

	if (!log_is_part(newest))
		return 0;
	return (unsigned)sat_sub((log_sum(newest) - before) & LOG_SUM, units_gone(view, 1, newest));
}

/* How far back the oldest live entry is that ends at `until_ns` or later; 0 if there is none. */
static unsigned find_entry_back(const struct log_view *view, uint64_t until_ns)
{
	int64_t wanted = (int64_t)(until_ns - view->at);
	unsigned found = 0, earlier = view->live + 1;

	while (earlier > found + 1) {
		unsigned middle = found + (earlier - found) / 2;

		if (cell_ahead_ns(log_entry(view, middle), view->at) >= wanted)
			found = middle;
		else
			earlier = middle;
	}
	return found;
}

/*
 * Finds the entry named `until_ns` that was `back` before the header's. Other threads may have
 * moved it further back since. A search in the direction in which entries move does not miss it,
 * although it is GONE at its former index. Returns 0 if there is none or it is refunded.
 */
static unsigned follow_moved_entry(const struct log_view *view, uint64_t until_ns, unsigned back,
                                   struct cell *entry)
{
	int64_t wanted = (int64_t)(until_ns - view->at);

	for (; back > 0 && back <= view->live; back++) {
		int64_t ahead;

		*entry = log_entry(view, back);
		ahead = cell_ahead_ns(*entry, view->at);
		if (ahead < wanted)
			break;
		if (ahead == wanted && !log_is(*entry, LOG_GONE))
			return back;
	}
	return 0;
}

static struct log_progress progress_from(const struct log_view *view, unsigned back)
{
	return (struct log_progress){
	    .at = view->at, .live = (uint16_t)view->live, .back = (uint16_t)back};
}

static bool entry_is_unchanged(const struct log_view *view, unsigned back, struct cell cell)
{
	return cell_bits(log_entry(view, back)) == cell_bits(cell);
}

/*
 * Wants the next change for `cell`, which is MOVING: its copy at the index of the entry that is
 * GONE, or, once copied, the mark GONE at its own index. If neither fits, the record is damaged,
 * and the cell stays. If the cell has changed, the GONE entry may have come to its index
 * afterwards, so the record is read again.
 */
static void want_finish_move(const struct log_view *view, unsigned back, struct cell cell,
                             struct record_change *change)
{
	struct cell gap = log_entry(view, back + 1);
	unsigned sum = log_sum(cell);
	bool copied = (cell.high ^ gap.high) >> 4 == 0;

	if (!entry_is_unchanged(view, back, cell))
		change->want = RECORD_WANT_AGAIN;
	else if (!copied && log_is(gap, LOG_GONE))
		log_want_entry(change, view, back + 1, gap,
		               altered_entry(view->record, cell, sum - units_gone(view, back + 1, gap),
		                             (unsigned)u64_max(sat_sub(view->live, back), 1),
		                             cell_generation(gap) & LOG_FIRST));
	else
		log_want_entry(change, view, back, cell,
		               altered_entry(view->record, cell, sum, log_span(view->record, cell),
		                             copied ? LOG_GONE : LOG_LATER));
}

/*
 * Counts how many of the newest entries are wholly GONE, and finds the oldest of them. Entries read
 * as GONE behind these stay so under this header, since only the next entry moves to their index.
 */
static unsigned count_gone(const struct log_view *view, struct cell *last)
{
	unsigned n = 0;

	while (n < RUN && n < view->live && !(n > 0 && log_is(*last, LOG_FIRST))) {
		struct cell cell = log_entry(view, n + 1);

		if (!log_is(cell, LOG_GONE) || log_is_part(cell))
			break;
		*last = cell;
		n++;
	}
	return n;
}

/* The header moved back to the index of the entry `last`, which is GONE. */
static struct log_view header_moved_back(const struct log_view *view, unsigned back,
                                         struct cell last)
{
	struct log_view header = *view;

	header.index = record_back(view->record, view->index, back);
	header.first = cell_generation(last) & LOG_FIRST;
	header.span = view->live - back;
	header.own = last;
	header.newest = (struct cell){0, 0};
	header.cost = (unsigned)u64_min(
	    view->cost + (back == 1 ? rest_of_newest(view, last) : 0),
	    log_cost_max(view->record)); /* more than this is a full log in any case */
	return header;
}

/*
 * Wants a header that drops all GONE entries next to it, if its end can be stored without a note.
 */
static bool want_drop_gone_run(const struct log_view *view, struct record_change *change)
{
	struct cell last = view->newest;
	unsigned back = count_gone(view, &last);
	uint64_t end_ns = view->until_ns - view->lead;
	struct log_view header;

	if (back == 0)
		return false;
	header = header_moved_back(view, back, last);
	if (!log_header_fits(&header) && header.cost == 0) /* no caller knows its name */
		log_set_name(&header, view->until_ns, end_ns);
	if (!log_header_fits(&header) || header.until_ns - header.lead != end_ns)
		return false;
	log_want_header(change, &header, false);
	return true;
}

/*
 * Wants a header that drops the newest entry, which is GONE. If the header's word has no space for
 * its lead, the cell at that index first gets a note that ends when the header does, under a name
 * that has passed, also GONE.
 */
static void want_drop_newest(const struct log_view *view, struct cell newest,
                             struct record_change *change)
{
	struct log_view header = header_moved_back(view, 1, newest);

	if (want_drop_gone_run(view, change))
		return;
	if (log_is_part(newest) && !log_header_fits(&header)) /* a PART has no space for a note */
		log_shorten_lead(&header);
	if (log_header_fits(&header))
		log_want_header(change, &header, false);
	else
		log_want_entry(
		    change, view, 1, newest,
		    log_make(view->record, (struct log_fields){view->until_ns - 1, log_sum(newest),
		                                               log_span(view->record, newest),
		                                               view->lead - 1, cell_generation(newest)}));
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
 * Times in each cell only grow, and for each time an entry passes through its states once. So the
 * swap of a writer that stalls fails. Any thread that finds a step undone can do it.
 */
static bool want_close_gap(const struct log_view *view, unsigned back, struct record_change *change)
{
	struct cell cell = {0, 0}, next;

	for (; back > 0 && !log_is(cell = log_entry(view, back), LOG_GONE | LOG_MOVING); back--)
		;
	if (back == 0)
		return false;
	change->gone_ns = name_of_entry(view, cell);
	change->progress = progress_from(view, back);
	while (back > 1 && log_is(cell, LOG_GONE) &&
	       log_is(next = log_entry(view, back - 1), LOG_GONE | LOG_MOVING)) {
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
		               altered_entry(view->record, next, log_sum(next),
		                             log_span(view->record, next), LOG_MOVING));
	} else if (view->written) {
		want_drop_newest(view, cell, change);
	} else {
		change->want = RECORD_WANT_AGAIN; /* the header's swap needs more than log_progress has */
	}
	return true;
}

/* Expires the oldest entry, `back` before the header's, if the others alone fill the count. */
static bool want_expire_oldest(const struct log_view *view, unsigned back, uint64_t count,
                               struct record_change *change)
{
	struct cell oldest = log_entry(view, back);
	unsigned cost = cost_of_entry(view, back, oldest);

	if (log_is(oldest, LOG_GONE | LOG_MOVING) || cost == 0 || view->use < count + cost)
		return false;
	log_want_entry(change, view, back, oldest,
	               log_make(view->record, (struct log_fields){view->at, log_sum(oldest),
	                                                          log_span(view->record, oldest), 0,
	                                                          cell_generation(oldest)}));
	change->progress = progress_from(view, back);
	change->progress.use = (uint16_t)(view->use - cost);
	change->progress.next = LOG_FORGETS;
	return true;
}

bool log_forget_replaced(const struct log_view *view, uint64_t count, struct record_change *change)
{
	if (view->live == 0 || view->use <= count)
		return false;
	if (want_close_gap(view, view->live, change)) { /* while it moves it may count at two indexes */
		change->progress.next = LOG_MOVES;
		return true;
	}
	return want_expire_oldest(view, view->live, count, change);
}

/* Refunds an entry of the record, or a part of it. */
static void refund_entry(const struct algo_call *call, const struct log_view *view, unsigned back,
                         struct cell cell, struct record_change *change)
{
	unsigned cost = cost_of_entry(view, back, cell), sum = log_sum(cell);
	unsigned span = log_span(view->record, cell);

	/*
	 * If the entry has moved meanwhile, the cost is wrong, but then the swap fails. It may also be
	 * GONE since it was found.
	 */
	if (log_is(cell, LOG_GONE)) {
		change->want = RECORD_WANT_AGAIN;
	} else if (log_is_moving(cell)) {
		want_finish_move(view, back, cell, change);
	} else if (call->cost >= cost) {
		log_want_entry(
		    change, view, back, cell,
		    altered_entry(view->record, cell, sum, span, cell_generation(cell) | LOG_GONE));
		change->refunded = call->until_ns ? call->cost : cost;
		change->gone_ns = name_of_entry(view, cell);
		change->progress = progress_from(view, back);
	} else if (back == 1 && view->cost == 0) { /* later an append may have read its sum */
		log_want_entry(change, view, back, cell,
		               altered_entry(view->record, cell, sum - (unsigned)call->cost, span,
		                             cell_generation(cell)));
		change->refunded = call->cost;
	} else if (call->cost > 0) {
		log_want_entry(change, view, back, cell,
		               gone_in_part(view->record, cell, (unsigned)call->cost));
		change->refunded = call->cost;
		change->gone_ns = name_of_entry(view, cell);
		change->progress = progress_from(view, back);
	}
}

/*
 * Marks the next entry behind those that a refund without a name has marked, which are the newest.
 * One swap of the header drops all of them, as if each had been refunded at that instant.
 */
static bool want_mark_next(const struct algo_call *call, const struct log_view *view, unsigned back,
                           struct record_change *change)
{
	struct cell last = log_entry(view, back), cell;
	unsigned cost;

	if (call->cost == 0 || back >= RUN || back >= view->live || log_is_part(last) ||
	    !log_is(last, LOG_GONE) || log_is(last, LOG_FIRST))
		return false;
	cell = log_entry(view, back + 1);
	cost = cost_of_entry(view, back + 1, cell);
	if (log_is(cell, LOG_GONE | LOG_MOVING) || cost == 0 || cost > call->cost)
		return false;
	refund_entry(call, view, back + 1, cell, change);
	return true;
}

/*
 * The view has only the fields that log_progress stores. A change that needs more is made after the
 * record is read anew.
 */
void log_continue(const struct record_step *on, struct record_change *change)
{
	const struct log_progress *progress = &on->progress;
	struct log_header header = log_header(on->record->width, cell_word(on->header));
	struct log_view view = {.record = on->record,
	                        .index = header.index,
	                        .at = progress->at,
	                        .live = progress->live,
	                        .use = progress->use};
	bool wants;

	if (progress->next == LOG_FORGETS)
		wants = progress->back > 1 &&
		        want_expire_oldest(&view, progress->back - 1u, on->limit->log.count, change);
	else if (progress->next == LOG_MOVES || on->call->until_ns != 0)
		wants = want_close_gap(&view, progress->back, change);
	else
		wants = want_mark_next(on->call, &view, progress->back, change);
	if (wants)
		change->progress.next = progress->next;
	else
		change->want = RECORD_WANT_AGAIN;
}

/*
 * Refunds the newest entries, or the named one. The gap of an entry that this refund has marked is
 * closed before it marks another, because requests that came since may stand behind that entry.
 */
void log_refund(const struct record_step *on, const struct log_view *view,
                struct record_change *change)
{
	const struct algo_call *call = on->call;
	uint64_t mine = view->moved ? view->use : view->cost, given = u64_min(call->cost, mine);
	bool named = call->until_ns != 0;
	struct cell entry;
	unsigned back;

	if (given > 0 && (!named || call->until_ns == view->until_ns)) {
		struct log_view header = *view;

		header.cost = (unsigned)(mine - given);
		change->refunded = given;
		log_want_header(change, &header, false);
		return;
	}
	if (view->live == 0)
		return;
	if (on->gone_ns != 0 && (want_drop_gone_run(view, change) ||
	                         want_close_gap(view, find_entry_back(view, on->gone_ns), change)))
		return;
	if (named && call->cost > 0) {
		back =
		    follow_moved_entry(view, call->until_ns, find_entry_back(view, call->until_ns), &entry);
		if (back > 0)
			refund_entry(call, view, back, entry, change);
	} else if (!named && !want_close_gap(view, 1, change) && call->cost > 0) {
		refund_entry(call, view, 1, log_entry(view, 1), change);
	}
}
