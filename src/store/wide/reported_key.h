/*
 * held.h: a key of a limit whose requests are reported, as one call reads it: its header and record
 * in the limit's newest table, and those in former tables, whose entries count until they end.
 *
 * The header counts nothing. It keeps the record the key's for as long as an entry in the record
 * may count, and each entry changes by a swap of its own. What an entry is, src/records says for
 * places (leases.h), breakers (breaker_record.h), accepted requests (success_counts.h) and requests
 * in flight (in_flight.h).
 */
#ifndef STORE_REPORTED_KEY_H
#define STORE_REPORTED_KEY_H

#include "records/newest.h"
#include "store/wide/wide.h"

#define REPORTED_KEY_STATES_MAX (1 + SECTION_FORMERS)

struct reported_key {
	const struct call_target *target;
	const struct algo_limit *limit; /* in force when the key was read */
	uint64_t now_ns;
	size_t count;
	struct wide_state
	    states[REPORTED_KEY_STATES_MAX]; /* the newest table's first, which may have no header */
};

/** Before the first read. The rest of `held` is set by the read: it has 2 KB. */
static inline void reported_key_begin(struct reported_key *key, const struct call_target *target)
{
	key->target = target;
	key->limit = *target->limit;
	key->now_ns = target->now_ns;
}

/** Reads the headers of the key, by the limit that has taken over. */
void reported_key_read(struct reported_key *key);

/** The same of the newest table alone. */
void reported_key_read_newest(struct reported_key *key);

/** Whether all headers are as they were read: no entry that is counted in one was released. */
bool reported_key_is_unchanged(const struct reported_key *key);

/** Whether another call that reads the key from now on reads the same records, by the same limit.
 */
bool reported_key_is_current(const struct reported_key *key);

/** Whether there is no room for a header that is missing. */
static inline bool reported_key_is_full(const struct reported_key *key)
{
	return wide_is_full(&key->states[0], key->now_ns);
}

enum header_result {
	HEADER_STORED,  /* the header is the one wanted */
	HEADER_CHANGED, /* others have changed it, or it is a new one: read the key anew */
	HEADER_NO_CAPACITY,
};

/** Swaps the header in the newest table for `header`, or makes one. What was read of the record
 * stands. */
enum header_result reported_key_store_header(struct reported_key *key, struct cell header);

/* Visits the ends of those entries of a record that a refund without a permit may give back. */
typedef void reported_key_ends(const struct algo_limit *limit, uint64_t now_ns,
                               const struct record_state *at, newest_visit *visit,
                               struct newest *newest);

/** The same of all records. */
void reported_key_visit(const struct reported_key *key, reported_key_ends *ends,
                        newest_visit *visit, struct newest *newest);

/** After a first pass that has added all ends: finds the `n` newest, no more than that began with.
 */
void reported_key_find_newest(const struct reported_key *key, reported_key_ends *ends, uint64_t n,
                              struct newest *newest);

#endif
