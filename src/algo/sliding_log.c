/*
 * sliding_log.c: exactly what was taken in (now - period, now].
 *
 * An entry is an allowed request: its time T and its cost. The head is the
 * newest; the others stand in the row in the order in which they came, round and
 * round. In both `until` = T + period, and the word is
 *
 *                       head                                      row
 *     up to 128 cells   cost 7 | place 7 | span 7 | lead 7 | 4    sum 15 | span 7 | lead 7 | 3
 *     more              cost 14 | place 14 | 4                    sum 15 | span 14 | 3
 *
 * where place is the head's own in the row; sum is that of all costs up to and with
 * this entry, modulo 2^15, so what is in use is a difference of two; and span says
 * how many entries of the row were live when the next one came: of a row's entry
 * itself included, and a head repeats that of the entry before it. So the oldest is
 * found where it was then or a little after, by galloping; beside a head that knows
 * it, all that a request reads of the row is fetched at once. FIRST: nothing before
 * this entry is to be looked at. A head of cost 0 was given back, or is a reset, and
 * its place is free.
 *
 * No two times are the same, so `until` names one entry, and no head comes back: T is
 * now, or a nanosecond after the newest. An entry is over `lead` nanoseconds before its
 * `until`, when its own time is. Where there is no room for a lead entries stay for
 * longer, by a nanosecond for each that came at the same time.
 *
 * To give back an entry behind others is to take it out of the row. It is marked
 * GONE, which nobody does twice, and counts until those after it have moved one
 * place each, and the head, whose swap gives the cost back. See want_move.
 *
 * A row has more cells than the count, so that also the last spent entry is there.
 * Entries beyond the head stay in it; going round, they may stand where older
 * ones were. Their sums tell them: they are greater than that of the entry before
 * the head by the count at most, where those of live ones are less.
 */
#include "algo/wide.h"

/* Bits of an entry's generation. MOVING: to the place before it, which is that of one GONE. */
enum { LATER = 0, FIRST = ALGO_LOG_FIRST, GONE = 2, MOVING = 4 };

#define FIELD 0x3fffu /* of 14 bits */
#define SUM   0x7fffu

_Static_assert(ALGO_LOG_MAX <= FIELD && 2 * ALGO_LOG_MAX <= SUM, "before and after are told apart");

/* A state as it stands for this call. */
struct view {
	uint64_t until_ns; /* the head's */
	uint64_t use;      /* all of it */
	unsigned cost, place, span, lead, first;
	unsigned live;           /* entries of the row that are */
	unsigned base;           /* sum before the oldest live one */
	struct cell own, newest; /* what is in the head's place, and in the one before */
	uint64_t at;             /* now, or the newest entry's time if that is ahead */
	bool written;            /* the head says so; else there is nothing, or: */
	bool moved;              /* use that a head has to take over as one entry */
};

static unsigned sum_of(struct cell entry)
{
	return cell_word(entry) >> 17;
}

static unsigned span_of(const struct algo_row *row, struct cell entry)
{
	unsigned field = cell_word(entry) >> 3 & FIELD;

	return algo_log_is_narrow(row->width) ? field >> 7 : field;
}

static unsigned lead_of(const struct algo_row *row, struct cell entry)
{
	return algo_log_is_narrow(row->width) ? cell_word(entry) >> 3 & 0x7f : 0;
}

static bool is(struct cell entry, unsigned state)
{
	return cell_generation(entry) & state;
}

/* How long the entry counts from then on. */
static int64_t ahead_ns(const struct algo_row *row, struct cell entry, uint64_t at)
{
	return cell_ahead_ns(entry, at) - lead_of(row, entry);
}

static uint32_t head_word(const struct algo_row *row, struct algo_log_head head)
{
	if (algo_log_is_narrow(row->width))
		return head.cost << 25 | head.place << 18 | head.span << 11 | head.lead << 4;
	return head.cost << 18 | head.place << 4;
}

/* An entry of the row; altered, it stays the same request. */
static struct cell row_entry(const struct algo_row *row, uint64_t until_ns, unsigned sum,
                             unsigned span, unsigned lead, unsigned state)
{
	unsigned field = algo_log_is_narrow(row->width) ? span << 7 | lead : span;

	return cell_make(row->tag, until_ns, (sum & SUM) << 17 | field << 3, state);
}

static struct cell altered(const struct algo_row *row, struct cell entry, unsigned sum,
                           unsigned span, unsigned state)
{
	return row_entry(row, entry.high >> 4, sum, span, lead_of(row, entry), state);
}

static unsigned place_of(const struct algo_row *row, const struct view *view, unsigned back)
{
	return view->place >= back ? view->place - back : view->place + row->width - back;
}

/* The entry `back` places before the head's. */
static struct cell entry(const struct algo_row *row, const struct view *view, unsigned back)
{
	return algo_row_load(row, place_of(row, view, back));
}

static bool is_before(struct cell entry, struct cell newest)
{
	return ((sum_of(newest) - sum_of(entry)) & SUM) <= ALGO_LOG_MAX;
}

static bool live(const struct algo_row *row, const struct view *view, unsigned back)
{
	struct cell cell = entry(row, view, back);

	return cell_tag(cell) == row->tag && ahead_ns(row, cell, view->at) > 0 &&
	       is_before(cell, view->newest);
}

/* Entries before the head are live up to some place back, and none behind it. */
static unsigned count_live(const struct algo_row *row, const struct view *view)
{
	unsigned dead, step = 1, known = 1;

	if (view->first)
		return 0;
	dead = (unsigned)u64_min(u64_max(view->span, 1), row->width - 1);
	if (live(row, view, dead)) {
		/* An entry may have moved to a place that was spent already for who told the span. */
		while (dead + 1 < row->width && !is(entry(row, view, dead), FIRST) &&
		       live(row, view, dead + 1))
			dead++;
		return dead;
	}
	if (dead == 1 || !live(row, view, 1))
		return 0;
	while (dead > known + 1) { /* `known` is live; the oldest was at `dead`, and may be near it */
		unsigned probe = dead > known + step ? dead - step : known + (dead - known) / 2;

		if (live(row, view, probe)) {
			known = probe;
			step = u64_max((dead - known) / 2, 1);
		} else {
			dead = probe;
			step *= 2;
		}
	}
	return known;
}

/* What was taken by the entries up to `back`, of those in use. */
static unsigned used_up_to(const struct algo_row *row, const struct view *view, unsigned back)
{
	return (sum_of(entry(row, view, back)) - view->base) & SUM;
}

static void look_into_row(const struct log_params *params, const struct algo_row *row,
                          struct view *view)
{
	struct cell oldest;

	/* In this order: who sees an entry in its place sees what its sum was made from. */
	view->own = entry(row, view, 0);
	view->newest = view->first ? (struct cell){0, 0} : entry(row, view, 1);
	if (!algo_log_is_narrow(row->width))
		view->span = span_of(row, view->newest);
	view->live = count_live(row, view);
	view->use = view->cost;
	if (view->live == 0)
		return;
	oldest = entry(row, view, view->live);
	if (!is(oldest, FIRST)) {
		struct cell spent = entry(row, view, view->live + 1);

		/* For a clock that lags refunds may have left another in its place: then all is in use. */
		view->base = is_before(spent, oldest) ? sum_of(spent)
		                                      : (sum_of(oldest) - (unsigned)params->count) & SUM;
	}
	view->use += used_up_to(row, view, 1);
}

static void unpack_head(struct cell head, const struct algo_row *row, struct view *view)
{
	struct algo_log_head fields = algo_log_head(row->width, cell_word(head));

	view->cost = fields.cost;
	view->place = fields.place < row->width ? fields.place : 0; /* unless damaged */
	view->span = fields.span;
	view->lead = fields.lead;
	view->first = cell_generation(head) & FIRST;
}

static struct view view_of(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                           const struct algo_row *row)
{
	struct view view = {.until_ns = now_ns + limit->period_ns, .first = FIRST, .at = now_ns};
	int64_t ahead, newest;

	if (!algo_head_live(head, now_ns))
		return view;
	if (cell_generation(head) == ALGO_MOVED) {
		view.use = (uint64_t)cell_word(head) + 1;
		view.moved = true;
		return view;
	}
	unpack_head(head, row, &view);
	ahead = cell_ahead_ns(head, now_ns);
	if (ahead <= view.lead) { /* it is over */
		view.cost = 0;
		view.first = FIRST;
	}
	newest = ahead - view.lead - (int64_t)limit->period_ns;
	if (!algo_log_is_narrow(row->width)) /* by so much it may be later than it was */
		newest -= (int64_t)limit->log.count - 1;
	if (newest > 0)
		view.at = now_ns + (uint64_t)newest;
	look_into_row(&limit->log, row, &view);
	if (newest > (int64_t)ALGO_SKEW_NS) { /* the clock was set back */
		view.first = FIRST;
		view.live = 0;
		view.at = now_ns;
		view.moved = true;
		return view;
	}
	view.until_ns = now_ns + (uint64_t)ahead;
	view.written = true;
	return view;
}

uint64_t sliding_log_use(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                         const struct algo_row *row)
{
	return view_of(limit, now_ns, head, row).use;
}

static void want_head(struct algo_change *change, const struct algo_row *row, uint64_t until_ns,
                      unsigned first, uint32_t word, bool last)
{
	change->want = ALGO_WANT_HEAD;
	change->head = cell_make(row->tag, until_ns, word, first);
	change->last = last;
}

static void want_entry(struct algo_change *change, const struct algo_row *row,
                       const struct view *view, unsigned back, struct cell before,
                       struct cell after)
{
	change->want = ALGO_WANT_CELL;
	change->place = place_of(row, view, back);
	change->before = before;
	change->after = after;
}

/*
 * First the head's entry in its place, unless it is there. Of two threads that put
 * it there the one whose clock lags sees more entries live, and it may be the
 * one that goes on.
 */
static void want_place(const struct algo_row *row, struct cell head, const struct view *view,
                       struct algo_change *change)
{
	struct cell have = view->own;
	unsigned first = view->live == 0 ? FIRST : LATER;
	unsigned sum = (sum_of(view->newest) + view->cost) & SUM;
	bool same = cell_tag(have) == row->tag && (have.high | 15) == (head.high | 15);

	if (same && cell_generation(have) == FIRST && first && sum_of(have) == view->cost)
		return;
	if (same && cell_generation(have) == LATER && !view->first && sum_of(have) == sum &&
	    span_of(row, have) > view->live)
		return;
	want_entry(change, row, view, 0, have,
	           row_entry(row, view->until_ns, first ? view->cost : sum, view->live + 1, view->lead,
	                     first));
	change->then_head = true;
}

/* Use that was moved is one entry, now. */
static void want_moved(const struct algo_row *row, const struct view *view, bool last,
                       struct algo_change *change)
{
	want_head(change, row, view->until_ns, FIRST,
	          head_word(row, (struct algo_log_head){(unsigned)view->use, view->place, 0, 0}), last);
}

static unsigned lead_for(const struct algo_row *row, uint64_t ns)
{
	return algo_log_is_narrow(row->width) ? (unsigned)u64_min(ns, 0x7f) : 0;
}

static void take(const struct algo_limit *limit, const struct algo_row *row, struct cell head,
                 unsigned cost, struct view *view, struct algo_change *change)
{
	struct algo_log_head next = {cost, view->place, view->live, 0};
	uint64_t until_ns = view->at + limit->period_ns, end_ns;

	view->use += cost;
	if (!view->written) {
		want_moved(row, view, true, change);
		return;
	}
	if (view->cost > 0) {
		next.place = view->place + 1 < row->width ? view->place + 1 : 0;
		next.span++;
	}
	end_ns = u64_max(view->until_ns + 1, until_ns);
	next.lead = lead_for(row, end_ns - until_ns);
	want_head(change, row, end_ns, next.span == 0 ? FIRST : LATER, head_word(row, next), true);
	if (view->cost > 0)
		want_place(row, head, view, change);
	view->until_ns = end_ns;
	view->lead = next.lead;
	view->cost = cost;
}

static uint64_t when_room(const struct algo_row *row, uint64_t now_ns, const struct view *view,
                          uint64_t need)
{
	unsigned enough = 0, few = view->live; /* what leaves up to `enough` places back suffices */

	if (view->live == 0 || used_up_to(row, view, 1) < need)
		return view->until_ns - view->lead - now_ns;
	enough = 1;
	if (used_up_to(row, view, few) >= need)
		enough = few;
	while (few > enough + 1) {
		unsigned middle = enough + (few - enough) / 2;

		if (used_up_to(row, view, middle) >= need)
			enough = middle;
		else
			few = middle;
	}
	return (uint64_t)ahead_ns(row, entry(row, view, enough), now_ns);
}

/* What the entry counts; 0 if the one before it is not there any more. */
static unsigned cost_of(const struct algo_row *row, const struct view *view, unsigned back)
{
	struct cell cell = entry(row, view, back), earlier;

	if (is(cell, FIRST))
		return sum_of(cell);
	if (back + 1 >= row->width)
		return 0;
	earlier = entry(row, view, back + 1);
	if (cell_tag(earlier) != row->tag || !is_before(earlier, cell) ||
	    cell_ahead_ns(earlier, view->at) > cell_ahead_ns(cell, view->at))
		return 0;
	return (sum_of(cell) - sum_of(earlier)) & SUM;
}

/* How many places back the oldest live entry is that is not over before `until_ns`; 0: none. */
static unsigned find(const struct algo_row *row, const struct view *view, uint64_t until_ns)
{
	int64_t wanted = (int64_t)(until_ns - view->at);
	unsigned found = 0, earlier = view->live + 1;

	while (earlier > found + 1) {
		unsigned middle = found + (earlier - found) / 2;

		if (cell_ahead_ns(entry(row, view, middle), view->at) >= wanted)
			found = middle;
		else
			earlier = middle;
	}
	return found;
}

/* A span must not reach behind FIRST; from one that is too short the rest is found. */
static unsigned shortened(unsigned span)
{
	return span > 1 ? span - 1 : 1;
}

/*
 * What a MOVING entry wants next: to be in the place of the one GONE, or to be GONE
 * where it was. Where neither fits others were at it, or the row is damaged; then it stays.
 */
static void want_moved_on(const struct algo_row *row, const struct view *view, unsigned back,
                          struct algo_change *change)
{
	struct cell cell = entry(row, view, back), gap = entry(row, view, back + 1);
	unsigned sum = sum_of(cell), span = span_of(row, cell);
	bool copied = (cell.high ^ gap.high) >> 4 == 0;

	if (!copied && is(gap, GONE))
		want_entry(change, row, view, back + 1, gap,
		           altered(row, cell, sum - cost_of(row, view, back + 1),
		                   shortened(span), cell_generation(gap) & FIRST));
	else
		want_entry(change, row, view, back, cell,
		           altered(row, cell, sum, span, copied ? GONE : LATER));
}

/*
 * The next change that takes out an entry that is GONE, of those up to `back`;
 * false: there is none. The entry after it is marked MOVING, so that it is not
 * given back meanwhile, copied to its place, and is then itself GONE; the newest
 * goes with the head's swap. All but that leaves the sum of all as it is, so
 * whoever dies before it has given nothing back. In each place times only grow,
 * and in each time an entry goes through its states once, so a writer that stalls
 * finds that it comes too late; whoever finds a step undone can do it.
 */
static bool want_move(const struct algo_row *row, const struct view *view, unsigned back,
                      struct algo_change *change)
{
	struct cell cell, next;

	while (back > 0 && !is(entry(row, view, back), GONE | MOVING))
		back--;
	if (back == 0)
		return false;
	cell = entry(row, view, back);
	change->until_ns = view->at + (uint64_t)cell_ahead_ns(cell, view->at);
	while (back > 1 && is(cell, GONE) && is(next = entry(row, view, back - 1), GONE | MOVING)) {
		cell = next;
		back--;
	}
	if (is(cell, MOVING)) {
		want_moved_on(row, view, back, change);
	} else if (back > 1 && cell_bits(entry(row, view, back)) != cell_bits(cell)) {
		change->want = ALGO_WANT_AGAIN; /* what was read next may have been in this place */
	} else if (back > 1) {
		want_entry(change, row, view, back - 1, next,
		           altered(row, next, sum_of(next), span_of(row, next), MOVING));
	} else {
		struct algo_log_head head = {view->cost, place_of(row, view, 1),
		                             shortened(view->span), view->lead};

		want_head(change, row, view->until_ns, cell_generation(cell) & FIRST, head_word(row, head),
		          false);
	}
	return true;
}

/* Of one entry of the row, whole, or less of the newest. */
static void refund_entry(const struct algo_row *row, const struct algo_call *call,
                         const struct view *view, unsigned back, struct algo_change *change)
{
	struct cell cell = entry(row, view, back);
	unsigned cost = cost_of(row, view, back), sum = sum_of(cell), span = span_of(row, cell);

	if (is(cell, MOVING)) {
		want_moved_on(row, view, back, change);
	} else if (call->cost >= cost) {
		want_entry(change, row, view, back, cell,
		           altered(row, cell, sum, span, cell_generation(cell) | GONE));
		change->given_back = call->until_ns ? call->cost : cost;
	} else if (back == 1) {
		want_entry(change, row, view, back, cell,
		           altered(row, cell, sum - (unsigned)call->cost, span, cell_generation(cell)));
		change->given_back = call->cost;
	}
}

/* The newest first, or the one that is named; once that is done, only its place is to be closed. */
static void refund(const struct algo_row *row, const struct algo_call *call,
                   const struct view *view, struct algo_change *change)
{
	uint64_t mine = view->moved ? view->use : view->cost, given = u64_min(call->cost, mine);
	bool named = call->until_ns != 0;
	unsigned back = 1;

	if (given > 0 && (!named || call->until_ns == view->until_ns)) {
		struct algo_log_head head = {(unsigned)(mine - given), view->place, view->span, view->lead};

		change->given_back = given;
		want_head(change, row, view->until_ns, view->first,
		          head_word(row, head), false);
		return;
	}
	if (view->live == 0)
		return;
	if (named)
		back = find(row, view, call->until_ns);
	if (named && call->cost > 0) {
		struct cell cell = entry(row, view, back);

		if (back > 0 && cell.high >> 4 == call->until_ns << 4 >> 4 && !is(cell, GONE))
			refund_entry(row, call, view, back, change);
	} else if (!want_move(row, view, back, change) && call->cost > 0) {
		refund_entry(row, call, view, 1, change);
	}
}

/* When nothing will be in use. */
static uint64_t end_of(const struct algo_row *row, uint64_t now_ns, const struct view *view)
{
	if (view->cost > 0 || view->live == 0)
		return view->until_ns - view->lead;
	return now_ns + (uint64_t)ahead_ns(row, view->newest, now_ns);
}

void sliding_log_step(const struct algo_limit *limit, const struct algo_call *call,
                      const struct algo_time *time, struct cell head, const struct algo_row *row,
                      struct algo_outcome *out, struct algo_change *change)
{
	uint64_t now_ns = time->now_ns, cost = u64_max(call->cost, 1);
	struct view view = view_of(limit, now_ns, head, row);

	if (view.moved)
		view.use = u64_min(view.use, limit->log.count);
	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (view.use + cost > limit->log.count) {
			out->allowed = false;
			out->reason = WEIR_REASON_OVER_LIMIT;
			out->retry_after_ns = when_room(row, now_ns, &view, view.use + cost - limit->log.count);
			if (view.moved && call->op == ALGO_ACQUIRE)
				want_moved(row, &view, true, change);
		} else if (call->op == ALGO_ACQUIRE && call->cost > 0) {
			take(limit, row, head, (unsigned)cost, &view, change);
		}
		break;
	case ALGO_REFUND:
		refund(row, call, &view, change);
		break;
	case ALGO_RESET:
		if (view.use > 0)
			want_head(change, row, view.until_ns, FIRST,
			          head_word(row, (struct algo_log_head){0, view.place, 0, view.lead}), true);
		view.use = 0;
		break;
	}
	out->remaining = sat_sub(limit->log.count, view.use);
	out->reset_after_ns = view.use > 0 ? end_of(row, now_ns, &view) - now_ns : 0;
}
