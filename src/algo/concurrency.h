/*
 * concurrency.h: how many are in flight, as places that are held.
 *
 * A limit of `max` has so many places in a key's row. A permit of a cost holds as
 * many of them, each a cell with the key's tag, the end of the lease and the low
 * half of the permit's id; so no more than `max` are in flight, for there are no
 * more places. docs/design/wide-states.md says how they are taken and given back.
 *
 * The key's head counts nothing. While places are held it is there, of the
 * generation CELL_HELD, its `until` at or after the end of every lease, its word
 *
 *     version 17 | closing 1 | span 14
 *
 * where all places that are held lie before span, each release raises the version
 * (so who found no place free and then the same head, was right), and closing says
 * that somebody looks whether none is held any more.
 */
#ifndef ALGO_CONCURRENCY_H
#define ALGO_CONCURRENCY_H

#include "algo/wide.h"

/* Held places: how many, and how far ahead their leases end. */
struct concurrency_use {
	uint64_t held;
	uint64_t first_ns; /* the first to end; UINT64_MAX: none */
	uint64_t last_ns;
	uint64_t nameless_ns; /* the last of those without a permit; 0: none */
	bool far; /* some end further ahead than the limit lets them: the clock was set back */
};

/* Which held places are meant. */
struct concurrency_match {
	uint64_t until_ns; /* when their lease ends; 0: whenever */
	uint32_t word;     /* concurrency_word's */
	bool any_word;
};

/** What a place carries of a permit; of none 0. */
uint32_t concurrency_word(uint64_t permit);

/** A place as it is held from `now_ns` on. */
struct cell concurrency_place(const struct algo_limit *limit, const struct algo_call *call,
                              uint64_t now_ns, uint32_t tag);

static inline bool concurrency_is_held(struct cell place, uint32_t tag, uint64_t now_ns)
{
	return cell_tag(place) == tag && cell_is_held(place) && cell_ahead_ns(place, now_ns) > 0;
}

/** Whether a place ends further ahead than `limit` lets any. */
static inline bool concurrency_is_far(const struct algo_limit *limit, struct cell place,
                                      uint64_t now_ns)
{
	return cell_ahead_ns(place, now_ns) > (int64_t)(limit->permit.lease_ns + ALGO_SKEW_NS);
}

/** Whether a held place is meant. */
bool concurrency_matches(const struct concurrency_match *match, struct cell place);

/** The same place, held by nobody. */
static inline struct cell concurrency_free(struct cell place)
{
	place.high &= ~UINT64_C(15);
	return place;
}

/** How many places of the row may be held: none without a head. */
unsigned concurrency_span(struct cell head, const struct algo_row *row);

/**
 * Adds up the row's, on top of what `use` has; {.first_ns = UINT64_MAX} at first. A place
 * that is being taken or freed counts as before or as after.
 */
void concurrency_look(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                      const struct algo_row *row, struct concurrency_use *use);

/** Whether places may be taken on behalf of this head, until `until_ns`. */
bool concurrency_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                      uint64_t until_ns);

/** A head that fits for as long as a lease that begins now, and some time longer. */
struct cell concurrency_raise(const struct algo_limit *limit, struct cell head, uint32_t tag,
                              uint64_t now_ns);

/** The head after a release. */
struct cell concurrency_released(struct cell head, bool closing);

/** The head as it says nothing any more. */
struct cell concurrency_idle(struct cell head, uint64_t now_ns);

/** What `use` comes to as an answer; allowed as `out` says. */
void concurrency_explain(const struct algo_limit *limit, const struct concurrency_use *use,
                         struct algo_outcome *out);

#endif
