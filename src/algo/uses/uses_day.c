/*
 * uses_day.c: decides `base` limits on states that are lists of uses: the first units of a day are
 * free, all others count in a window.
 *
 * A use is a number of units, the time at which they end, and an id. A list has up to two: the free
 * units of the day, whose id is the day's end, and the units of a window, whose id (uses_day_id)
 * tells the window's end.
 *
 * A window is opened when all free units are in use. If the parameters change then, the stored free
 * units may be more than are free now, or fewer. Say 5 of the day and 3 of the window are stored:
 *
 *     3 are free now    2 are surplus and do not count: 3 of the day are in use, 3 of the window
 *     7 are free now    2 are missing and move from the window: 7 of the day are in use, 1 of the
 *                       window; a window that is over gives them, too, and its rest has ended
 *
 * While the window is open they are stored as before, because the old parameters may return.
 */
#include "algo/uses/uses.h"

/* A key's day as one call sees it. window_used > 0 only if all free units are in use. */
struct view {
	uint64_t day_ends_ns;
	uint64_t window_ends_ns; /* of the limit's own window; 0 if none is open */
	uint64_t free_used;      /* units in use: free ones of the day, ... */
	uint64_t window_used;    /* and those of the window; 0 if none is open */
	uint64_t stored_free;    /* units of the day as stored, perhaps under other parameters */
	bool is_far;             /* the state was written under a clock that was set back since */
};

/* Reads the use of a window: its units, and its end if it is still open. */
static void view_window(const struct day_params *day, const struct uses_entry *use, uint64_t now_ns,
                        struct view *view)
{
	uint64_t ends_ns = uses_day_window(use->id, view->day_ends_ns);

	view->window_used = use->units;
	if (ends_ns <= now_ns)
		return;
	view->window_ends_ns = ends_ns;
	if (ends_ns > now_ns + day->period_ns + ALGO_SKEW_NS) {
		view->window_ends_ns = now_ns + day->period_ns;
		view->is_far = true;
	}
}

/* Splits the stored units into free ones and those of the window, as the head shows. */
static void count_by_present_parameters(const struct day_params *day, struct view *view)
{
	uint64_t missing_free;

	view->free_used = u64_min(view->stored_free, day->free);
	missing_free = u64_min(view->window_used, day->free - view->free_used);
	view->free_used += missing_free;
	view->window_used =
	    view->window_ends_ns > 0 ? u64_min(view->window_used - missing_free, day->count) : 0;
	if (view->window_used == 0)
		view->window_ends_ns = 0;
}

/* Reads the state: the units in use of the day and of its window, by the present parameters. */
static struct view view_day(const struct day_params *day, const struct algo_time *time,
                            const struct uses *uses)
{
	struct view view = {.day_ends_ns = uses->until_ns};
	uint64_t today_ends_ns = time->window_end_ns; /* by this clock and calendar */

	if (uses->until_ns <= time->now_ns)
		return (struct view){.day_ends_ns = today_ends_ns};
	for (size_t i = 0; i < uses->count; i++) {
		if (uses->entries[i].id == uses->until_ns)
			view.stored_free = uses->entries[i].units;
		else
			view_window(day, &uses->entries[i], time->now_ns, &view);
	}
	/* The next day can have 25 hours, and end 9/8 of a day after this one. */
	if (view.day_ends_ns > today_ends_ns + NS_PER_DAY / 8 * 9) {
		view.day_ends_ns = today_ends_ns;
		view.is_far = true;
	}
	count_by_present_parameters(day, &view);
	return view;
}

/*
 * Writes the state back as up to two uses. If a window is open, moves the missing free units back
 * to it, which count_by_present_parameters has moved to the day.
 */
static void write_day(const struct day_params *day, const struct view *view, struct uses *uses)
{
	uint64_t day_units = view->window_used > 0 ? view->stored_free : view->free_used;
	uint64_t missing_free = sat_sub(day->free, day_units); /* used for an open window only */

	uses->until_ns = view->day_ends_ns;
	uses->count = 0;
	if (view->window_used > 0)
		uses_add(uses, (struct uses_entry){view->window_used + missing_free,
		                                   u64_min(view->window_ends_ns, view->day_ends_ns),
		                                   uses_day_id(view->window_ends_ns, view->day_ends_ns)});
	if (day_units > 0)
		uses_add(uses, (struct uses_entry){day_units, view->day_ends_ns, view->day_ends_ns});
}

/*
 * Adds the units of a request, first to the free ones. Returns the time that names them in a
 * refund.
 */
static uint64_t add_day_units(const struct day_params *day, uint64_t cost, uint64_t now_ns,
                              struct view *view)
{
	uint64_t free_units = u64_min(cost, day->free - view->free_used);
	bool opens_window = view->window_used == 0 && cost > free_units;

	if (opens_window) { /* all free units are in use; a surplus stays stored */
		view->window_ends_ns = now_ns + day->period_ns;
		view->stored_free = u64_max(view->stored_free, day->free);
	}
	view->free_used += free_units;
	view->window_used += cost - free_units;
	return view->window_used > 0 ? u64_min(view->window_ends_ns, view->day_ends_ns)
	                             : view->day_ends_ns;
}

/*
 * Releases units, those of the window first. False if there are none, or another day's are meant.
 */
static bool refund_day_units(const struct algo_call *call, const struct algo_time *time,
                             struct view *view)
{
	uint64_t refunded = u64_min(call->cost, view->free_used + view->window_used);
	uint64_t of_window = u64_min(refunded, view->window_used);

	if (refunded == 0 ||
	    !day_covers(call->until_ns, view->day_ends_ns, time->now_ns, time->window_end_ns))
		return false;
	view->window_used -= of_window;
	view->free_used -= refunded - of_window;
	return true;
}

/* Sets in the decision the units remaining, and when all are free again. */
static void fill_day_decision(const struct view *view, uint64_t quota, uint64_t now_ns,
                              struct algo_decision *out)
{
	uint64_t until_ns = view->free_used > 0     ? view->day_ends_ns
	                    : view->window_used > 0 ? u64_min(view->window_ends_ns, view->day_ends_ns)
	                                            : now_ns;

	out->remaining = quota - (view->free_used + view->window_used);
	out->reset_after_ns = until_ns - now_ns;
}

/* Returns the time that names the acquired units in a refund, or 0 if none were acquired. */
uint64_t uses_day_step(const struct algo_limit *limit, const struct algo_call *call,
                       const struct algo_time *time, struct uses *uses, struct algo_decision *out)
{
	const struct day_params *day = &limit->day;
	struct view view = view_day(day, time, uses);
	uint64_t cost = u64_max(call->cost, 1), frees_ns = view.day_ends_ns, refund_time_ns = 0;
	bool acquires = call->op == ALGO_ACQUIRE, changed = false;

	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (view.free_used + view.window_used + cost > limit->quota) {
			/* The end of the window frees all of the next one, day->count units. */
			if (view.window_used > 0 && cost <= day->count)
				frees_ns = u64_min(frees_ns, view.window_ends_ns);
			algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, frees_ns - time->now_ns);
			changed = acquires && view.is_far; /* so that the ends cut to now stay */
		} else if (acquires && call->cost > 0) {
			refund_time_ns = add_day_units(day, cost, time->now_ns, &view);
			changed = true;
		}
		break;
	case ALGO_REFUND:
		changed = refund_day_units(call, time, &view);
		algo_decision_refund(out, call, changed);
		break;
	default:
		changed = call->op == ALGO_RESET && view.free_used + view.window_used > 0;
		if (changed)
			view.free_used = view.window_used = 0;
		break;
	}
	if (changed)
		write_day(day, &view, uses);
	fill_day_decision(&view, limit->quota, time->now_ns, out);
	return refund_time_ns;
}
