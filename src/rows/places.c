#include "rows/places.h"

#define SPAN_BITS 14
#define SPAN      ((1U << SPAN_BITS) - 1)
#define CLOSING   (1U << SPAN_BITS)
#define RELEASE   (CLOSING << 1)

_Static_assert(ALGO_PERMITS_MAX <= SPAN, "a span fits in a head");

struct cell places_make(const struct algo_limit *limit, const struct algo_call *call,
                        uint64_t now_ns, uint32_t tag)
{
	return cell_make(tag, now_ns + limit->places.lease_ns, places_word(call->permit),
	                 CELL_HELD);
}

bool places_matches(const struct places_match *match, struct cell place)
{
	return (match->any_word || cell_word(place) == match->word) &&
	       (match->until_ns == 0 || cell_ahead_ns(place, match->until_ns) == 0);
}

unsigned places_span(struct cell head, const struct row *row)
{
	if (cell_tag(head) != row->tag || !cell_is_held(head))
		return 0;
	return (unsigned)u64_min(cell_word(head) & SPAN, row->width);
}

void places_look(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                 const struct row *row, struct places_use *use)
{
	unsigned span = places_span(head, row);
	uint64_t held = 0, first = UINT64_MAX, last = 0, nameless = 0; /* 1/16 ns, from now on */

	for (unsigned i = 0; i < span; i++) { /* without a branch: a row may have 10,000 */
		struct cell place = cell_peek(&row->cells[i]);
		int64_t ahead = (int64_t)(place.high - (now_ns << 4 | CELL_HELD));
		bool is_held = (cell_tag(place) == row->tag) & ((ahead & 15) == 0) & (ahead > 0);
		uint64_t mine = is_held ? (uint64_t)ahead : 0;

		held += is_held;
		first = u64_min(first, mine - 1); /* of none the greatest */
		last = u64_max(last, mine);
		nameless = u64_max(nameless, cell_word(place) == 0 ? mine : 0);
	}
	use->held += held;
	use->first_ns = u64_min(use->first_ns, first == UINT64_MAX ? first : (first + 1) >> 4);
	use->last_ns = u64_max(use->last_ns, last >> 4);
	use->nameless_ns = u64_max(use->nameless_ns, nameless >> 4);
	use->far |= last >> 4 > limit->places.lease_ns + ALGO_SKEW_NS;
}

bool places_fits(const struct algo_limit *limit, struct cell head, uint32_t tag, uint64_t until_ns)
{
	return cell_tag(head) == tag && cell_is_held(head) && !(cell_word(head) & CLOSING) &&
	       (cell_word(head) & SPAN) >= limit->places.max && cell_ahead_ns(head, until_ns) >= 0;
}

struct cell places_raise(const struct algo_limit *limit, struct cell head, uint32_t tag,
                         uint64_t now_ns)
{
	uint64_t ahead_ns = limit->places.lease_ns + limit->places.lease_ns / 8;
	uint32_t word = 0, span = (uint32_t)limit->places.max;

	if (cell_tag(head) == tag && cell_is_held(head)) {
		word = cell_word(head) & ~(SPAN | CLOSING);
		if (cell_ahead_ns(head, now_ns) > 0) {
			span = (uint32_t)u64_max(span, cell_word(head) & SPAN);
			ahead_ns = u64_max(ahead_ns, (uint64_t)cell_ahead_ns(head, now_ns));
		}
	}
	return cell_make(tag, now_ns + ahead_ns, word | span, CELL_HELD);
}

struct cell places_released(struct cell head, bool closing)
{
	uint32_t word = (cell_word(head) + RELEASE) & ~CLOSING;

	return (struct cell){head.low >> 32 << 32 | word | (closing ? CLOSING : 0), head.high};
}

struct cell places_idle(struct cell head, uint64_t now_ns)
{
	return cell_make(cell_tag(head), now_ns, cell_word(head) & ~CLOSING, CELL_HELD);
}

void places_explain(const struct algo_limit *limit, const struct places_use *use,
                    struct algo_outcome *out)
{
	out->remaining = sat_sub(limit->places.max, use->held);
	out->reset_after_ns = use->last_ns;
	if (!out->allowed) {
		out->reason = WEIR_REASON_OVER_LIMIT;
		out->retry_after_ns = u64_min(limit->retry_ns, use->first_ns);
	}
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
