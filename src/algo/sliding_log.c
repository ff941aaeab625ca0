/*
 * sliding_log.c: exactly what was taken in (now - period, now].
 *
 * An entry is an allowed request: its time T and its cost. The head is the
 * newest; the others stand in the row in the order in which they came, round and
 * round. In both `until` = T + period, and the word is
 *
 *     head    cost 14 | place of its own in the row 14 | version 4
 *     row     sum 15  | span 14                        | version 3
 *
 * where sum is that of all costs up to and with this entry, modulo 2^15, so what
 * is in use is a difference of two; and span says how many entries were live
 * when the next one came, itself included. So the oldest is found where it was
 * then or a little after, by galloping. FIRST in a generation: nothing before
 * this entry is to be looked at. Each refund raises the version, so that no head
 * comes back. A cost of 0, which only a FIRST head has: nothing is in use.
 *
 * A row has more cells than the count, so that also the last spent entry is there.
 * Entries that were refunded stay in it; going round, they may stand where older
 * ones were. Their sums tell them: they are greater than that of the entry before
 * the head by the count at most, where those of live ones are less.
 */
#include "algo/wide.h"

enum { LATER, FIRST };

#define FIELD 0x3fffu /* of 14 bits */
#define SUM   0x7fffu

_Static_assert(ALGO_LOG_MAX <= FIELD && 2 * ALGO_LOG_MAX <= SUM, "before and after are told apart");

/* A state as it stands for this call. */
struct view {
	uint64_t until_ns;
	uint64_t use; /* all of it */
	unsigned cost, place, version, first;
	unsigned live;      /* entries of the row that are */
	unsigned base;      /* sum before the oldest live one */
	struct cell newest; /* of the row */
	uint64_t at;        /* now, or the newest entry's time if that is ahead */
	bool written;       /* the head says so; else there is nothing, or: */
	bool moved;         /* use that a head has to take over as one entry */
};

static unsigned sum_of(struct cell entry)
{
	return cell_word(entry) >> 17;
}

static unsigned span_of(struct cell entry)
{
	return cell_word(entry) >> 3 & FIELD;
}

static uint32_t head_word(uint64_t cost, unsigned place, unsigned version)
{
	return (uint32_t)cost << 18 | place << 4 | (version & 15);
}

/* The entry `back` places before the head's. */
static struct cell entry(const struct algo_row *row, const struct view *view, unsigned back)
{
	return algo_row_load(row, view->place >= back ? view->place - back
	                                              : view->place + row->width - back);
}

static bool is_before(struct cell entry, struct cell newest)
{
	return ((sum_of(newest) - sum_of(entry)) & SUM) <= ALGO_LOG_MAX;
}

static bool live(const struct algo_row *row, const struct view *view, unsigned back)
{
	struct cell cell = entry(row, view, back);

	return cell_tag(cell) == row->tag && cell_ahead_ns(cell, view->at) > 0 &&
	       is_before(cell, view->newest);
}

/* Entries before the head are live up to some place back, and none behind it. */
static unsigned count_live(const struct algo_row *row, const struct view *view)
{
	unsigned dead, step = 1, known = 1;

	if (view->first || !live(row, view, 1))
		return 0;
	dead = u64_min(u64_max(span_of(view->newest), 1), row->width - 1);
	if (live(row, view, dead))
		return dead;
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
	struct cell oldest, spent;

	view->newest = view->first ? (struct cell){0, 0} : entry(row, view, 1);
	view->live = count_live(row, view);
	view->use = view->cost;
	if (view->live == 0)
		return;
	oldest = entry(row, view, view->live);
	spent = entry(row, view, view->live + 1);
	if (cell_generation(oldest) != FIRST)
		/* For a clock that lags refunds may have left another in its place: then all is in use. */
		view->base = is_before(spent, oldest) ? sum_of(spent)
		                                      : (sum_of(oldest) - (unsigned)params->count) & SUM;
	view->use += used_up_to(row, view, 1);
}

static struct view view_of(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                           const struct algo_row *row)
{
	struct view view = {.until_ns = now_ns + limit->period_ns, .first = FIRST, .at = now_ns};
	int64_t ahead;

	if (!algo_head_live(head, now_ns))
		return view;
	if (cell_generation(head) == ALGO_MOVED) {
		view.use = (uint64_t)cell_word(head) + 1;
		view.moved = true;
		return view;
	}
	ahead = cell_ahead_ns(head, now_ns);
	view.cost = cell_word(head) >> 18;
	view.place = cell_word(head) >> 4 & FIELD;
	if (view.place >= row->width) /* a damaged head */
		view.place = 0;
	view.version = cell_word(head) & 15;
	if (view.cost == 0)
		return view;
	view.first = cell_generation(head);
	if (ahead > (int64_t)limit->period_ns)
		view.at = now_ns + (uint64_t)ahead - limit->period_ns;
	look_into_row(&limit->log, row, &view);
	if (ahead > (int64_t)(limit->period_ns + ALGO_SKEW_NS)) { /* the clock was set back */
		view.version++;
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

/*
 * The head's entry in its place, or false: it is there. Of two threads that put
 * it there the one whose clock lags sees more entries live, and it may be the
 * one that goes on: a span may be longer than needed, never shorter.
 */
static bool want_place(const struct algo_row *row, struct cell head, const struct view *view,
                       struct algo_change *change)
{
	struct cell have = algo_row_load(row, view->place);
	unsigned first = view->live == 0 ? FIRST : LATER;
	unsigned sum = (sum_of(view->newest) + view->cost) & SUM;
	bool same = cell_tag(have) == row->tag && (have.high | 15) == (head.high | 15) &&
	            (cell_word(have) & 7) == (view->version & 7);

	if (same && cell_generation(have) == FIRST && first && sum_of(have) == view->cost)
		return false;
	if (same && cell_generation(have) == LATER && !view->first && sum_of(have) == sum &&
	    span_of(have) > view->live)
		return false;
	change->want = ALGO_WANT_CELL;
	change->place = view->place;
	change->before = have;
	change->after = cell_make(
	    row->tag, view->until_ns,
	    (first ? view->cost : sum) << 17 | (view->live + 1) << 3 | (view->version & 7), first);
	return true;
}

/* Use that was moved is one entry, now. */
static void want_moved(const struct algo_row *row, const struct view *view, bool last,
                       struct algo_change *change)
{
	want_head(change, row, view->until_ns, FIRST, head_word(view->use, view->place, view->version),
	          last);
}

static void take(const struct algo_limit *limit, const struct algo_row *row, struct cell head,
                 uint64_t cost, struct view *view, struct algo_change *change)
{
	unsigned place = view->place + 1 < row->width ? view->place + 1 : 0;

	view->use += cost;
	if (!view->written) {
		want_moved(row, view, true, change);
		return;
	}
	if (want_place(row, head, view, change))
		return;
	view->until_ns = view->at + limit->period_ns;
	want_head(change, row, view->until_ns, LATER, head_word(cost, place, view->version), true);
}

static uint64_t when_room(const struct algo_row *row, uint64_t now_ns, const struct view *view,
                          uint64_t need)
{
	unsigned enough = 0, few = view->live; /* what leaves up to `enough` places back suffices */

	if (view->live == 0 || used_up_to(row, view, 1) < need)
		return view->until_ns - now_ns;
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
	return (uint64_t)cell_ahead_ns(entry(row, view, enough), now_ns);
}

/* The newest first: lowers the head, or steps back to the entry before it. */
static void refund(const struct algo_row *row, const struct algo_call *call,
                   const struct view *view, struct algo_change *change)
{
	uint64_t mine = view->moved ? view->use : view->cost, back = u64_min(call->cost, mine);
	unsigned cost;

	if (back == 0 || (call->until_ns != 0 && call->until_ns != view->until_ns))
		return;
	change->given_back = back;
	if (back < mine || view->live == 0) {
		want_head(change, row, view->until_ns, back < mine ? view->first : FIRST,
		          head_word(mine - back, view->place, view->version + 1), false);
		return;
	}
	cost = view->live == 1 ? used_up_to(row, view, 1)
	                       : (sum_of(view->newest) - sum_of(entry(row, view, 2))) & SUM;
	change->want = ALGO_WANT_HEAD;
	change->head = view->newest;
	change->head.low =
	    (uint64_t)row->tag << 32 |
	    head_word(cost, view->place ? view->place - 1 : row->width - 1, view->version + 1);
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
			take(limit, row, head, cost, &view, change);
		}
		break;
	case ALGO_REFUND:
		refund(row, call, &view, change);
		break;
	case ALGO_RESET:
		if (view.use > 0)
			want_head(change, row, view.until_ns, FIRST, head_word(0, view.place, view.version + 1),
			          true);
		view.use = 0;
		break;
	}
	out->remaining = sat_sub(limit->log.count, view.use);
	out->reset_after_ns = view.use > 0 ? view.until_ns - now_ns : 0;
}
