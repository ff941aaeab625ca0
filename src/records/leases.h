/*
 * leases.h: requests in flight, as places that are held.
 *
 * A limit of `max` has `max` places in a key's record, so no more than `max` are in flight. A
 * permit holds as many places as its cost. Each is a cell with the key's tag, the end of the
 * lease and the low half of the permit's id. A compare-and-swap takes a place from free to
 * held; another frees exactly the value that was taken. docs/design/wide-states.md says why
 * that is exact.
 *
 * The key's header counts nothing. While places are held it is there, of the
 * generation CELL_PINNED, its `until` at or after the end of every lease, its word
 *
 *     version 17 | closing 1 | span 14
 *
 * All held places lie before span. Each release raises the version, so a request that found no
 * free place and then the same header was right. Closing says that a thread looks whether any place
 * is still held. A release (1) reads the header; (2) frees places and sees in the same pass whether
 * others are held; (3) counts itself in that header, which is closing if none is held; (4) if a
 * second pass again finds none, marks the header as spent. The header of a limit without keys is
 * never closing, because no other key can take it.
 */
#ifndef RECORDS_PLACES_H
#define RECORDS_PLACES_H

#include "records/newest.h"
#include "records/record.h"

/* Held places: how many, and how far ahead their leases end. */
struct leases_use {
	uint64_t held;
	uint64_t first_ns; /* the first to end, or UINT64_MAX */
	uint64_t last_ns;
	bool far; /* some end further ahead than the limit lets them: the clock was set back */
};

/* Chooses held places. */
struct leases_match {
	uint64_t until_ns; /* when their lease ends; 0 for any */
	uint32_t word;     /* leases_word's */
	bool any_word;
};

/** A place as it is held from `now_ns` on. */
struct cell leases_make(const struct algo_limit *limit, const struct algo_call *call,
                        uint64_t now_ns, uint32_t tag);

static inline bool leases_is_held(struct cell place, uint32_t tag, uint64_t now_ns)
{
	return cell_tag(place) == tag && cell_is_pinned(place) && cell_ahead_ns(place, now_ns) > 0;
}

/** How many places of the record may be held: none without a header. */
unsigned leases_span(struct cell header, const struct record *record);

/**
 * Adds up the record's, on top of what `use` has; {.first_ns = UINT64_MAX} at first. A place
 * that is being taken or freed counts as before or as after.
 */
void leases_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                 const struct record *record, struct leases_use *use);

/** Whether places may be taken on behalf of this header, until `until_ns`. */
bool leases_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                        uint64_t until_ns);

/** A header that fits for as long as a lease that begins now, and some time longer. */
struct cell leases_raise_header(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                uint64_t now_ns);

/** Makes up to `n` places of the limit be as `place`; returns how many. All see them then. */
uint64_t leases_acquire(const struct algo_limit *limit, const struct record_state *state,
                        struct cell place, uint64_t n, uint64_t now_ns);

/* What a release frees, and how far it is. */
struct leases_release {
	struct leases_match match;
	uint64_t n;             /* so many at most */
	struct newest *newest;  /* if not NULL, only these of the places that are meant */
	bool clears_permits;    /* once `n` are free, the others that are meant lose their permit */
	bool alone;             /* no other key can take the header */
	uint64_t now_ns, freed; /* so many are free */
};

/**
 * Frees places of the record, counts the release in the header if there were any, and adds up in
 * `use` those that stay held, as leases_read does.
 */
void leases_release(const struct algo_limit *limit, const struct record_state *state,
                    struct leases_release *release, struct leases_use *use);

/** Visits how far ahead the leases of the record end that have no permit. */
void leases_visit(const struct algo_limit *limit, uint64_t now_ns, const struct record_state *state,
                  newest_visit *visit, struct newest *newest);

/**
 * Leases that a clock since set back has put too far ahead begin now. Adds up all that are held in
 * `use`, as leases_read does.
 */
void leases_cut_back(const struct algo_limit *limit, const struct record_state *state,
                     uint64_t now_ns, struct leases_use *use);

/** Explains `use` in `out`, which says already whether it is allowed. */
void leases_explain(const struct algo_limit *limit, const struct leases_use *use,
                    struct algo_decision *out);

#endif
