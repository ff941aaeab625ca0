/*
 * places.c: the loop in which permits meet on places.
 *
 * Here not the head decides but each place: it is taken by a compare-and-swap from
 * free to held, and freed by one from exactly what was taken. The head is there so
 * that the row stays the key's while places are held:
 *
 *   acquire  (1) look, and deny if too many others are held; (2) make the head fit:
 *            there, not closing, spent no earlier than the lease; (3) take places;
 *            (4) see that the head still fits, else give back and begin anew.
 *   release  (1) free places; (2) look, and count a release in the head, which is
 *            closing if none is held; (3) then, if again none is held, let it go.
 *
 * Where there may be places beside those of `max` (it was lowered, or the row is a
 * wider one by now), (4) is a look over all of them: of those who grant at once the
 * last to take sees the others. docs/design/wide-states.md has the proof.
 */
#include "rows/places.h"
#include "base/fence.h"
#include "store/wide.h"

/* Whose places: a key's in a store, or those of one head and row. */
struct holder {
	struct memory *store;
	const struct store_key *key;
	const struct wide_state *alone;
};

/* All places of a key: first those of the limit's table, then of those that it had before. */
#define VIEW_MAX (1 + SECTION_FORMERS)

struct view {
	struct wide_state states[VIEW_MAX];
	size_t count;
	struct places_use use;
};

static struct cell head_of(const struct wide_state *state)
{
	return cell_load(state->slot.cell, state->row.load_is_atomic);
}

static void find(const struct holder *holder, const struct algo_limit *limit, struct view *view)
{
	if (!holder->store) {
		view->count = 1;
		view->states[0] = *holder->alone;
		view->states[0].slot.value = head_of(holder->alone);
		return;
	}
	view->count = 0;
	for (struct wide_table *wide = memory_newest(holder->store, limit->identity);
	     wide && view->count < VIEW_MAX; wide = wide->former)
		wide_find(wide, holder->key, &view->states[view->count++]);
}

/* Whether whoever looks from now on looks into the same tables. */
static bool is_newest(const struct holder *holder, const struct algo_limit *limit,
                      const struct wide_state *state)
{
	return !holder->store || memory_newest(holder->store, limit->identity) == state->wide;
}

static void look(const struct holder *holder, const struct algo_limit *limit, uint64_t now_ns,
                 struct view *view)
{
	find(holder, limit, view);
	view->use = (struct places_use){.first_ns = UINT64_MAX};
	for (size_t i = 0; i < view->count; i++)
		places_look(limit, now_ns, view->states[i].slot.value, &view->states[i].row,
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

/* On behalf of a head, which is looked at before each swap. */
static bool swap_place(const struct wide_state *state, unsigned i, struct cell before,
                       struct cell after)
{
	return cell_tag(head_of(state)) == state->row.tag &&
	       cell_swap(&state->row.cells[i], before, after);
}

/* The place from which a permit's are looked for: threads seldom meet there. */
static unsigned start_of(uint64_t until_ns, uint32_t word, unsigned places)
{
	uint32_t mixed = (uint32_t)(((until_ns ^ word) * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	return (unsigned)((uint64_t)mixed * places >> 32);
}

static uint64_t take(const struct wide_state *state, struct cell place, uint64_t max, uint64_t n,
                     uint64_t now_ns)
{
	unsigned places = (unsigned)max, taken = 0;
	unsigned at = start_of(place.high >> 4, cell_word(place), places);

	for (unsigned i = 0; i < places && taken < n; i++, at = at + 1 == places ? 0 : at + 1) {
		struct cell before = row_load(&state->row, at);

		if (!places_is_held(before, state->row.tag, now_ns))
			taken += swap_place(state, at, before, place);
	}
	return taken;
}

/* Frees up to `n` of the places that are meant; returns how many. */
static uint64_t release(const struct wide_state *state, const struct places_match *match,
                        uint64_t n, uint64_t now_ns)
{
	unsigned places = places_span(state->slot.value, &state->row), freed = 0;
	unsigned at = start_of(match->until_ns & UINT64_MAX >> 4, match->word, places);

	for (unsigned i = 0; i < places && freed < n; i++, at = at + 1 == places ? 0 : at + 1) {
		struct cell place = row_load(&state->row, at);

		if (places_is_held(place, state->row.tag, now_ns) &&
		    places_matches(match, place))
			freed += swap_place(state, at, place, places_free(place));
	}
	return freed;
}

/* Whether a row whose places end at `span` has none that is held. */
static bool is_idle(const struct wide_state *state, unsigned span, uint64_t now_ns)
{
	for (unsigned i = 0; i < span; i++)
		if (places_is_held(cell_peek(&state->row.cells[i]), state->row.tag, now_ns))
			return false;
	return true;
}

/*
 * Who takes a place sees afterwards that the head is closing, or took it before the
 * second look here.
 */
static void after_release(const struct wide_state *state, uint64_t now_ns)
{
	struct cell head, after;
	unsigned span;
	bool idle;

	do {
		head = head_of(state);
		span = places_span(head, &state->row);
		if (span == 0)
			return; /* another key's by now */
		idle = is_idle(state, span, now_ns);
		after = places_released(head, idle);
	} while (!cell_swap(state->slot.cell, head, after));
	fence_behind_swap(); /* all see that it is closing before the second look */
	if (idle && is_idle(state, span, now_ns))
		cell_swap(state->slot.cell, after, places_idle(after, now_ns));
}

static uint64_t release_and_tell(const struct view *view, const struct places_match *match,
                                 uint64_t n, uint64_t now_ns)
{
	uint64_t freed = 0;

	for (size_t i = 0; i < view->count && freed < n; i++) {
		uint64_t here = release(&view->states[i], match, n - freed, now_ns);

		if (here > 0)
			after_release(&view->states[i], now_ns);
		freed += here;
	}
	return freed;
}

/* Leases that a clock since set back has put too far ahead begin now. */
static void cut_back(const struct view *view, const struct algo_limit *limit, uint64_t now_ns)
{
	for (size_t i = 0; i < view->count; i++) {
		const struct wide_state *state = &view->states[i];
		unsigned places = places_span(state->slot.value, &state->row);

		for (unsigned at = 0; at < places; at++) {
			struct cell place = row_load(&state->row, at);

			if (places_is_held(place, state->row.tag, now_ns) &&
			    places_is_far(limit, place, now_ns))
				swap_place(state, at, place,
				           cell_make(cell_tag(place), now_ns + limit->places.lease_ns,
				                     cell_word(place), CELL_HELD));
		}
	}
}

/* What an acquire has so far: `n` like `place` in the row of `state`. */
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
	if (release(&taken->state, &match, taken->n, now_ns) > 0)
		after_release(&taken->state, now_ns);
	taken->n = 0;
}

/* Takes what is missing. Whether that can be granted without a look at all places. */
static bool take_rest(const struct holder *holder, struct taken *taken, const struct view *view,
                      uint64_t cost, uint64_t now_ns)
{
	const struct algo_limit *limit = taken->limit;
	const struct wide_state *state = &view->states[0];

	taken->state = *state;
	taken->n += take(state, taken->place, limit->places.max, cost - taken->n, now_ns);
	fence_behind_swap(); /* all see the places before (4) looks */
	return taken->n == cost && view->count == 1 &&
	       places_span(state->slot.value, &state->row) == limit->places.max &&
	       places_fits(limit, head_of(state), state->row.tag,
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
		freed += release_and_tell(&view, &match, cost - freed, now_ns);
	} while (newest && freed < cost);
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
		if (taken.n > 0 && (limit != taken.limit || own->slot.cell != taken.state.slot.cell)) {
			put_back(&taken, now_ns);
			continue;
		}
		if (view.use.far) {
			cut_back(&view, limit, now_ns);
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
		taken.place = places_make(limit, call, now_ns, own->row.tag);
		if (!places_fits(limit, own->slot.value, own->row.tag,
		                 now_ns + limit->places.lease_ns)) {
			struct cell head = places_raise(limit, own->slot.value, own->row.tag, now_ns);

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

static uint64_t apply(const struct holder *holder, const struct algo_limit **by,
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

uint64_t places_apply(struct memory *store, const struct algo_limit **by,
                      const struct store_key *key, const struct algo_call *call,
                      const struct algo_time *time, struct algo_outcome *out)
{
	struct holder holder = {.store = store, .key = key};

	return apply(&holder, by, call, time->now_ns, out);
}

uint64_t places_apply_cell(const struct wide_state *alone, const struct algo_limit *limit,
                           const struct algo_call *call, const struct algo_time *time,
                           struct algo_outcome *out)
{
	struct holder holder = {.alone = alone};

	return apply(&holder, &limit, call, time->now_ns, out);
}
