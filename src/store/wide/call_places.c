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
#include "store/wide/wide.h"

/* All places of a key: first those of the limit's table, then of those that it had before. */
#define VIEW_MAX (1 + SECTION_FORMERS)

struct view {
	struct wide_state states[VIEW_MAX];
	size_t count;
	struct places_use use;
};

static void find(const struct holder *holder, const struct algo_limit *limit, struct view *view)
{
	if (!holder->store) {
		view->count = 1;
		view->states[0] = *holder->alone;
		view->states[0].at.head = row_head(&holder->alone->at);
		return;
	}
	view->count = 0;
	for (struct wide_table *wide = memory_newest(holder->store, limit->identity);
	     wide && view->count < VIEW_MAX; wide = view->states[view->count++].wide->former)
		wide_find(wide, holder->key, &view->states[view->count]);
}

/* Whether whoever looks from now on looks into the same tables. */
static bool is_newest(const struct holder *holder, const struct algo_limit *limit,
                      const struct wide_state *state)
{
	return !holder->store || memory_newest(holder->store, limit->identity) == state->asked;
}

static void find_unused(const struct holder *holder, const struct algo_limit *limit,
                        struct view *view)
{
	find(holder, limit, view);
	view->use = (struct places_use){.first_ns = UINT64_MAX};
}

static void look(const struct holder *holder, const struct algo_limit *limit, uint64_t now_ns,
                 struct view *view)
{
	find_unused(holder, limit, view);
	for (size_t i = 0; i < view->count; i++)
		places_look(limit, now_ns, view->states[i].at.head, &view->states[i].at.row, &view->use);
}

/* Before an acquire: after the clock was set back, a second pass corrects the leases. */
static void look_and_cut_back(const struct holder *holder, const struct algo_limit *limit,
                              uint64_t now_ns, struct view *view)
{
	look(holder, limit, now_ns, view);
	if (!view->use.far)
		return;
	view->use = (struct places_use){.first_ns = UINT64_MAX};
	for (size_t i = 0; i < view->count; i++)
		places_cut_back(limit, &view->states[i].at, now_ns, &view->use);
}

/* A release in between may have made the room that was not found. */
static bool unchanged(const struct view *view)
{
	for (size_t i = 0; i < view->count; i++)
		if (!wide_still(&view->states[i]))
			return false;
	return true;
}

/* The places that an acquire has so far: `n` like `place` in the row of `state`. */
struct taken {
	struct wide_state state;
	const struct algo_limit *limit;
	struct cell place;
	uint64_t n;
};

static void put_back(const struct holder *holder, struct taken *taken, uint64_t now_ns)
{
	struct places_use use = {.first_ns = UINT64_MAX};
	struct places_release release = {.match = {.until_ns = now_ns + taken->limit->places.lease_ns,
	                                           .word = cell_word(taken->place)},
	                                 .n = taken->n,
	                                 .alone = !holder->store,
	                                 .now_ns = now_ns};

	taken->state.at.head = row_head(&taken->state.at);
	places_release(taken->limit, &taken->state.at, &release, &use);
	taken->n = 0;
}

/* Takes what is missing. Whether that can be granted without a look at all places. */
static bool take_rest(const struct holder *holder, struct taken *taken, const struct view *view,
                      uint64_t cost, uint64_t now_ns)
{
	const struct algo_limit *limit = taken->limit;
	const struct wide_state *state = &view->states[0];

	taken->state = *state;
	taken->n += places_take(limit, &state->at, taken->place, cost - taken->n, now_ns);
	return taken->n == cost && view->count == 1 &&
	       places_span(state->at.head, &state->at.row) == limit->places.max &&
	       places_fits(limit, row_head(&state->at), state->at.row.tag,
	                   now_ns + limit->places.lease_ns) &&
	       algo_is_current(limit) && is_newest(holder, limit, state);
}

/* `fresh` of the places that are held now the look has not seen. */
static uint64_t grant(const struct algo_limit *limit, struct places_use *use, uint64_t fresh,
                      uint64_t now_ns, struct algo_outcome *out)
{
	use->held += fresh;
	use->last_ns = u64_max(use->last_ns, limit->places.lease_ns);
	places_explain(limit, use, out);
	return now_ns + limit->places.lease_ns;
}

static bool has_room(const struct algo_limit *limit, const struct view *view, uint64_t cost,
                     uint64_t own)
{
	return sat_sub(view->use.held, own) + cost <= limit->places.max;
}

static void peek(const struct holder *holder, const struct algo_limit **by,
                 const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	struct view view;

	do {
		*by = algo_current(*by);
		look(holder, *by, now_ns, &view);
		out->allowed = has_room(*by, &view, u64_max(call->cost, 1), 0);
	} while (!out->allowed && !unchanged(&view));
	if (out->allowed && wide_is_full(&view.states[0], now_ns))
		algo_outcome_full(*by, out);
	else
		places_explain(*by, &view.use, out);
}

/* Finds which of the places without a permit are the n newest. */
static void find_newest(const struct holder *holder, const struct algo_limit *limit, uint64_t n,
                        uint64_t now_ns, struct newest *newest)
{
	struct view view;

	do {
		find(holder, limit, &view);
		newest_begin(newest, n);
		for (size_t i = 0; i < view.count; i++)
			places_each_end(&view.states[i].at, now_ns, newest_add, newest);
		if (!newest_needs_count(newest))
			return;
		for (size_t i = 0; i < view.count; i++)
			places_each_end(&view.states[i].at, now_ns, newest_count, newest);
	} while (!newest_end(newest));
}

static void release(const struct holder *holder, const struct algo_limit **by,
                    struct places_release *release, struct algo_outcome *out)
{
	struct view view;

	*by = algo_current(*by);
	find_unused(holder, *by, &view);
	for (size_t i = 0; i < view.count; i++)
		places_release(*by, &view.states[i].at, release, &view.use);
	places_explain(*by, &view.use, out);
}

/* Apart, so that the other calls have no sample on the stack. */
__attribute__((noinline)) static void release_newest(const struct holder *holder,
                                                     const struct algo_limit **by,
                                                     struct places_release *of,
                                                     struct algo_outcome *out)
{
	struct newest newest;

	find_newest(holder, *by, of->n, of->now_ns, &newest);
	of->newest = &newest;
	release(holder, by, of, out);
}

static void refund(const struct holder *holder, const struct algo_limit **by,
                   const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	bool resets = call->op == ALGO_RESET;
	struct places_release of = {.match = {call->until_ns, places_word(call->permit), resets},
	                            .n = resets ? UINT64_MAX : call->cost,
	                            .unnames = call->part && call->until_ns != 0 && call->cost > 0,
	                            .alone = !holder->store,
	                            .now_ns = now_ns};

	if (!resets && call->permit == 0 && call->until_ns == 0 && call->cost > 0)
		release_newest(holder, by, &of, out);
	else
		release(holder, by, &of, out);
	out->allowed = of.freed > 0 || call->permit == 0;
}

enum fit { FITS, CHANGED, NO_ROOM };

/* Makes the head fit. What was seen of the places stays as good as it was. */
static enum fit fit(struct wide_state *own, const struct row_step *on)
{
	const struct algo_limit *limit = on->limit;
	struct row_state *at = &own->at;
	struct cell head;

	if (places_fits(limit, at->head, at->row.tag, on->now_ns + limit->places.lease_ns))
		return FITS;
	head = places_raise(limit, at->head, at->row.tag, on->now_ns);
	if (!wide_store_head(own, on, head))
		return wide_is_full(own, on->now_ns) ? NO_ROOM : CHANGED;
	at->head = head;
	return at->cell ? FITS : CHANGED; /* a new head has to be found first */
}

static uint64_t acquire(const struct holder *holder, const struct algo_limit **by,
                        const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	struct row_step on = {.now_ns = now_ns};
	struct taken taken = {.n = 0};

	for (;;) {
		const struct algo_limit *limit = on.limit = *by = algo_current(*by);
		struct view view;
		struct wide_state *own = &view.states[0];
		uint64_t missing;

		look_and_cut_back(holder, limit, now_ns, &view);
		if (taken.n > 0 && (limit != taken.limit || own->at.cell != taken.state.at.cell)) {
			put_back(holder, &taken, now_ns);
			continue;
		}
		out->allowed = has_room(limit, &view, call->cost, taken.n);
		if (!out->allowed) {
			if (taken.n == 0 && !unchanged(&view))
				continue;
			if (taken.n > 0)
				put_back(holder, &taken, now_ns);
			places_explain(limit, &view.use, out);
			return 0;
		}
		taken.limit = limit;
		taken.place = places_make(limit, call, now_ns, own->at.row.tag);
		switch (fit(own, &on)) {
		case FITS:
			break;
		case CHANGED:
			continue;
		case NO_ROOM:
			algo_outcome_full(limit, out);
			return 0;
		}
		missing = call->cost - taken.n;
		if (missing == 0 || take_rest(holder, &taken, &view, call->cost, now_ns))
			return grant(limit, &view.use, missing, now_ns, out);
	}
}

uint64_t places_apply(const struct holder *holder, const struct algo_limit **by,
                      const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	algo_outcome_open(out);
	if (call->op == ALGO_ACQUIRE && call->cost > 0)
		return acquire(holder, by, call, now_ns, out);
	if (call->op <= ALGO_PEEK)
		peek(holder, by, call, now_ns, out);
	else
		refund(holder, by, call, now_ns, out);
	return 0;
}
