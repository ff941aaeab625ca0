/*
 * day.c: counts a day's first `free` units, and all further ones in windows (the algorithm `base`).
 *
 * After the free units, a request opens a window if none is open. A window allows `count` units in
 * a period, and ends no later than the day.
 *
 * The header is today's state, and the only value that decides. The record has the ends of windows:
 *
 *     header       until = end of the day,       generation = 2 * k + kind
 *       BELOW      word = free units in use
 *       OPEN       word = count of the window - 1; all free units are in use
 *     record[k]    until = end of the window,    word = free units of a day when it was opened
 *
 * The window of an OPEN header ends with record[k]. The next window is stored at the index after k
 * before the header is swapped, on behalf of that header, and never with an earlier end.
 * docs/design/sliding-states.md proves that this suffices.
 *
 * The end of a day is checked as in algo/rates/window.c: an end up to one day ahead stands, a later
 * one is cut back, and the count stays. The end of a window more than ALGO_SKEW_NS too far ahead is
 * cut back, too.
 */
#include "records/record.h"

/* How many windows a state can tell apart. */
#define DAY_WINDOWS 6

enum { BELOW, OPEN, KINDS };

_Static_assert(DAY_WINDOWS *KINDS <= CELL_GENERATIONS, "all generations fit in a cell");

/* The day as one step reads it. `count` is 0 unless all free units are in use. */
struct day_view {
	uint64_t end_ns;    /* of the day */
	uint64_t window_ns; /* how long the window lasts; 0 without a window */
	uint64_t free;      /* units in use: free ones of today, ... */
	uint64_t count;     /* and those of the window */
	uint64_t written;   /* free units of a day by the parameters that wrote the state */
	struct cell window; /* the window's cell as it was read */
	unsigned k;
	bool day_far, window_far; /* too far ahead: a clock that was set back since wrote it */
};

static bool window_is_too_far(const struct day_params *params, int64_t left_ns)
{
	return left_ns > (int64_t)(params->period_ns + ALGO_SKEW_NS);
}

static void read_window(const struct record_step *step, struct day_view *view)
{
	const struct day_params *params = &step->limit->day;
	int64_t left_ns;

	view->window = record_load(step->record, view->k);
	view->written = params->free;
	if (cell_tag(view->window) != step->record->tag) /* the file is damaged */
		return;
	view->written = cell_word(view->window);
	view->count = (uint64_t)cell_word(step->header) + 1;
	left_ns = cell_ahead_ns(view->window, step->now_ns);
	if (left_ns <= 0)
		return;
	view->window_far = window_is_too_far(params, left_ns);
	view->window_ns = view->window_far ? params->period_ns : (uint64_t)left_ns;
}

static struct day_view view_of_day(const struct record_step *step)
{
	const struct day_params *params = &step->limit->day;
	struct day_view view = {.end_ns = step->window_end_ns};
	uint64_t more;

	if (cell_is_empty(step->header) || cell_is_claim(step->header))
		return view;
	view.k = cell_generation(step->header) / KINDS % DAY_WINDOWS;
	if (cell_ahead_ns(step->header, step->now_ns) <= 0)
		return view;
	view.end_ns = step->now_ns + (uint64_t)cell_ahead_ns(step->header, step->now_ns);
	/* A day of 25 hours is followed by one of 24, or the other way round. */
	view.day_far = (int64_t)(view.end_ns - step->window_end_ns) > (int64_t)(NS_PER_DAY / 8 * 9);
	if (view.day_far)
		view.end_ns = step->window_end_ns;
	if (cell_generation(step->header) % KINDS == OPEN) {
		read_window(step, &view);
	} else {
		view.written = cell_word(step->header);
	}
	/*
	 * If the limit has more free units than before, the window's units fill these first, even of a
	 * window that is over.
	 */
	view.free = u64_min(view.written, params->free);
	more = u64_min(view.count, params->free - view.free);
	view.free += more;
	view.count = view.window_ns > 0 ? u64_min(view.count - more, params->count) : 0;
	if (view.count == 0)
		view.window_ns = 0;
	return view;
}

static void want_day_header(const struct record_step *step, const struct day_view *view, bool last,
                            struct record_change *change)
{
	uint64_t were_less = sat_sub(step->limit->day.free, view->written);
	unsigned kind = view->count > 0 ? OPEN : BELOW;
	uint64_t word = kind == OPEN ? view->count + were_less - 1 : view->free;

	change->want = RECORD_WANT_HEADER;
	change->header =
	    cell_make(step->record->tag, view->end_ns, (uint32_t)word, KINDS * view->k + kind);
	change->is_final = last;
}

static void want_window_cell(unsigned index, struct cell before, struct cell after,
                             struct record_change *change)
{
	change->want = RECORD_WANT_CELL;
	change->index = index;
	change->before = before;
	change->after = after;
}

/* Wants a window for the units of `view`: first its cell, and then the header. */
static void want_open_window(const struct record_step *step, struct day_view *view,
                             struct record_change *change)
{
	const struct day_params *params = &step->limit->day;
	unsigned index = (view->k + 1) % DAY_WINDOWS;
	struct cell before = record_load(step->record, index), after;
	int64_t left_ns = cell_ahead_ns(before, step->now_ns);
	uint64_t free = u64_max(view->written, params->free);

	view->window_ns = params->period_ns;
	/* Another thread may have opened it just now, on behalf of the same header. */
	if (cell_tag(before) == step->record->tag && left_ns > (int64_t)params->period_ns &&
	    !window_is_too_far(params, left_ns))
		view->window_ns = (uint64_t)left_ns;
	after = cell_make(step->record->tag, step->now_ns + view->window_ns, (uint32_t)free, 0);
	if (cell_bits(before) != cell_bits(after)) {
		want_window_cell(index, before, after, change);
		return;
	}
	view->k = index;
	view->written = free;
	want_day_header(step, view, true, change);
}

/* Makes a state that was written too far ahead end with the day, or a period from now. */
static void want_earlier_end(const struct record_step *step, const struct day_view *view,
                             struct record_change *change)
{
	if (view->window_far)
		want_window_cell(view->k, view->window,
		                 cell_make(step->record->tag, step->now_ns + view->window_ns,
		                           (uint32_t)view->written, 0),
		                 change);
	else if (view->day_far)
		want_day_header(step, view, true, change);
}

/* Wants the change from `before` to `view`. */
static void want_day_use(const struct record_step *step, const struct day_view *before,
                         struct day_view *view, struct record_change *change)
{
	if (view->count == 0 || before->count > 0) {
		want_day_header(step, view, true, change);
	} else if (step->record->cells && header_is_live(step->header, step->now_ns)) {
		want_open_window(step, view, change);
	} else { /* a key without a header has no record yet */
		want_day_header(step, before, false, change);
	}
}

static void acquire_in_day(const struct record_step *step, uint64_t cost, struct day_view *view,
                           struct record_change *change)
{
	uint64_t free = u64_min(cost, step->limit->day.free - view->free);
	struct day_view before = *view;

	view->free += free;
	view->count += cost - free;
	if (before.window_far)
		want_earlier_end(step, &before, change);
	else
		want_day_use(step, &before, view, change);
	if (view->count > 0)
		change->unit_name_ns = u64_min(step->now_ns + view->window_ns, view->end_ns);
}

/* Refunds the window's units first: while it has any, all free units are in use. */
static void refund_day(const struct record_step *step, struct day_view *view,
                       struct record_change *change)
{
	uint64_t back = u64_min(step->call->cost, view->free + view->count);
	uint64_t of_window = u64_min(back, view->count);
	struct day_view before = *view;

	if (back == 0 ||
	    !day_covers(step->call->until_ns, view->end_ns, step->now_ns, step->window_end_ns))
		return;
	view->count -= of_window;
	view->free -= back - of_window;
	want_day_use(step, &before, view, change);
	if (change->is_final)
		change->refunded = back;
}

static void decide_day(const struct record_step *step, struct algo_decision *out,
                       struct record_change *change)
{
	uint64_t cost = u64_max(step->call->cost, 1), quota = step->limit->quota;
	struct day_view view = view_of_day(step);
	uint64_t day_ns = view.end_ns - step->now_ns;

	switch (step->call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (view.free + view.count + cost > quota) {
			out->allowed = false;
			out->reason = WEIR_REASON_OVER_LIMIT;
			out->retry_after_ns = view.count > 0 && cost <= step->limit->day.count
			                          ? u64_min(view.window_ns, day_ns)
			                          : day_ns;
			if (step->call->op == ALGO_ACQUIRE)
				want_earlier_end(step, &view, change);
		} else if (algo_consumes(step->call)) {
			acquire_in_day(step, cost, &view, change);
		}
		break;
	case ALGO_REFUND:
		refund_day(step, &view, change);
		break;
	default:
		if (step->call->op == ALGO_RESET && view.free + view.count > 0) {
			view.free = view.count = 0;
			want_day_header(step, &view, true, change);
		}
		break;
	}
	out->remaining = step->limit->quota - (view.free + view.count);
	out->reset_after_ns = view.free > 0    ? day_ns
	                      : view.count > 0 ? u64_min(view.window_ns, day_ns)
	                                       : 0;
}

/* Adds the window's units and the free units in use. */
static void read_day(const struct record_step *step, struct uses *uses)
{
	struct day_view view = view_of_day(step);
	uint64_t window_ns = step->now_ns + view.window_ns;

	uses->until_ns = view.end_ns;
	if (view.count > 0)
		uses_add(uses, (struct uses_entry){view.count, u64_min(window_ns, view.end_ns),
		                                   uses_day_id(window_ns, view.end_ns)});
	if (view.free > 0)
		uses_add(uses, (struct uses_entry){view.free, view.end_ns, view.end_ns});
}

const struct record_ops record_day = {.decide = decide_day, .read_uses = read_day};
