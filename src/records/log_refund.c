/*
 * log_refund.c: takes an entry out of a log.
 *
 * A refund of an entry behind others takes it out of the record. It marks the entry GONE,
 * which only one thread can do. The entry counts until those after it have moved one
 * place each, and the header, whose swap gives the cost back. See want_move.
 */
#include "records/log.h"

/* So many entries are marked, at most, before the header leaves them all behind. */
#define RUN 256

/* An entry of the record with something else in it; it stays the same request. */
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

/* The units that `cell`, there, counts; 0 if the one before it is not there any more. */
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

/* An entry of which so many units are given back. */
static struct cell gone_in_part(const struct record *record, struct cell entry, unsigned units)
{
	return log_make(record, (struct log_fields){entry.high >> 4, log_sum(entry),
	                                            log_span(record, entry), log_lead(record, entry),
	                                            cell_generation(entry) | LOG_PART, units});
}

/* The units of one that is GONE, there, that are given back. */
static unsigned units_gone(const struct log_view *view, unsigned back, struct cell gone)
{
	return log_is_part(gone) ? log_part(view->record, gone) : cost_of_entry(view, back, gone);
}

/* The units of the newest entry that the header takes over where a part of them was given back. */
static unsigned rest_of_newest(const struct log_view *view, struct cell newest)
{
	unsigned before = view->live > 1 ? log_sum(log_entry(view, 2)) : view->base;

	if (!log_is_part(newest))
		return 0;
	return (unsigned)sat_sub((log_sum(newest) - before) & LOG_SUM, units_gone(view, 1, newest));
}

/* How many places back the oldest live entry is that is not over before `until_ns`, or 0 */
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
 * The entry of that name, which is that many places back or, since that was looked up, more:
 * others may have moved it. Whoever goes the way that entries move does not miss it, though it
 * is GONE where it was. Returns 0 when there is none, or it is given back.
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
 * The next change for `cell`, which is MOVING: to the index of the one GONE, or to be GONE where
 * it was. If neither fits, the record is damaged, and the cell stays.
 */
static void want_finish_move(const struct log_view *view, unsigned back, struct cell cell,
                             struct record_change *change)
{
	struct cell gap = log_entry(view, back + 1);
	unsigned sum = log_sum(cell);
	bool copied = (cell.high ^ gap.high) >> 4 == 0;

	if (!entry_is_unchanged(view, back, cell)) /* the one GONE may have come after it */
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
 * How many of the newest entries are GONE as a whole, and the oldest of them. What is read as GONE
 * behind those stays so under this header: nothing moves to its place but what is next to it.
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

/* The header whose place is that of the entry `last`, so many places back, which is GONE. */
static struct log_view header_moved_back(const struct log_view *view, unsigned back,
                                         struct cell last)
{
	struct log_view header = *view;

	header.index = record_back(view->record, view->index, back);
	header.first = cell_generation(last) & LOG_FIRST;
	header.span = view->live - back;
	header.own = last;
	header.newest = (struct cell){0, 0};
	header.cost = (unsigned)u64_min(view->cost + (back == 1 ? rest_of_newest(view, last) : 0),
	                                log_cost_max(view->record)); /* which is a full log at least */
	return header;
}

/* All that are GONE next to the header go at once, if the header's end can be told without a note.
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
	if (!log_header_fits(&header) && header.cost == 0) /* nobody has its name */
		log_set_name(&header, view->until_ns, end_ns);
	if (!log_header_fits(&header) || header.until_ns - header.lead != end_ns)
		return false;
	log_want_header(change, &header, false);
	return true;
}

/*
 * The header's place becomes that of the newest, which is GONE. Where the header's word has no
 * room for its lead, something that ends when it does is to be in that place before: by a
 * name that had its time, and is GONE as well.
 */
static void want_drop_newest(const struct log_view *view, struct cell newest,
                             struct record_change *change)
{
	struct log_view header = header_moved_back(view, 1, newest);

	if (want_drop_gone_run(view, change))
		return;
	if (log_is_part(newest) && !log_header_fits(&header)) /* the cell has no room for a note */
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
 * The next change that takes out an entry that is GONE, of those up to `back`;
 * false: there is none. The entry after it is marked MOVING, so that it is not
 * given back meanwhile, copied to its place, and is then itself GONE; the newest
 * goes with the header's swap. All but that leaves the sum of all as it is, so
 * whoever dies before it has given nothing back. In each place times only grow,
 * and in each time an entry goes through its states once, so a writer that stalls
 * finds that it comes too late; whoever finds a step undone can do it.
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
		change->want = RECORD_WANT_AGAIN; /* what was read next may have been in this place */
	} else if (back > 1) {
		log_want_entry(change, view, back - 1, next,
		               altered_entry(view->record, next, log_sum(next),
		                             log_span(view->record, next), LOG_MOVING));
	} else if (view->written) {
		want_drop_newest(view, cell, change);
	} else {
		change->want = RECORD_WANT_AGAIN; /* it takes more than is known on the way */
	}
	return true;
}

/* Ends the oldest entry, so many places back, if the others alone fill the count. */
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
	if (want_close_gap(view, view->live,
	                   change)) { /* until it has left it may count in another's place */
		change->progress.next = LOG_MOVES;
		return true;
	}
	return want_expire_oldest(view, view->live, count, change);
}

/* Refunds one entry of the record, or a part of it. */
static void refund_entry(const struct algo_call *call, const struct log_view *view, unsigned back,
                         struct cell cell, struct record_change *change)
{
	unsigned cost = cost_of_entry(view, back, cell), sum = log_sum(cell);
	unsigned span = log_span(view->record, cell);

	/*
	 * If the cost is wrong, since the entry has moved to the place of the one before it, then the
	 * swap fails. It may be GONE since it was found.
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
	} else if (back == 1 && view->cost == 0) { /* else who appends may have read its sum */
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
 * Behind what a refund without a name has marked, which are the newest, the next one that it marks.
 * All of them go with one swap of the header, as if each had gone by itself at that instant.
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

/* In a view of which only this is known, what takes more is done once the record is read anew. */
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
 * The newest first, or the one that is named. The place of the entry that this refund has marked
 * is closed before it marks another: requests that came since may stand behind that entry.
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
