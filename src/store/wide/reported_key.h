/*
 * reported_key.h: reads all wide states of a key whose requests are reported: in the limit's newest
 * table, and in former tables, whose entries count until they end. Finds the newest ends of its
 * entries.
 *
 * The header counts nothing: it retains the record for as long as an entry in it may count. Each
 * entry changes by a swap of its own. The headers of src/records say what an entry is: leases.h,
 * breaker_record.h, success_counts.h and in_flight.h.
 */
#ifndef STORE_REPORTED_KEY_H
#define STORE_REPORTED_KEY_H

#include "records/newest.h"
#include "store/wide/wide.h"

#define REPORTED_KEY_STATES_MAX (1 + SECTION_FORMERS)

struct reported_key {
	const struct call_target *target;
	const struct algo_limit *limit; /* the limit in force when the key was read */
	uint64_t now_ns;
	size_t count;
	struct wide_state
	    states[REPORTED_KEY_STATES_MAX]; /* the newest table's first, which may lack a header */
};

/** Whether the key has a record in the newest table; that of a limit without keys always has. */
static inline bool reported_key_has_record(const struct reported_key *key)
{
	return key->states[0].at.cell;
}

/** Whether it has a header there, too: that of a limit without keys is empty before its first use.
 */
static inline bool reported_key_has_header(const struct reported_key *key)
{
	const struct record_state *at = &key->states[0].at;

	return at->cell && cell_tag(at->header) == at->record.tag;
}

/** Prepares the first read. The other fields, 2 KB, are set by the read. */
static inline void reported_key_init(struct reported_key *key, const struct call_target *target)
{
	key->target = target;
	key->limit = *target->limit;
	key->now_ns = target->now_ns;
}

/** Reads the key's headers in all tables of the limit now in force. */
void reported_key_read(struct reported_key *key);

/** Reads the key's header in the newest table alone. */
void reported_key_read_newest(struct reported_key *key);

/**
 * Whether no header has changed since the read. If so, no entry was released that a header counts.
 */
bool reported_key_is_unchanged(const struct reported_key *key);

/** Whether a call that reads the key from now on reads the same records, by the same limit. */
bool reported_key_is_current(const struct reported_key *key);

/** Whether the newest header is missing and the table is full. */
static inline bool reported_key_is_full(const struct reported_key *key)
{
	return wide_is_full(&key->states[0], key->now_ns);
}

enum header_result {
	HEADER_STORED,  /* the header has the wanted value */
	HEADER_CHANGED, /* another thread has changed it, or it was inserted: read the key anew */
	HEADER_NO_CAPACITY,
};

/**
 * Swaps the newest table's header for `header`, or inserts it. The snapshot of the record stays
 * valid.
 */
enum header_result reported_key_store_header(struct reported_key *key, struct cell header);

/* Visits the ends of the entries of a record that a refund without a permit may release. */
typedef void reported_key_ends(const struct algo_limit *limit, uint64_t now_ns,
                               const struct record_state *at, newest_visit *visit,
                               struct newest *newest);

/** Visits those of all records. */
void reported_key_visit(const struct reported_key *key, reported_key_ends *ends,
                        newest_visit *visit, struct newest *newest);

/**
 * Finds the `n` newest ends after a first pass that has added all of them. `n` is no more than
 * newest_begin got.
 */
void reported_key_find_newest(const struct reported_key *key, reported_key_ends *ends, uint64_t n,
                              struct newest *newest);

#endif
