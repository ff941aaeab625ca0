/*
 * log.c: acquires and reads units of a sliding log, which counts exactly the units of (now -
 * period, now]. log.h describes the cells.
 *
 * The oldest live entry is found from the newest by the spans on the way: it is where it was when
 * the header was written, or a little later. A narrow header stores that span, so all cells that a
 * request reads can be fetched at once.
 *
 * A record has more cells than the count, so the last entry that is over is still in it. Entries of
 * former rounds stay in the ring too. They are told apart by their names: each name is later than
 * all names of entries that came before.
 */
#include "records/log.h"

/*
 * Whether the cell `back` before the header has a live entry that came before `later`, which is
 * live and was `known` back, or has a copy of that entry. A cell with a later entry is of a former
 * round, unless `later` was moved meanwhile: then the cell at `known` has changed, too.
 */
static bool find_live_entry(const struct log_view *view, unsigned back, unsigned known,
                            struct cell later, struct cell *entry)
{
	int64_t ahead, before;

	do {
		*entry = log_entry(view, back);
		ahead = cell_ahead_ns(*entry, view->at);
		if (cell_tag(*entry) != view->record->tag || log_is_over(view->record, *entry, ahead))
			return false;
		before = cell_ahead_ns(later, view->at);
		if (ahead <= before)
			return true;
		later = log_entry(view, known);
	} while (cell_ahead_ns(later, view->at) != before);
	return false;
}

/*
 * Counts the live entries before the header: all up to some index back, and none behind it. If all
 * entries of a span are live, the oldest of these has a span of its own. Spans of wide records are
 * rounded down to powers of 4, and refunds may have left short ones, so the search goes on from
 * there.
 */
static unsigned count_live_entries(const struct log_view *view)
{
	unsigned known = 1, span = view->span, dead, step;
	struct cell oldest = view->newest, cell; /* the oldest entry known to be live */

	if (view->first || cell_tag(oldest) != view->record->tag ||
	    log_is_over(view->record, oldest, cell_ahead_ns(oldest, view->at)))
		return 0;
	for (;; known = dead, oldest = cell, span = log_span(view->record, cell)) {
		if (known == view->record->width - 1 || log_is(oldest, LOG_FIRST))
			return known;
		dead = (unsigned)u64_min(known + u64_max(span, 2) - 1, view->record->width - 1);
		if (!find_live_entry(view, dead, known, oldest, &cell))
			break;
	}
	/* In a narrow record the oldest live entry is near. */
	step = log_is_narrow(view->record->width) ? 1 : (dead - known) / 2;
	while (dead > known + 1) {
		unsigned probe = dead > known + step ? dead - step : known + (dead - known) / 2;

		if (find_live_entry(view, probe, known, oldest, &cell)) {
			known = probe;
			oldest = cell;
			step = (unsigned)u64_max((dead - known) / 2, 1);
		} else {
			dead = probe;
			step *= 2;
		}
	}
	return known;
}

/* The units in use of the entries from the oldest live one up to the one `back`. */
static unsigned units_up_to(const struct log_view *view, unsigned back)
{
	return (log_sum(log_entry(view, back)) - view->base) & LOG_SUM;
}

static void read_record_use(const struct log_params *params, struct log_view *view)
{
	struct cell oldest;

	view->live = count_live_entries(view);
	view->use = view->cost;
	if (view->live == 0)
		return;
	oldest = log_entry(view, view->live);
	if (!log_is(oldest, LOG_FIRST)) {
		struct cell spent = log_entry(view, view->live + 1);

		/*
		 * A clock that lags may find another entry there, after refunds. Then the whole count is in
		 * use.
		 */
		view->base = log_is_before(spent, oldest)
		                 ? log_sum(spent)
		                 : (log_sum(oldest) - (unsigned)params->count) & LOG_SUM;
	}
	view->use += units_up_to(view, 1);
}

static unsigned unpack_header_lead(const struct log_view *view, unsigned lead)
{
	int64_t ns;

	if (lead <= LOG_LEAD_SIMPLE)
		return lead == 0 ? 0 : 1u << (lead - 1);
	ns = -log_ahead_ns(view->record, lead == LOG_LEAD_OWN ? view->own : view->newest,
	                   view->until_ns);
	return ns >= 0 && ns <= log_lead_max(view->record) ? (unsigned)ns : 0; /* unless damaged */
}

void log_unpack_header(struct cell header, struct log_view *view)
{
	struct log_header fields = log_header(view->record->width, cell_word(header));

	view->cost = fields.cost;
	view->index = fields.index < view->record->width ? fields.index : 0; /* unless damaged */
	view->first = cell_generation(header) & LOG_FIRST;
	/*
	 * This order: a thread that sees an entry in its own cell also sees the cells from which its
	 * sum was made.
	 */
	view->own = log_entry(view, 0);
	view->newest = view->first ? (struct cell){0, 0} : log_entry(view, 1);
	if (log_is_narrow(view->record->width)) {
		view->span = fields.span;
		view->lead = fields.lead;
	} else {
		view->span = log_span(view->record, view->newest);
		view->lead = unpack_header_lead(view, fields.lead);
	}
}

static struct log_view view_of_log(const struct record_step *on)
{
	struct log_view view = {.record = on->record,
	                        .until_ns = on->now_ns + on->limit->period_ns,
	                        .first = LOG_FIRST,
	                        .at = on->now_ns};
	int64_t ahead, newest;

	if (!header_is_live(on->header, on->now_ns))
		return view;
	if (cell_generation(on->header) == RECORD_MOVED) {
		view.use = on->limit->log.count; /* its record in the former table is lost */
		view.moved = true;
		return view;
	}
	ahead = cell_ahead_ns(on->header, on->now_ns);
	view.until_ns = on->now_ns + (uint64_t)ahead;
	log_unpack_header(on->header, &view);
	if (ahead <= view.lead) { /* it is over */
		view.cost = 0;
		view.first = LOG_FIRST;
	}
	newest = ahead - view.lead - (int64_t)on->limit->period_ns;
	if (newest > 0)
		view.at = on->now_ns + (uint64_t)newest;
	read_record_use(&on->limit->log, &view);
	if (newest > (int64_t)ALGO_SKEW_NS) { /* the clock was set back */
		view.first = LOG_FIRST;
		view.live = 0;
		view.lead = 0;
		view.at = on->now_ns;
		view.until_ns = on->now_ns + on->limit->period_ns;
		view.moved = true;
		return view;
	}
	view.written = true;
	return view;
}

/*
 * Wants the header's entry in its own cell, unless it is there. If two threads store it, the one
 * whose clock lags sees more live entries. Either of them may be the one that goes on, so the
 * longer span stays.
 */
__attribute__((always_inline)) static inline void
want_header_entry(struct cell header, const struct log_view *view, struct record_change *change)
{
	struct cell have = view->own;
	unsigned first = view->live == 0 ? LOG_FIRST : LOG_LATER;
	unsigned sum = (log_sum(view->newest) + view->cost) & LOG_SUM;
	struct cell want =
	    log_make(view->record, (struct log_fields){view->until_ns, first ? view->cost : sum,
	                                               view->live + 1, view->lead, first});
	bool same = cell_tag(have) == view->record->tag && (have.high | 15) == (header.high | 15);

	if (same && cell_generation(have) == LOG_FIRST && first && log_sum(have) == view->cost)
		return;
	if (same && cell_generation(have) == LOG_LATER && !view->first && log_sum(have) == sum &&
	    log_span(view->record, have) >= log_span(view->record, want))
		return;
	log_want_entry(change, view, 0, have, want);
	change->then_header = true;
}

/* Merges all use into one entry that begins now. */
static void want_merged_header(const struct log_view *view, struct record_change *change)
{
	struct log_view header = *view;

	header.cost = (unsigned)view->use;
	log_want_header(change, &header, true);
}

/*
 * Wants a header at the same index, in place of one that is refunded or reset. If the lead does not
 * fit in the header's word, a note with the old header's name, marked GONE, stores it. There is one
 * note at most, so that another thread which decides on the same header computes the same end.
 */
static void want_replaced_header(struct record_change *change, const struct log_view *view,
                                 uint64_t least_ns, uint64_t end_ns, struct log_view *header)
{
	int64_t lead = (int64_t)(view->until_ns - end_ns);
	bool known = view->own.high >> 4 == view->until_ns << 4 >> 4;

	if (lead >= 0 && lead <= log_lead_max(view->record) && !known)
		header->own = log_make(view->record,
		                       (struct log_fields){view->until_ns, 0, 1, (unsigned)lead, LOG_GONE});
	log_set_name(header, least_ns, end_ns);
	log_want_header(change, header, true);
	if (log_is_narrow(view->record->width) || log_pack_lead(header) != LOG_LEAD_OWN ||
	    cell_bits(header->own) == cell_bits(view->own))
		return;
	log_want_entry(change, view, 0, view->own, header->own);
	change->then_header = true;
}

static void append_entry(const struct record_step *on, unsigned cost, struct log_view *view,
                         struct record_change *change)
{
	uint64_t end_ns = view->at + on->limit->period_ns;
	struct log_view next;

	view->use += cost;
	if (!view->written) {
		want_merged_header(view, change);
		return;
	}
	next = *view;
	next.cost = cost;
	if (view->cost == 0) {
		next.span = view->live;
		next.first = next.span == 0 ? LOG_FIRST : LOG_LATER;
		want_replaced_header(change, view, view->until_ns + 1, end_ns, &next);
	} else {
		next.index = record_next(view->record, view->index);
		next.span = view->live + 1;
		next.first = LOG_LATER;
		next.own = (struct cell){0, 0}; /* unknown */
		next.newest = log_make(view->record,
		                       (struct log_fields){view->until_ns, 0, 1, view->lead, LOG_LATER});
		log_set_name(&next, view->until_ns + 1, end_ns);
		log_want_header(change, &next, true);
		want_header_entry(on->header, view, change);
	}
	*view = next;
}

static void reset_log(struct log_view *view, struct record_change *change)
{
	struct log_view header = *view;

	header.cost = header.span = 0;
	header.first = LOG_FIRST;
	want_replaced_header(change, view, view->until_ns, view->until_ns - view->lead, &header);
	view->use = 0;
}

/* Reads the log at a time at which the header does not seem to be of a clock that was set back. */
bool log_want_close(const struct record_step *on, struct record_change *change)
{
	int64_t since = cell_ahead_ns(on->header, on->now_ns) - (int64_t)on->limit->period_ns;
	struct record_step then = *on;
	struct log_view view;

	then.now_ns += since > 0 ? (uint64_t)since : 0;
	view = view_of_log(&then);
	if (view.use == 0)
		return false;
	*change = (struct record_change){.want = RECORD_WANT_HEADER,
	                                 .header = {on->header.low, on->header.high & ~UINT64_C(15)}};
	change->header.high |= RECORD_MOVED;
	if (view.cost > 0)
		want_header_entry(on->header, &view, change);
	return true;
}

static uint64_t ns_until_capacity(const struct log_view *view, uint64_t now_ns, uint64_t need)
{
	unsigned enough = 0,
	         few = view->live; /* the entries up to `enough` back release at least `need` units */

	if (view->live == 0 || units_up_to(view, 1) < need)
		return view->until_ns - view->lead - now_ns;
	enough = 1;
	if (units_up_to(view, few) >= need)
		enough = few;
	while (few > enough + 1) {
		unsigned middle = enough + (few - enough) / 2;

		if (units_up_to(view, middle) >= need)
			enough = middle;
		else
			few = middle;
	}
	return (uint64_t)log_ahead_ns(view->record, log_entry(view, enough), now_ns);
}

/* When the last unit ends. */
static uint64_t end_of_use_ns(const struct log_view *view, uint64_t now_ns)
{
	if (view->cost > 0 || view->live == 0)
		return view->until_ns - view->lead;
	return now_ns + (uint64_t)log_ahead_ns(view->record, view->newest, now_ns);
}

static void decide_from_view(const struct record_step *on, struct algo_decision *out,
                             struct record_change *change)
{
	uint64_t cost = u64_max(on->call->cost, 1);
	struct log_view view = view_of_log(on);
	enum algo_op op = on->call->op;
	bool replaces = algo_op_replaces(op) && on->call->cost > 0 && !view.moved;

	if (view.moved)
		view.use = u64_min(view.use, on->limit->log.count);
	if (replaces && log_forget_replaced(&view, on->limit->log.count, change))
		return;
	if (algo_op_requests(op)) {
		if (view.use + cost > on->limit->log.count && !replaces) {
			algo_decision_deny(
			    out, WEIR_REASON_OVER_LIMIT,
			    ns_until_capacity(&view, on->now_ns, view.use + cost - on->limit->log.count));
			if (view.moved && algo_op_consumes(op))
				want_merged_header(&view, change);
		} else if (algo_consumes(on->call)) {
			append_entry(on, (unsigned)cost, &view, change);
		}
	} else if (algo_op_releases(op)) {
		log_refund(on, &view, change);
	} else if (view.use > 0) {
		reset_log(&view, change);
	}
	out->remaining = sat_sub(on->limit->log.count, view.use);
	out->reset_after_ns = view.use > 0 ? end_of_use_ns(&view, on->now_ns) - on->now_ns : 0;
}

static void decide_log(const struct record_step *on, struct algo_decision *out,
                       struct record_change *change)
{
	if (__builtin_expect(on->progress.live > 0, 0))
		log_continue(on, change);
	else
		decide_from_view(on, out, change);
}

static void read_log(const struct record_step *on, struct uses *uses)
{
	struct log_view view = view_of_log(on);
	unsigned before = 0;

	for (unsigned back = view.live; back > 0; back--) {
		struct cell entry = log_entry(&view, back);
		uint64_t name_ns = view.at + (uint64_t)cell_ahead_ns(entry, view.at);
		unsigned used = units_up_to(&view, back);

		if (used > before)
			uses_add(uses, (struct uses_entry){used - before, name_ns - log_lead(on->record, entry),
			                                   name_ns});
		before = used;
	}
	uses->until_ns = view.until_ns - view.lead;
	uses->newest_id = view.until_ns;
	if (view.moved)
		view.cost = (unsigned)u64_min(view.use, on->limit->log.count);
	if (view.cost > 0)
		uses_add(uses, (struct uses_entry){view.cost, uses->until_ns, view.until_ns});
}

const struct record_ops record_log = {.step = decide_log, .read = read_log};
