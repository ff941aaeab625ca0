/*
 * call_places.c: the loop in which permits meet on places.
 *
 * rows/places.h takes and gives back places in one row. A key may have several rows: that of
 * its limit's table and those of former ones; and parameters may change meanwhile. So an acquire
 *
 *   (1) looks, and denies if too many others are held; (2) makes the head fit: there, not
 *   closing, spent no earlier than the lease; (3) takes places; (4) sees that the head still
 *   fits, else gives back and begins anew.
 *
 * Where there may be places beside those of `max` (it was lowered, or the row is a
 * wider one by now), (4) is a look over all of them: of those who grant at once the
 * last to take sees the others. docs/design/wide-states.md has the proof.
 */
#include "rows/places.h"
#include "store/wide/held.h"

/* A key as one call reads it. */
struct view {
	struct held held;
	struct places_use use;
};

static void find_unused(struct view *view)
{
	held_find(&view->held);
	view->use = (struct places_use){.first_ns = UINT64_MAX};
}

static void look(struct view *view)
{
	const struct held *held = &view->held;

	find_unused(view);
	for (size_t i = 0; i < held->count; i++)
		places_look(held->limit, held->now_ns, held->rows[i].at.head, &held->rows[i].at.row,
		            &view->use);
}

/* Before an acquire: after the clock was set back, a second pass corrects the leases. */
static void look_and_cut_back(struct view *view)
{
	const struct held *held = &view->held;

	look(view);
	if (!view->use.far)
		return;
	view->use = (struct places_use){.first_ns = UINT64_MAX};
	for (size_t i = 0; i < held->count; i++)
		places_cut_back(held->limit, &held->rows[i].at, held->now_ns, &view->use);
}

/* The places that an acquire has so far: `n` like `place` in the row of `state`. */
struct taken {
	struct wide_state state;
	const struct algo_limit *limit;
	struct cell place;
	uint64_t n;
};

static void put_back(const struct held *held, struct taken *taken)
{
	struct places_use use = {.first_ns = UINT64_MAX};
	struct places_release release = {
	    .match = {.until_ns = held->now_ns + taken->limit->places.lease_ns,
	              .word = cell_word(taken->place)},
	    .n = taken->n,
	    .alone = !held->holder->store,
	    .now_ns = held->now_ns};

	taken->state.at.head = row_head(&taken->state.at);
	places_release(taken->limit, &taken->state.at, &release, &use);
	taken->n = 0;
}

/* Takes what is missing. Whether that can be granted without a look at all places. */
static bool take_rest(const struct held *held, struct taken *taken, uint64_t cost)
{
	const struct algo_limit *limit = held->limit;
	const struct row_state *at = &held->rows[0].at;

	taken->state = held->rows[0];
	taken->n += places_take(limit, at, taken->place, cost - taken->n, held->now_ns);
	return taken->n == cost && held->count == 1 &&
	       places_span(at->head, &at->row) == limit->places.max &&
	       places_fits(limit, row_head(at), at->row.tag, held->now_ns + limit->places.lease_ns) &&
	       held_is_newest(held);
}

/* `fresh` of the places that are held now the look has not seen. */
static uint64_t grant(struct view *view, uint64_t fresh, struct algo_decision *out)
{
	const struct algo_limit *limit = view->held.limit;

	view->use.held += fresh;
	view->use.last_ns = u64_max(view->use.last_ns, limit->places.lease_ns);
	places_explain(limit, &view->use, out);
	return view->held.now_ns + limit->places.lease_ns;
}

static bool has_room(const struct view *view, uint64_t cost, uint64_t own)
{
	return sat_sub(view->use.held, own) + cost <= view->held.limit->places.max;
}

static void peek(struct view *view, const struct algo_call *call, struct algo_decision *out)
{
	do { /* a release in between may have made the room that was not found */
		look(view);
		out->allowed = has_room(view, u64_max(call->cost, 1), 0);
	} while (!out->allowed && !held_is_unchanged(&view->held));
	if (out->allowed && held_is_full(&view->held))
		algo_decision_table_full(view->held.limit, out);
	else
		places_explain(view->held.limit, &view->use, out);
}

static void release(struct view *view, struct places_release *release, struct algo_decision *out)
{
	const struct held *held = &view->held;

	find_unused(view);
	for (size_t i = 0; i < held->count; i++)
		places_release(held->limit, &held->rows[i].at, release, &view->use);
	places_explain(held->limit, &view->use, out);
}

/* Of places without a permit. Apart, so that the other calls have no sample on the stack. */
__attribute__((noinline)) static void release_newest(struct view *view, struct places_release *of,
                                                     struct algo_decision *out)
{
	struct newest newest;

	held_find(&view->held);
	newest_begin(&newest, of->n);
	held_visit(&view->held, places_visit, newest_add, &newest);
	held_find_newest(&view->held, places_visit, of->n, &newest);
	of->newest = &newest;
	release(view, of, out);
}

static void refund(struct view *view, const struct algo_call *call, struct algo_decision *out)
{
	bool resets = call->op == ALGO_RESET;
	struct places_release of = {.match = {call->until_ns, places_word(call->permit), resets},
	                            .n = resets ? UINT64_MAX : call->cost,
	                            .unnames = call->op == ALGO_REFUND_LAST && call->until_ns != 0 &&
	                                       call->cost > 0,
	                            .alone = !view->held.holder->store,
	                            .now_ns = view->held.now_ns};

	if (!resets && call->permit == 0 && call->until_ns == 0 && call->cost > 0)
		release_newest(view, &of, out);
	else
		release(view, &of, out);
	out->allowed = of.freed > 0 || call->permit == 0;
}

/* Makes the head fit. What was seen of the places stays as good as it was. */
static enum held_kept fit(struct held *held)
{
	const struct algo_limit *limit = held->limit;
	const struct row_state *at = &held->rows[0].at;

	if (places_fits(limit, at->head, at->row.tag, held->now_ns + limit->places.lease_ns))
		return HELD_KEPT;
	return held_store(held, places_raise(limit, at->head, at->row.tag, held->now_ns));
}

static uint64_t acquire(struct view *view, const struct algo_call *call, struct algo_decision *out)
{
	struct held *held = &view->held;
	struct taken taken;

	for (taken.n = 0;;) {
		const struct row_state *at = &held->rows[0].at;
		enum held_kept kept;
		uint64_t missing;

		look_and_cut_back(view);
		if (taken.n > 0 && (held->limit != taken.limit || at->cell != taken.state.at.cell)) {
			put_back(held, &taken);
			continue;
		}
		out->allowed = has_room(view, call->cost, taken.n);
		if (!out->allowed) {
			if (taken.n == 0 && !held_is_unchanged(held))
				continue;
			if (taken.n > 0)
				put_back(held, &taken);
			places_explain(held->limit, &view->use, out);
			return 0;
		}
		taken.limit = held->limit;
		taken.place = places_make(held->limit, call, held->now_ns, at->row.tag);
		kept = fit(held);
		if (kept == HELD_NO_ROOM) {
			algo_decision_table_full(held->limit, out);
			return 0;
		}
		missing = call->cost - taken.n;
		if (kept == HELD_KEPT && (missing == 0 || take_rest(held, &taken, call->cost)))
			return grant(view, missing, out);
	}
}

uint64_t places_apply(const struct holder *holder, const struct algo_call *call,
                      struct algo_decision *out)
{
	struct view view;

	held_begin(&view.held, holder);
	if (algo_consumes(call))
		return acquire(&view, call, out);
	if (algo_op_requests(call->op))
		peek(&view, call, out);
	else if (call->op == ALGO_COUNT) /* a place ends where it is held */
		out->remaining = out->reset_after_ns = 0;
	else
		refund(&view, call, out);
	return 0;
}
