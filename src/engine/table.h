/* table.h: struct weir_table: where limits count, and the requests that wait for their keys. */
#ifndef ENGINE_TABLE_H
#define ENGINE_TABLE_H

#include <weir/weir.h>

#include "store/store.h"
#include "wait/waitlist.h"

struct weir_table {
	struct store *store;
	struct waitlist *waiting; /* the requests of this process that wait; NULL: none yet */
};

static inline const struct clock *engine_clock(const struct weir_table *table)
{
	return store_clock(table->store);
}

static inline const struct hash_key *engine_secret(const struct weir_table *table)
{
	return store_secret(table->store);
}

static inline uint64_t engine_capacity(const struct weir_table *table)
{
	return store_capacity(table->store);
}

/** How many keys a limit of an engine of this table can have. */
static inline struct store_capacity engine_capacity_of(const struct weir_table *table,
                                                       const struct algo_limit *limit)
{
	return store_capacity_of(table->store, limit);
}

#endif
