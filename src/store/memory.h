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

/**
 * One step of `limit` on the key of that hash. Returns the end of the state it
 * left, which a refund may name; 0 when it left none.
 */
uint64_t memory_apply(struct weir_table *store, const struct algo_limit *limit, uint64_t hash,
                      const struct algo_call *call, const struct algo_time *time,
                      struct algo_outcome *out);

/** The same on a cell that belongs to one limit alone. */
void memory_apply_cell(struct cell *cell, bool load_is_atomic, const struct algo_limit *limit,
                       const struct algo_call *call, const struct algo_time *time,
                       struct algo_outcome *out);

#endif
