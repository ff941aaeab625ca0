/*
 * day.c: decides calls on a limit of the algorithm `base`: counts a day's first `free` units, and
 * all further ones in windows.
 *
 * After the free units, a request opens a window if none is open. A window allows `count` units in
 * a period, and ends no later than the day.
 *
 * The *header*, the key's cell in a table, is today's state, and the only value that decides. The
 * *record*, the cells behind it, has the ends of windows:
 *
 *     header            until = end of the day,       generation = 2 * k + kind
 *       FREE_LEFT       word = free units in use
 *       FREE_USED_UP    word = units in use of the window - 1; all free units are in use
 *     record[k]         until = end of the window,    word = free units of a day when it was opened
 *
 * k is the index of the window that is open or was open last; each new window takes the next index,
 * around the record. The next window is stored at the index after k before the header is swapped,
 * on behalf of that header, and never with an earlier end. A function `want_…` changes no cell: it
 * describes the next swap in `*change`. The caller carries it out and decides anew, until a change
 * is RECORD_FINAL. docs/design/sliding-states.md proves that this suffices.
 *
 * The end of a day is checked as in algo/rates/window.c: up to one day after today's it stands, a
 * later one is cut back, and the count stays. The end of a window more than ALGO_SKEW_NS too far
 * ahead is cut back, too.
 */
#include "records/record.h"

/* How many windows a state can tell apart. */
#define DAY_WINDOWS 6

enum { FREE_LEFT, FREE_USED_UP, KINDS };

_Static_assert(DAY_WINDOWS *KINDS <= CELL_GENERATIONS, "all generations fit in a cell");

/* The day as one step reads it. `window_used` is 0 unless all free units are in use. */
struct day_view {
	uint64_t day_end_ns;
	uint64_t window_left_ns; /* how long the window still lasts; 0 without a window */
	uint64_t free_used;      /* units in use: free ones of today, ... */
	uint64_t window_used;    /* and those of the window */
	uint64_t free_stored;    /* units that the state stores as free ones in use; if a window is
	                            open: all free units of a day, by the limit that opened it */
	struct cell window_cell;
	unsigned window_index;
	bool day_is_too_far, window_is_too_far; /* a clock that was set back since has written it */
};

static bool window_lasts_too_long(const struct day_params *params, int64_t left_ns)
{
	return left_ns > (int64_t)(params->period_ns + ALGO_SKEW_NS);
}

/* Reads the open window: its end from the record, and its units from the header. */
static void read_window(const struct record_step *step, struct day_view *view)
{
	const struct day_params *params = &step->limit->day;
	int64_t left_ns;

	view->window_cell = record_load(step->record, view->window_index);
	view->free_stored = params->free;
	if (cell_tag(view->window_cell) != step->record->tag) /* the file is damaged */
		return;
	view->free_stored = cell_word(view->window_cell);
	view->window_used = (uint64_t)cell_word(step->header) + 1;
	left_ns = cell_ahead_ns(view->window_cell, step->now_ns);
	if (left_ns <= 0)
		return;
	view->window_is_too_far = window_lasts_too_long(params, left_ns);
	view->window_left_ns = view->window_is_too_far ? params->period_ns : (uint64_t)left_ns;
}

/* Reads header and record. Without a live header no units of today are in use. */
static struct day_view read_day(const struct record_step *step)
{
	const struct day_params *params = &step->limit->day;
	struct day_view view = {.day_end_ns = step->window_end_ns};
	uint64_t now_free; /* units of the window that a raised limit makes free ones */

	if (cell_is_empty(step->header) || cell_is_claim(step->header))
		return view;
	view.window_index = cell_generation(step->header) / KINDS % DAY_WINDOWS;
	if (cell_ahead_ns(step->header, step->now_ns) <= 0)
		return view;
	view.day_end_ns = step->now_ns + (uint64_t)cell_ahead_ns(step->header, step->now_ns);
	/* The next day, which a clock ahead of this one may have begun, has up to 25 hours. */
	view.day_is_too_far =
	    (int64_t)(view.day_end_ns - step->window_end_ns) > (int64_t)(NS_PER_DAY / 8 * 9);
	if (view.day_is_too_far)
		view.day_end_ns = step->window_end_ns;
	if (cell_generation(step->header) % KINDS == FREE_USED_UP) {
		read_window(step, &view);
	} else {
		view.free_stored = cell_word(step->header);
	}
	/*
	 * If the limit has more free units than before, the window's units fill these first, even of a
	 * window that is over.
	 */
	view.free_used = u64_min(view.free_stored, params->free);
	now_free = u64_min(view.window_used, params->free - view.free_used);
	view.free_used += now_free;
	view.window_used =
	    view.window_left_ns > 0 ? u64_min(view.window_used - now_free, params->count) : 0;
	if (view.window_used == 0)
		view.window_left_ns = 0;
	return view;
}

/*
 * Wants a header with the units of `view`. If the limit had fewer free units when the window was
 * opened, the window's word counts the difference, too: a read takes it off again.
 */
static void want_day_header(const struct record_step *step, const struct day_view *view,
                            bool is_final, struct record_change *change)
{
	uint64_t free_added = sat_sub(step->limit->day.free, view->free_stored);
	unsigned kind = view->window_used > 0 ? FREE_USED_UP : FREE_LEFT;
	uint64_t word = kind == FREE_USED_UP ? view->window_used + free_added - 1 : view->free_used;

	change->want = RECORD_WANT_HEADER;
	change->header = cell_make(step->record->tag, view->day_end_ns, (uint32_t)word,
	                           KINDS * view->window_index + kind);
	change->is_final = is_final;
}

static void want_window_cell(unsigned index, struct cell before, struct cell after,
                             struct record_change *change)
{
	change->want = RECORD_WANT_CELL;
	change->index = index;
	change->before = before;
	change->after = after;
}

/*
 * Wants a new window for the units of `view`: first its cell at the next index of the record, and
 * once that is stored, the header.
 */
static void want_open_window(const struct record_step *step, struct day_view *view,
                             struct record_change *change)
{
	const struct day_params *params = &step->limit->day;
	unsigned index = (view->window_index + 1) % DAY_WINDOWS;
	struct cell before = record_load(step->record, index), after;
	int64_t left_ns = cell_ahead_ns(before, step->now_ns);
	uint64_t free_max = u64_max(view->free_stored, params->free);

	view->window_left_ns = params->period_ns;
	/*
	 * If another thread has stored the cell on behalf of the same header, with a clock ahead of
	 * this one, its later end stays.
	 */
	if (cell_tag(before) == step->record->tag && left_ns > (int64_t)params->period_ns &&
	    !window_lasts_too_long(params, left_ns))
		view->window_left_ns = (uint64_t)left_ns;
	after =
	    cell_make(step->record->tag, step->now_ns + view->window_left_ns, (uint32_t)free_max, 0);
	if (cell_bits(before) !=
	    cell_bits(after)) { /* in the next step, at the same now, it is equal */
		want_window_cell(index, before, after, change);
		return;
	}
	view->window_index = index;
	view->free_stored = free_max;
	want_day_header(step, view, RECORD_FINAL, change);
}

/* Wants a window or day that was written too far ahead to end a period from now, or with today. */
static void want_earlier_end(const struct record_step *step, const struct day_view *view,
                             struct record_change *change)
{
	if (view->window_is_too_far)
		want_window_cell(view->window_index, view->window_cell,
		                 cell_make(step->record->tag, step->now_ns + view->window_left_ns,
		                           (uint32_t)view->free_stored, 0),
		                 change);
	else if (view->day_is_too_far)
		want_day_header(step, view, RECORD_FINAL, change);
}

/* Wants the next change that makes the units in use those of `view`, in place of `before`. */
static void want_day_view(const struct record_step *step, const struct day_view *before,
                          struct day_view *view, struct record_change *change)
{
	if (view->window_used == 0 || before->window_used > 0) {
		want_day_header(step, view, RECORD_FINAL, change);
	} else if (step->record->cells && header_is_live(step->header, step->now_ns)) {
		want_open_window(step, view, change);
	} else { /* a key without a header has no record yet */
		want_day_header(step, before, RECORD_INTERIM, change);
	}
}

/* Wants the next change of an acquire: takes free units first, and the rest from a window. */
static void want_day_acquire(const struct record_step *step, uint64_t cost, struct day_view *view,
                             struct record_change *change)
{
	uint64_t free_units = u64_min(cost, step->limit->day.free - view->free_used);
	struct day_view before = *view;

	view->free_used += free_units;
	view->window_used += cost - free_units;
	if (before.window_is_too_far)
		want_earlier_end(step, &before, change);
	else
		want_day_view(step, &before, view, change);
	/* A refund names units of a window by its end, and free units by the header's: the day's end.
	 */
	if (view->window_used > 0)
		change->unit_name_ns = u64_min(step->now_ns + view->window_left_ns, view->day_end_ns);
}

/* Wants the window's units refunded first: while it has any, all free units are in use. */
static void want_day_refund(const struct record_step *step, struct day_view *view,
                            struct record_change *change)
{
	uint64_t units = u64_min(step->call->cost, view->free_used + view->window_used);
	uint64_t window_units = u64_min(units, view->window_used);
	struct day_view before = *view;

	if (units == 0 ||
	    !day_covers(step->call->until_ns, view->day_end_ns, step->now_ns, step->window_end_ns))
		return;
	view->window_used -= window_units;
	view->free_used -= units - window_units;
	want_day_view(step, &before, view, change);
	if (change->is_final)
		change->refunded = units;
}

/* Sets `out` to the decision on a call, and `change` to the next change that it takes. */
static void decide_day(const struct record_step *step, struct algo_decision *out,
                       struct record_change *change)
{
	uint64_t cost = u64_max(step->call->cost, 1), quota = step->limit->quota;
	struct day_view view = read_day(step);
	uint64_t day_left_ns = view.day_end_ns - step->now_ns;

	switch (step->call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (view.free_used + view.window_used + cost > quota) {
			out->allowed = false;
			out->reason = WEIR_REASON_OVER_LIMIT;
			/* The next window has capacity, unless the cost is more than a window allows. */
			out->retry_after_ns = view.window_used > 0 && cost <= step->limit->day.count
			                          ? u64_min(view.window_left_ns, day_left_ns)
			                          : day_left_ns;
			if (step->call->op == ALGO_ACQUIRE)
				want_earlier_end(step, &view, change);
		} else if (algo_consumes(step->call)) {
			want_day_acquire(step, cost, &view, change);
		}
		break;
	case ALGO_REFUND:
		want_day_refund(step, &view, change);
		break;
	default:
		if (step->call->op == ALGO_RESET && view.free_used + view.window_used > 0) {
			view.free_used = view.window_used = 0;
			want_day_header(step, &view, RECORD_FINAL, change);
		}
		break;
	}
	out->remaining = step->limit->quota - (view.free_used + view.window_used);
	out->reset_after_ns = 0;
	if (view.free_used > 0)
		out->reset_after_ns = day_left_ns;
	else if (view.window_used > 0)
		out->reset_after_ns = u64_min(view.window_left_ns, day_left_ns);
}

/* Adds the window's units and the free units in use. */
static void read_day_uses(const struct record_step *step, struct uses *uses)
{
	struct day_view view = read_day(step);
	uint64_t window_ns = step->now_ns + view.window_left_ns;

	uses->until_ns = view.day_end_ns;
	if (view.window_used > 0)
		uses_add(uses, (struct uses_entry){view.window_used, u64_min(window_ns, view.day_end_ns),
		                                   uses_day_id(window_ns, view.day_end_ns)});
	if (view.free_used > 0)
		uses_add(uses, (struct uses_entry){view.free_used, view.day_end_ns, view.day_end_ns});
}

const struct record_ops record_day = {.decide = decide_day, .read_uses = read_day_uses};
