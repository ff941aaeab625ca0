/*
 * uses.c: decides sliding_counter, sliding_window, sliding_log and concurrency limits on states
 * that are lists of uses. A use is a number of units with the time at which it ends.
 *
 * All of them add up the units in use, grant units that fit the quota beside these, and compute
 * when enough of them will have ended. They differ in the use to which a request adds its units,
 * and in the uses from which a refund may take some:
 *
 *     sliding_counter, sliding_window    ALGO_RECORD_SLOTS     the use of the newest slot
 *     sliding_log                        ALGO_RECORD_LOG       a use of its own
 *     concurrency                        ALGO_RECORD_LEASES    a use with the id of its permit
 *
 * The lists of the algorithm `base` (ALGO_RECORD_DAY) are decided in uses_day.c.
 */
#include "algo/uses/uses.h"

#include <string.h>

/* A key's list of uses as one call sees it. */
struct view {
	const struct algo_limit *limit;
	struct uses *uses;
	size_t expired_count; /* expired uses are first: they stay, for clocks that lag, until units are
	                         added */
	uint64_t now_ns;
	uint64_t at_ns;   /* now, or the time of the newest use if that is later (by another clock) */
	uint64_t life_ns; /* from the time of a use to its end */
	uint64_t fade_ns; /* the last part of its life, in which a use counts less and less, or 0 */
	bool merged;      /* slots, log: merge_uses has put all units into one use, of now */
};

/* Returns the units of all uses that have not expired, at full weight. */
static uint64_t total_units(const struct view *view)
{
	uint64_t units = 0;

	for (size_t i = view->expired_count; i < view->uses->count; i++)
		units += view->uses->entries[i].units;
	return units;
}

/* Returns the units that count against the quota: those that fade count less and less. */
static uint64_t units_in_use(const struct view *view)
{
	uint64_t units = 0;

	for (size_t i = view->expired_count; i < view->uses->count; i++) {
		const struct uses_entry *use = &view->uses->entries[i];
		uint64_t left_ns = use->until_ns - view->at_ns;

		units +=
		    left_ns < view->fade_ns ? slots_fading(use->units, left_ns, view->fade_ns) : use->units;
	}
	return units;
}

/*
 * Returns the time at which no more than `most` units will be in use, if no request comes. Now more
 * are. Finds the use by whose end enough units have ended; if uses fade, which each does after the
 * one before has ended, a part of its fading is enough.
 */
static uint64_t when_units_fit(const struct view *view, uint64_t most)
{
	const struct uses_entry *use = &view->uses->entries[view->expired_count];
	uint64_t later_units = total_units(view) - use->units; /* of the uses behind `use` */
	uint64_t must_fade;

	while (later_units > most)
		later_units -= (++use)->units;
	if (view->fade_ns == 0)
		return use->until_ns;
	must_fade = sat_sub(use->units, most - later_units);
	return use->until_ns - view->fade_ns +
	       (uint64_t)(((u128)must_fade * view->fade_ns + use->units - 1) / use->units);
}

/* Removes the expired uses from the list, and those that the caller has counted as such. */
static void drop_first_uses(struct view *view)
{
	struct uses *uses = view->uses;

	uses->count -= view->expired_count;
	memmove(uses->entries, uses->entries + view->expired_count,
	        uses->count * sizeof *uses->entries);
	view->expired_count = 0;
}

/* Drops the oldest uses as long as the others alone fill the quota. */
static void drop_replaced_uses(struct view *view)
{
	const struct uses_entry *uses = view->uses->entries;
	uint64_t units = total_units(view);
	size_t before = view->expired_count;

	while (view->expired_count < view->uses->count &&
	       units - uses[view->expired_count].units >= view->limit->quota)
		units -= uses[view->expired_count++].units;
	if (view->expired_count > before)
		drop_first_uses(view);
}

static bool is_too_far_ahead(const struct view *view, uint64_t until_ns)
{
	return until_ns > view->now_ns + view->life_ns + ALGO_SKEW_NS;
}

/*
 * Adds the units of a request to the use where they belong. Returns the time that names that use in
 * a refund.
 */
static uint64_t add_units(struct view *view, const struct algo_call *call)
{
	const struct algo_limit *limit = view->limit;
	struct uses_entry use = {.units = call->cost};

	drop_first_uses(view);
	switch (limit->record) {
	case ALGO_RECORD_SLOTS:
		use.until_ns =
		    slots_start(&limit->slots, slots_number(&limit->slots, view->at_ns)) + view->life_ns;
		use.id = use.until_ns;
		break;
	case ALGO_RECORD_LOG:
		use.until_ns = view->at_ns + view->life_ns;
		/* An id of its own; after a merge ids begin anew, as the newest is of a clock ahead. */
		use.id = view->merged ? use.until_ns : u64_max(use.until_ns, view->uses->newest_id + 1);
		view->uses->newest_id = use.id;
		break;
	default:
		use.until_ns = view->now_ns + view->life_ns;
		use.id = leases_word(call->permit);
		break;
	}
	if (limit->record != ALGO_RECORD_LEASES)
		view->uses->until_ns = use.until_ns;
	uses_add(view->uses, use);
	return limit->record == ALGO_RECORD_LOG ? use.id : use.until_ns;
}

/*
 * Returns the units of a use that the refund may release: it can name a permit, or the use's time.
 */
static uint64_t refundable_units(const struct view *view, const struct algo_call *call,
                                 const struct uses_entry *use)
{
	bool names_time = call->until_ns != 0;

	switch (view->limit->record) {
	case ALGO_RECORD_LEASES:
		if (use->id != leases_word(call->permit) || (names_time && use->until_ns != call->until_ns))
			return 0;
		return use->units;
	default:
		return names_time && use->id != call->until_ns ? 0 : use->units;
	}
}

/*
 * Takes the permit's id off the use that its last refund has left: the use stays until its end, but
 * no refund can name it any more.
 */
static void detach_use_from_permit(struct view *view, const struct algo_call *call)
{
	struct uses *uses = view->uses;

	for (size_t i = view->expired_count; i < uses->count; i++) {
		struct uses_entry use = uses->entries[i];

		if (use.id == 0 || refundable_units(view, call, &use) == 0)
			continue;
		memmove(&uses->entries[i], &uses->entries[i + 1], (--uses->count - i) * sizeof use);
		use.id = 0;
		uses_add(uses, use);
		return; /* there is no other: uses_add merges uses of one end and id */
	}
}

/* Releases units, of the newest uses first. Returns their number. */
static uint64_t release_units(struct view *view, const struct algo_call *call)
{
	struct uses *uses = view->uses;
	uint64_t left = call->cost;
	size_t n = uses->count, kept = 0;
	bool is_last_of_permit = call->op == ALGO_REFUND_LAST && call->until_ns != 0;

	for (size_t i = n; i-- > view->expired_count;) {
		struct uses_entry *use = &uses->entries[i];
		uint64_t released = u64_min(left, refundable_units(view, call, use));

		use->units -= released;
		left -= released;
	}
	for (size_t i = 0; i < n; i++)
		if (uses->entries[i].units > 0)
			uses->entries[kept++] = uses->entries[i];
	uses->count = kept;
	if (is_last_of_permit && left < call->cost)
		detach_use_from_permit(view, call);
	return call->cost - left;
}

/* Replaces all uses, written under a clock that was set back since, by one use of now. */
static void merge_uses(struct view *view)
{
	struct uses *uses = view->uses;
	struct algo_call all = {.cost = u64_min(total_units(view), view->limit->quota)};

	view->at_ns = view->now_ns;
	view->merged = true;
	uses->count = view->expired_count = 0;
	if (all.cost > 0)
		add_units(view, &all);
}

/* Lets leases begin now that were written under a clock that was set back since. */
static void cut_back_leases(struct view *view)
{
	struct uses *uses = view->uses;

	while (uses->count > 0 && is_too_far_ahead(view, uses->entries[uses->count - 1].until_ns)) {
		struct uses_entry use = uses->entries[--uses->count];

		use.until_ns = view->now_ns + view->life_ns;
		uses_add(uses, use);
	}
}

/*
 * Makes the view of a list: counts the expired uses, and sets how long the limit's uses live. If a
 * clock was set back, merges the uses of slots and logs.
 */
static struct view view_uses(const struct algo_limit *limit, const struct algo_time *time,
                             struct uses *uses)
{
	struct view view = {limit, uses, .now_ns = time->now_ns, .at_ns = time->now_ns};

	switch (limit->record) {
	case ALGO_RECORD_SLOTS:
		view.life_ns = limit->slots.period_ns;
		view.fade_ns = limit->slots.weighted ? limit->slots.slot_ns : 0;
		break;
	case ALGO_RECORD_LOG:
		view.life_ns = limit->log.period_ns;
		break;
	default:
		view.life_ns = limit->leases.lease_ns;
		break;
	}
	if (limit->record != ALGO_RECORD_LEASES)
		view.at_ns = u64_max(view.at_ns, sat_sub(uses->until_ns, view.life_ns));
	while (view.expired_count < uses->count &&
	       uses->entries[view.expired_count].until_ns <= view.at_ns)
		view.expired_count++;
	if (view.at_ns > view.now_ns + ALGO_SKEW_NS)
		merge_uses(&view);
	return view;
}

/* Decides an acquire or peek. Returns the time that names the added units in a refund, or 0. */
static uint64_t request_units(struct view *view, const struct algo_call *call, bool replaces,
                              struct algo_decision *out)
{
	const struct algo_limit *limit = view->limit;
	bool has_leases = limit->record == ALGO_RECORD_LEASES;
	uint64_t cost = u64_max(call->cost, 1), retry_ns; /* no units: asks whether one would fit */

	if (has_leases && algo_op_consumes(call->op)) /* a peek changes no use */
		cut_back_leases(view);
	if (units_in_use(view) + cost <= limit->quota || replaces)
		return algo_consumes(call) ? add_units(view, call) : 0;
	if (has_leases) /* most requests end long before their lease */
		retry_ns = u64_min(limit->retry_ns,
		                   view->uses->entries[view->expired_count].until_ns - view->now_ns);
	else
		retry_ns = when_units_fit(view, limit->quota - cost) - view->now_ns;
	algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, retry_ns);
	return 0;
}

static void refund_units(struct view *view, const struct algo_call *call, struct algo_decision *out)
{
	bool has_released = release_units(view, call) > 0;

	if (view->limit->record == ALGO_RECORD_LEASES) /* named by permits, not by times */
		out->allowed = has_released || call->permit == 0;
	else
		algo_decision_refund(out, call, has_released);
}

/* Performs an operation. Returns the time that names the units that it added, or 0. */
uint64_t uses_step(const struct algo_limit *limit, const struct algo_call *call,
                   const struct algo_time *time, struct uses *uses, struct algo_decision *out)
{
	struct view view;
	uint64_t refund_time_ns = 0;
	bool replaces;

	algo_decision_allow(out);
	if (limit->record == ALGO_RECORD_DAY)
		return uses_day_step(limit, call, time, uses, out);
	view = view_uses(limit, time, uses);
	/* Units that replace the oldest uses always pass. Merged uses are of now: none is older. */
	replaces = algo_op_replaces(call->op) && call->cost > 0 && !view.merged;
	if (replaces)
		drop_replaced_uses(&view);
	if (algo_op_requests(call->op))
		refund_time_ns = request_units(&view, call, replaces, out);
	else if (algo_op_releases(call->op))
		refund_units(&view, call, out);
	else if (call->op == ALGO_RESET && view.expired_count < uses->count)
		uses->count = view.expired_count = 0;
	out->remaining = sat_sub(limit->quota, units_in_use(&view));
	if (uses->count > view.expired_count)
		out->reset_after_ns = uses->entries[uses->count - 1].until_ns - view.now_ns;
	else
		out->reset_after_ns = 0;
	return refund_time_ns;
}
