#include "rows/places.h"

#include "base/os/fence.h"

#define SPAN ROW_WORD_MASK

_Static_assert(ALGO_PERMITS_MAX <= SPAN, "a span fits in a head");

struct cell places_make(const struct algo_limit *limit, const struct algo_call *call,
                        uint64_t now_ns, uint32_t tag)
{
	return cell_make(tag, now_ns + limit->places.lease_ns, places_word(call->permit), CELL_PINNED);
}

static bool is_meant(const struct places_match *match, struct cell place)
{
	return (match->any_word || cell_word(place) == match->word) &&
	       (match->until_ns == 0 || cell_ahead_ns(place, match->until_ns) == 0);
}

/* The same place, held by nobody. */
static struct cell free_place(struct cell place)
{
	place.high &= ~UINT64_C(15);
	return place;
}

unsigned places_span(struct cell head, const struct row *row)
{
	if (cell_tag(head) != row->tag || !cell_is_pinned(head))
		return 0;
	return (unsigned)u64_min(cell_word(head) & SPAN, row->width);
}

void places_look(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                 const struct row *row, struct places_use *use)
{
	unsigned span = places_span(head, row);
	uint64_t held = 0, first = UINT64_MAX, last = 0; /* 1/16 ns, from now on */

	for (unsigned i = 0; i < span; i++) { /* without a branch: a row may have 10,000 */
		struct cell place = cell_peek(&row->cells[i]);
		int64_t ahead = (int64_t)(place.high - (now_ns << 4 | CELL_PINNED));
		bool is_held = (cell_tag(place) == row->tag) & ((ahead & 15) == 0) & (ahead > 0);
		uint64_t mine = is_held ? (uint64_t)ahead : 0;

		held += is_held;
		first = u64_min(first, mine - 1); /* of none the greatest */
		last = u64_max(last, mine);
	}
	use->held += held;
	use->first_ns = u64_min(use->first_ns, first == UINT64_MAX ? first : (first + 1) >> 4);
	use->last_ns = u64_max(use->last_ns, last >> 4);
	use->far |= last >> 4 > limit->places.lease_ns + ALGO_SKEW_NS;
}

bool places_fits(const struct algo_limit *limit, struct cell head, uint32_t tag, uint64_t until_ns)
{
	return row_is_held(head, tag, until_ns) && (cell_word(head) & SPAN) >= limit->places.max;
}

struct cell places_raise(const struct algo_limit *limit, struct cell head, uint32_t tag,
                         uint64_t now_ns)
{
	uint64_t ahead_ns = limit->places.lease_ns + limit->places.lease_ns / 8;
	uint32_t word = 0, span = (uint32_t)limit->places.max;

	if (cell_tag(head) == tag && cell_is_pinned(head)) {
		word = cell_word(head) & ~(SPAN | ROW_CLOSING);
		if (cell_ahead_ns(head, now_ns) > 0) {
			span = (uint32_t)u64_max(span, cell_word(head) & SPAN);
			ahead_ns = u64_max(ahead_ns, (uint64_t)cell_ahead_ns(head, now_ns));
		}
	}
	return cell_make(tag, now_ns + ahead_ns, word | span, CELL_PINNED);
}

/* The head as it says nothing any more. */
static struct cell spent(struct cell head, uint64_t now_ns)
{
	return cell_make(cell_tag(head), now_ns, cell_word(head) & ~ROW_CLOSING, CELL_PINNED);
}

uint64_t places_take(const struct algo_limit *limit, const struct row_state *state,
                     struct cell place, uint64_t n, uint64_t now_ns)
{
	unsigned places = (unsigned)limit->places.max, taken = 0;
	unsigned at = row_start(place.high >> 4 ^ cell_word(place), places);

	for (unsigned i = 0; i < places && taken < n; i++, at = at + 1 == places ? 0 : at + 1) {
		struct cell before = row_load(&state->row, at);

		if (!places_is_held(before, state->row.tag, now_ns))
			taken += row_swap(state, at, before, place);
	}
	fence_behind_swap(); /* all see the places before the caller looks at the head */
	return taken;
}

/* Whether a row whose places end at `span` has none that is held. */
static bool is_idle(const struct row_state *state, unsigned span, uint64_t now_ns)
{
	for (unsigned i = 0; i < span; i++)
		if (places_is_held(cell_peek(&state->row.cells[i]), state->row.tag, now_ns))
			return false;
	return true;
}

/*
 * After places were freed, in the pass before which the head was read, and which found others held
 * unless it is `idle`. If the head has changed since, others have freed places in the same time.
 *
 * An acquire that takes a place sees afterwards that the head is closing, or took the place
 * before the second look here.
 */
static void after_release(const struct row_state *state, const struct places_release *release,
                          bool idle)
{
	unsigned span = places_span(state->head, &state->row);
	bool closing = idle && !release->alone;
	struct cell head = state->head, after = row_released(head, closing);

	while (!cell_swap(state->cell, head, after)) {
		head = row_head(state);
		span = places_span(head, &state->row);
		if (span == 0)
			return; /* another key's by now */
		closing = !release->alone && is_idle(state, span, release->now_ns);
		after = row_released(head, closing);
	}
	fence_behind_swap(); /* all see that it is closing before the second look */
	if (closing && is_idle(state, span, release->now_ns))
		cell_swap(state->cell, after, spent(after, release->now_ns));
}

/* How far ahead the lease of a held place ends; 0 if it is not held. */
static uint64_t held_ns(struct cell place, uint32_t tag, uint64_t now_ns)
{
	return places_is_held(place, tag, now_ns) ? (uint64_t)cell_ahead_ns(place, now_ns) : 0;
}

static void add_use(const struct algo_limit *limit, uint64_t ahead_ns, struct places_use *use)
{
	use->held++;
	use->first_ns = u64_min(use->first_ns, ahead_ns);
	use->last_ns = u64_max(use->last_ns, ahead_ns);
	use->far |= ahead_ns > limit->places.lease_ns + ALGO_SKEW_NS;
}

/* Whether a place that is held so far ahead is freed, or loses its name once `n` are. */
static bool give_back(const struct row_state *state, struct places_release *release, unsigned at)
{
	struct cell place = row_load(&state->row, at), nameless = place;
	uint64_t ahead_ns = held_ns(place, state->row.tag, release->now_ns);
	bool is_newest = !release->newest || newest_has(release->newest, ahead_ns);

	if (ahead_ns == 0 || !is_meant(&release->match, place) || !is_newest)
		return false;
	if (release->freed == release->n) {
		nameless.low = place.low >> 32 << 32;
		if (release->unnames)
			row_swap(state, at, place, nameless);
		return false;
	}
	if (!row_swap(state, at, place, free_place(place)))
		return false;
	if (release->newest)
		newest_take(release->newest, ahead_ns);
	release->freed++;
	return true;
}

void places_release(const struct algo_limit *limit, const struct row_state *state,
                    struct places_release *release, struct places_use *use)
{
	const struct places_match *match = &release->match;
	unsigned places = places_span(state->head, &state->row);
	unsigned at = row_start((match->until_ns & UINT64_MAX >> 4) ^ match->word, places);
	uint64_t before = release->freed, others = use->held;

	for (unsigned i = 0; i < places; i++, at = at + 1 == places ? 0 : at + 1) {
		struct cell place = cell_peek(&state->row.cells[at]);
		uint64_t ahead_ns = held_ns(place, state->row.tag, release->now_ns);

		if (ahead_ns > 0 && !(is_meant(match, place) && give_back(state, release, at)))
			add_use(limit, ahead_ns, use);
	}
	if (release->freed > before)
		after_release(state, release, use->held == others);
}

void places_visit(const struct algo_limit *limit, uint64_t now_ns, const struct row_state *state,
                  newest_visit *visit, struct newest *newest)
{
	unsigned places = places_span(state->head, &state->row);

	(void)limit;
	for (unsigned i = 0; i < places; i++) {
		struct cell place = cell_peek(&state->row.cells[i]);
		uint64_t ahead_ns = held_ns(place, state->row.tag, now_ns);

		if (ahead_ns > 0 && cell_word(place) == 0)
			visit(newest, ahead_ns);
	}
}

void places_cut_back(const struct algo_limit *limit, const struct row_state *state, uint64_t now_ns,
                     struct places_use *use)
{
	unsigned places = places_span(state->head, &state->row);
	uint64_t lease_ns = limit->places.lease_ns;

	for (unsigned at = 0; at < places; at++) {
		struct cell place = row_load(&state->row, at);
		uint64_t ahead_ns = held_ns(place, state->row.tag, now_ns);

		if (ahead_ns > lease_ns + ALGO_SKEW_NS) {
			row_swap(state, at, place,
			         cell_make(cell_tag(place), now_ns + lease_ns, cell_word(place), CELL_PINNED));
			ahead_ns = lease_ns;
		}
		if (ahead_ns > 0)
			add_use(limit, ahead_ns, use);
	}
}

void places_explain(const struct algo_limit *limit, const struct places_use *use,
                    struct algo_decision *out)
{
	out->remaining = sat_sub(limit->places.max, use->held);
	out->reset_after_ns = use->last_ns;
	if (!out->allowed)
		algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, u64_min(limit->retry_ns, use->first_ns));
}

static void read(const struct row_step *on, struct uses *uses)
{
	unsigned span = places_span(on->head, on->row);

	for (unsigned i = 0; i < span; i++) {
		struct cell place = row_load(on->row, i);
		uint64_t until_ns = on->now_ns + (uint64_t)cell_ahead_ns(place, on->now_ns);

		if (places_is_held(place, on->row->tag, on->now_ns))
			uses_add(uses, (struct uses_entry){1, until_ns, cell_word(place)});
	}
}

const struct row_kind row_places = {.read = read}; /* they are taken in more than one step */
