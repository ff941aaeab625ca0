/*
 * leases.h: keeps the permits of a limit on concurrency as leases, one in each of the first `max`
 * entries of a record.
 *
 * A request takes as many entries as its cost. A lease is a cell with the key's tag, the lease's
 * end and the low half of the permit's id. One compare-and-swap takes a free entry, another frees
 * exactly the lease that was taken. docs/design/reported-states.md proves that this is exact.
 *
 * The header counts nothing. While leases are held it is PINNED, its `until` is no earlier than the
 * end of any lease, and its word is
 *
 *     version 17 | closing 1 | span 14
 *
 * All held leases are before index `span`. Each release raises the version, so a request that found
 * no free entry under an unchanged header was rightly denied. A release
 *
 * - reads the header;
 * - frees leases, and sees in the same pass whether others are held;
 * - raises the header's version, and marks the header as closing if none is held;
 * - if a second pass finds none either, stores a spent header.
 *
 * The header of a limit without keys is never closing, because no other key can take its cell.
 */
#ifndef RECORDS_LEASES_H
#define RECORDS_LEASES_H

#include "records/newest.h"
#include "records/record.h"

/* The leases held. */
struct leases_use {
	uint64_t held;
	uint64_t first_end_in_ns; /* until the first one ends; UINT64_MAX without leases */
	uint64_t last_end_in_ns;
	bool has_too_far; /* some end further ahead than leases last: the clock was set back */
};

#define LEASES_USE_NONE ((struct leases_use){.first_end_in_ns = UINT64_MAX})

/* Chooses leases. */
struct leases_match {
	uint64_t until_ns;    /* when they end; 0 for any time */
	uint32_t permit_word; /* leases_word's */
	bool is_any_permit;
};

/** A lease that begins at `now_ns`. */
struct cell leases_make_cell(const struct algo_limit *limit, const struct algo_call *call,
                             uint64_t now_ns, uint32_t tag);

static inline bool leases_is_held(struct cell entry, uint32_t tag, uint64_t now_ns)
{
	return cell_tag(entry) == tag && cell_is_pinned(entry) && cell_ahead_ns(entry, now_ns) > 0;
}

/** How many entries of the record may have a lease: none without a header. */
unsigned leases_span(struct cell header, const struct record *record);

/**
 * Adds the record's leases to `use`, which begins as LEASES_USE_NONE. A lease that is
 * being acquired or released meanwhile may or may not be in the sum.
 */
void leases_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                 const struct record *record, struct leases_use *use);

/** Whether leases that end at `until_ns` may be acquired under this header. */
bool leases_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                        uint64_t until_ns);

/** A header that fits for leases that begin now, and for an eighth of their time longer. */
struct cell leases_make_header(const struct algo_limit *limit, struct cell header, uint32_t tag,
                               uint64_t now_ns);

/**
 * Stores `lease` in up to `n` free entries. Returns how many. All threads see these before the
 * caller reads on.
 */
uint64_t leases_acquire(const struct algo_limit *limit, const struct record_state *state,
                        struct cell lease, uint64_t n, uint64_t now_ns);

/* A release: which leases, and how many are released so far. */
struct leases_release {
	struct leases_match match;
	uint64_t count_max;        /* releases at most so many */
	struct newest *newest;     /* unless NULL, only matching leases that it includes */
	bool clears_other_permits; /* the permit ends: its other leases stay without its id */
	bool limit_has_no_keys;    /* so the header is never closing */
	uint64_t now_ns;
	uint64_t released_count; /* so far */
};

/**
 * Releases leases of the record, raises the header's version if there were any, and adds the leases
 * that stay to `use`, as leases_read does.
 */
void leases_release(const struct algo_limit *limit, const struct record_state *state,
                    struct leases_release *release, struct leases_use *use);

/** Visits the ends (how far ahead) of the leases without a permit. */
void leases_visit_unnamed(const struct algo_limit *limit, uint64_t now_ns,
                          const struct record_state *state, newest_visit *visit,
                          struct newest *newest);

/**
 * Makes leases that a clock set back since has put too far ahead begin now. Adds all leases to
 * `use`, as leases_read does.
 */
void leases_cut_back(const struct algo_limit *limit, const struct record_state *state,
                     uint64_t now_ns, struct leases_use *use);

/** Fills in `out` from `use`. `out->allowed` is set before. */
void leases_set_decision(const struct algo_limit *limit, const struct leases_use *use,
                         struct algo_decision *out);

#endif
