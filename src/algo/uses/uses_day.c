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

/* A state as one call sees it. count > 0 only if all free units are in use. */
struct view {
	uint64_t end_ns;    /* of the day */
	uint64_t window_ns; /* the end of the window, or 0 if none is open */
	uint64_t free;      /* units in use: free ones of the day, ... */
	uint64_t count;     /* and those of the window; 0 if none is open */
	uint64_t written;   /* units of the day as stored, perhaps under other parameters */
	bool is_far;        /* the state was written under a clock that was set back since */
};

static void view_window(const struct day_params *day, const struct uses_entry *use, uint64_t now_ns,
                        struct view *view)
{
	uint64_t window_ns = uses_day_window(use->id, view->end_ns);

	view->count = use->units;
	if (window_ns <= now_ns)
		return;
	view->window_ns = window_ns;
	if (window_ns > now_ns + day->period_ns + ALGO_SKEW_NS) {
		view->window_ns = now_ns + day->period_ns;
		view->is_far = true;
	}
}

static struct view view_day(const struct day_params *day, const struct algo_time *time,
                            const struct uses *uses)
{
	struct view view = {.end_ns = uses->until_ns};
	uint64_t more;

	if (uses->until_ns <= time->now_ns)
		return (struct view){.end_ns = time->window_end_ns};
	for (size_t i = 0; i < uses->count; i++) {
		if (uses->entries[i].id == uses->until_ns)
			view.written = uses->entries[i].units;
		else
			view_window(day, &uses->entries[i], time->now_ns, &view);
	}
	/* The next day can have 25 hours, and end 9/8 of a day after this one. */
	if (view.end_ns > time->window_end_ns + NS_PER_DAY / 8 * 9) {
		view.end_ns = time->window_end_ns;
		view.is_far = true;
	}
	view.free = u64_min(view.written, day->free);
	more = u64_min(view.count, day->free - view.free);
	view.free += more;
	view.count = view.window_ns > 0 ? u64_min(view.count - more, day->count) : 0;
	if (view.count == 0)
		view.window_ns = 0;
	return view;
}

static void write_day(const struct day_params *day, const struct view *view, struct uses *uses)
{
	uint64_t free = view->count > 0 ? view->written : view->free;

	uses->until_ns = view->end_ns;
	uses->count = 0;
	if (view->count > 0)
		uses_add(uses, (struct uses_entry){view->count + sat_sub(day->free, free),
		                                   u64_min(view->window_ns, view->end_ns),
		                                   uses_day_id(view->window_ns, view->end_ns)});
	if (free > 0)
		uses_add(uses, (struct uses_entry){free, view->end_ns, view->end_ns});
}

/* Adds the units of a request. Returns the name for a refund. */
static uint64_t take_day_units(const struct day_params *day, uint64_t cost, uint64_t now_ns,
                               struct view *view)
{
	uint64_t free = u64_min(cost, day->free - view->free);

	if (view->count == 0 && cost > free) {
		view->window_ns = now_ns + day->period_ns;
		view->written = u64_max(view->written, day->free);
	}
	view->free += free;
	view->count += cost - free;
	return view->count > 0 ? u64_min(view->window_ns, view->end_ns) : view->end_ns;
}

/*
 * Releases units, those of the window first. False if there are none, or another day's are meant.
 */
static bool give_back_day_units(const struct algo_call *call, const struct algo_time *time,
                                struct view *view)
{
	uint64_t back = u64_min(call->cost, view->free + view->count);
	uint64_t of_window = u64_min(back, view->count);

	if (back == 0 ||
	    !day_covers(call->until_ns, view->end_ns, time->now_ns, time->window_end_ns))
		return false;
	view->count -= of_window;
	view->free -= back - of_window;
	return true;
}

static void report_day(const struct view *view, uint64_t quota, uint64_t now_ns,
                       struct algo_decision *out)
{
	uint64_t until_ns = view->free > 0    ? view->end_ns
	                    : view->count > 0 ? u64_min(view->window_ns, view->end_ns)
	                                      : now_ns;

	out->remaining = quota - (view->free + view->count);
	out->reset_after_ns = until_ns - now_ns;
}

uint64_t uses_day_step(const struct algo_limit *limit, const struct algo_call *call,
                       const struct algo_time *time, struct uses *uses, struct algo_decision *out)
{
	const struct day_params *day = &limit->day;
	struct view view = view_day(day, time, uses);
	uint64_t cost = u64_max(call->cost, 1), until_ns = view.end_ns, name_ns = 0;
	bool acquires = call->op == ALGO_ACQUIRE, changed = false;

	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (view.free + view.count + cost > limit->quota) {
			if (view.count > 0 && cost <= day->count)
				until_ns = u64_min(until_ns, view.window_ns);
			algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, until_ns - time->now_ns);
			changed = acquires && view.is_far;
		} else if (acquires && call->cost > 0) {
			name_ns = take_day_units(day, cost, time->now_ns, &view);
			changed = true;
		}
		break;
	case ALGO_REFUND:
		changed = give_back_day_units(call, time, &view);
		algo_decision_refund(out, call, changed);
		break;
	default:
		changed = call->op == ALGO_RESET && view.free + view.count > 0;
		if (changed)
			view.free = view.count = 0;
		break;
	}
	if (changed)
		write_day(day, &view, uses);
	report_day(&view, limit->quota, time->now_ns, out);
	return name_ns;
}
