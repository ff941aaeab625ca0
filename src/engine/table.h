/*
 * table.h: struct weir_table, where the limits of an engine count: in memory or at a remote store.
 * Chooses between the two for a limit. It also has the requests that wait for a key.
 */
#ifndef ENGINE_TABLE_H
#define ENGINE_TABLE_H

#include <weir/weir.h>

#include "engine/limit.h"
#include "store/store.h"
#include "wait/waitlist.h"

struct weir_table {
	struct store *store;         /* its memory */
	struct store *remote;        /* where limits count that name no store, or NULL for `store` */
	struct store_caller *caller; /* of `remote`, which calls of the library block on; or NULL */
	struct names *names;         /* of the keys of permits at `remote`; NULL without a caller */
	uint64_t nodes; /* that share the quota of what is local, or 0 for what the rule file says */
	struct waitlist *waiting; /* the requests of this process that wait, or NULL */
};

/* engine_remote_store where either has named one. Not inlined, to keep checks in memory short. */
__attribute__((noinline, unused)) static struct store *
engine_named_store(const struct weir_table *table, const struct weir_limit *limit)
{
	struct store *store = limit->store ? limit->store : table->remote;

	return store && store->kind && !algo_is_local(&limit->algo) ? store : NULL;
}

/** The remote store that completes the steps of a limit, or NULL if they are done in memory. */
static inline struct store *engine_remote_store(const struct weir_table *table,
                                                const struct weir_limit *limit)
{
	if (__builtin_expect(((uintptr_t)limit->store | (uintptr_t)table->remote) == 0, 1))
		return NULL;
	return engine_named_store(table, limit);
}

/** The remote store at which servers decide a limit together, or NULL if each decides by itself. */
static inline struct store *engine_group_store(const struct weir_table *table,
                                               const struct weir_limit *limit)
{
	struct store *store = limit->store ? limit->store : table->remote;
	bool shares = algo_has_phases(&limit->algo) && limit->algo.breaker.quorum > 0;

	return shares && store && store->kind ? store : NULL;
}

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

/** How many keys a limit of an engine of this table can have in memory: it, or its `local`. */
static inline struct store_capacity engine_capacity_of(const struct weir_table *table,
                                                       const struct weir_limit *limit)
{
	return store_capacity_of(table->store, limit->local ? &limit->local->algo : &limit->algo);
}

#endif
