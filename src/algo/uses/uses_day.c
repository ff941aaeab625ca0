/*
 * uses_day.c: decides by lists of uses for `base` limits: the first units of a day are free, all
 * others count in a window.
 *
 * A list has up to two uses: that of the day, for the free units, and that of a window
 * (uses_day_id). After a change of parameters, the use of the day may have more units than are free
 * now, or fewer. Surplus units do not count. Missing ones are taken from the units of the window,
 * even of one that is over. While a window is open the use of the day stays as it was written, as
 * in src/records, because the old parameters may return.
 */
#include "algo/uses/uses.h"

/* A key's day as one call sees it. window_used > 0 only if all free units are in use. */
struct view {
	uint64_t day_ends_ns;
	uint64_t window_ends_ns; /* 0 if none is open */
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

/* Reads the state: the units in use of the day and of its window, by the present parameters. */
static struct view view_day(const struct day_params *day, const struct algo_time *time,
                            const struct uses *uses)
{
	struct view view = {.day_ends_ns = uses->until_ns};
	uint64_t missing_free; /* taken from the units of the window */

	if (uses->until_ns <= time->now_ns)
		return (struct view){.day_ends_ns = time->window_end_ns};
	for (size_t i = 0; i < uses->count; i++) {
		if (uses->entries[i].id == uses->until_ns)
			view.stored_free = uses->entries[i].units;
		else
			view_window(day, &uses->entries[i], time->now_ns, &view);
	}
	/* The next day can have 25 hours, and end 9/8 of a day after this one. */
	if (view.day_ends_ns > time->window_end_ns + NS_PER_DAY / 8 * 9) {
		view.day_ends_ns = time->window_end_ns;
		view.is_far = true;
	}
	view.free_used = u64_min(view.stored_free, day->free);
	missing_free = u64_min(view.window_used, day->free - view.free_used);
	view.free_used += missing_free;
	view.window_used =
	    view.window_ends_ns > 0 ? u64_min(view.window_used - missing_free, day->count) : 0;
	if (view.window_used == 0)
		view.window_ends_ns = 0;
	return view;
}

/* Writes the state back as up to two uses. */
static void write_day(const struct day_params *day, const struct view *view, struct uses *uses)
{
	uint64_t free = view->window_used > 0 ? view->stored_free : view->free_used;

	uses->until_ns = view->day_ends_ns;
	uses->count = 0;
	if (view->window_used > 0)
		uses_add(uses, (struct uses_entry){view->window_used + sat_sub(day->free, free),
		                                   u64_min(view->window_ends_ns, view->day_ends_ns),
		                                   uses_day_id(view->window_ends_ns, view->day_ends_ns)});
	if (free > 0)
		uses_add(uses, (struct uses_entry){free, view->day_ends_ns, view->day_ends_ns});
}

/* Adds the units of a request, first to the free ones. Returns the time that names them in a
 * refund. */
static uint64_t add_day_units(const struct day_params *day, uint64_t cost, uint64_t now_ns,
                              struct view *view)
{
	uint64_t free = u64_min(cost, day->free - view->free_used);

	if (view->window_used == 0 && cost > free) {
		view->window_ends_ns = now_ns + day->period_ns;
		view->stored_free = u64_max(view->stored_free, day->free);
	}
	view->free_used += free;
	view->window_used += cost - free;
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

uint64_t uses_day_step(const struct algo_limit *limit, const struct algo_call *call,
                       const struct algo_time *time, struct uses *uses, struct algo_decision *out)
{
	const struct day_params *day = &limit->day;
	struct view view = view_day(day, time, uses);
	uint64_t cost = u64_max(call->cost, 1), until_ns = view.day_ends_ns, name_ns = 0;
	bool acquires = call->op == ALGO_ACQUIRE, changed = false;

	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (view.free_used + view.window_used + cost > limit->quota) {
			if (view.window_used > 0 && cost <= day->count)
				until_ns = u64_min(until_ns, view.window_ends_ns);
			algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, until_ns - time->now_ns);
			changed = acquires && view.is_far;
		} else if (acquires && call->cost > 0) {
			name_ns = add_day_units(day, cost, time->now_ns, &view);
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
	return name_ns;
}
