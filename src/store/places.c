/*
 * places.c: the loop in which permits meet on places.
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
#include "store/wide.h"

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

static void look(const struct holder *holder, const struct algo_limit *limit, uint64_t now_ns,
                 struct view *view)
{
	find(holder, limit, view);
	view->use = (struct places_use){.first_ns = UINT64_MAX};
	for (size_t i = 0; i < view->count; i++)
		places_look(limit, now_ns, view->states[i].at.head, &view->states[i].at.row,
		            &view->use);
}

/* A release in between may have made the room that was not found. */
static bool unchanged(const struct view *view)
{
	for (size_t i = 0; i < view->count; i++)
		if (!wide_still(&view->states[i]))
			return false;
	return true;
}

static uint64_t release(const struct view *view, const struct places_match *match, uint64_t n,
                        uint64_t now_ns)
{
	uint64_t freed = 0;

	for (size_t i = 0; i < view->count && freed < n; i++)
		freed += places_release(&view->states[i].at, match, n - freed, now_ns);
	return freed;
}

/* The places that an acquire has so far: `n` like `place` in the row of `state`. */
struct taken {
	struct wide_state state;
	const struct algo_limit *limit;
	struct cell place;
	uint64_t n;
};

static void put_back(struct taken *taken, uint64_t now_ns)
{
	struct places_match match = {.word = cell_word(taken->place)};

	if (taken->n == 0)
		return;
	match.until_ns = now_ns + taken->limit->places.lease_ns;
	places_release(&taken->state.at, &match, taken->n, now_ns);
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

static void refund(const struct holder *holder, const struct algo_limit **by,
                   const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	bool newest = call->op == ALGO_REFUND && call->permit == 0 && call->until_ns == 0;
	struct places_match match = {call->until_ns, places_word(call->permit),
	                             call->op == ALGO_RESET};
	uint64_t cost = call->op == ALGO_RESET ? UINT64_MAX : call->cost, freed = 0;
	struct view view;

	do {
		*by = algo_current(*by);
		if (newest) { /* a lease's places at a time */
			look(holder, *by, now_ns, &view);
			if (view.use.nameless_ns == 0)
				break;
			match.until_ns = now_ns + view.use.nameless_ns;
		} else {
			find(holder, *by, &view);
		}
		freed += release(&view, &match, cost - freed, now_ns);
	} while (newest && freed < cost);
	for (size_t i = 0; call->part && call->until_ns != 0 && freed > 0 && i < view.count; i++)
		places_unname(&view.states[i].at, &match, now_ns);
	look(holder, *by, now_ns, &view);
	places_explain(*by, &view.use, out);
	out->allowed = freed > 0 || call->permit == 0;
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

		look(holder, limit, now_ns, &view);
		if (taken.n > 0 && (limit != taken.limit || own->at.cell != taken.state.at.cell)) {
			put_back(&taken, now_ns);
			continue;
		}
		if (view.use.far) {
			for (size_t i = 0; i < view.count; i++)
				places_cut_back(limit, &view.states[i].at, now_ns);
			continue;
		}
		out->allowed = has_room(limit, &view, call->cost, taken.n);
		if (!out->allowed) {
			if (taken.n == 0 && !unchanged(&view))
				continue;
			put_back(&taken, now_ns);
			places_explain(limit, &view.use, out);
			return 0;
		}
		taken.limit = limit;
		taken.place = places_make(limit, call, now_ns, own->at.row.tag);
		if (!places_fits(limit, own->at.head, own->at.row.tag,
		                 now_ns + limit->places.lease_ns)) {
			struct cell head = places_raise(limit, own->at.head, own->at.row.tag, now_ns);

			if (wide_store_head(own, &on, head) || !wide_is_full(own, now_ns))
				continue;
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
