/*
 * memory.h: states in this process's own memory.
 *
 * The loop in which a pure step meets a cell that others are changing: find,
 * step, compare-and-swap, and again when somebody was faster.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "base/clock.h"
#include "table/table.h"

struct weir_table {
	struct table table;
	struct clock_anchor clock;
};

/** Errors: ERANGE, ENOMEM, EIO (no randomness). */
int memory_open(struct weir_table *store, const struct weir_table_options *options,
                struct weir_error *error);
void memory_close(struct weir_table *store);

/** The hash of a key of the limit with this identity. */
static inline uint64_t memory_hash(const struct weir_table *store, uint64_t identity,
                                   const void *key, size_t key_len)
{
	return keyhash(&store->table.hash, identity, key, key_len);
}

/*
 * A key on its way through the passes of a batch. Memory is slow and answers
 * many questions at once, so a batch starts fetching all homes, then looks
 * into each and starts fetching the runs of those that are not at home, then
 * decides.
 */
struct memory_key {
	uint64_t hash;
	struct cell *cell; /* where it was seen; NULL: not looked for, or not at home */
};

/** First pass: starts fetching the home. */
static inline struct memory_key memory_fetch(const struct weir_table *store, uint64_t hash)
{
	struct table_place place = table_place(&store->table, hash);

	table_prefetch(&place);
	return (struct memory_key){hash, NULL};
}

/** Second pass, which may be left out. */
void memory_locate(const struct weir_table *store, struct memory_key *key);

/**
 * One step of `limit` on a key. Returns the end of the state it left, which a
 * refund may name; 0 when it left none.
 */
uint64_t memory_apply(struct weir_table *store, const struct algo_limit *limit,
                      const struct memory_key *key, const struct algo_call *call,
                      const struct algo_time *time, struct algo_outcome *out);

/** The same on a cell that belongs to one limit alone. */
void memory_apply_cell(struct cell *cell, bool load_is_atomic, const struct algo_limit *limit,
                       const struct algo_call *call, const struct algo_time *time,
                       struct algo_outcome *out);

#endif
