/* engine.h: request -> rules -> limits -> one decision: a configuration, and single steps. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/plan.h"

/** One step of `limit` on a key, explained; no rule. Returns as memory_apply. */
__attribute__((noinline)) uint64_t engine_apply_slow(struct weir_table *table,
                                                     const struct weir_limit *limit,
                                                     struct memory_key key, struct algo_call call,
                                                     struct moment at,
                                                     struct weir_decision *decision);

/**
 * An acquire from a wide state that is in key.cell, where it is done at once. Returns the end
 * of the state that it left; 0: nothing has happened.
 */
__attribute__((noinline)) uint64_t engine_try_row(const struct weir_limit *limit,
                                                  struct memory_key key, uint64_t cost,
                                                  uint64_t now_ns,
                                                  struct weir_decision *decision);

/* The same on a key that was seen, where it is done at once; false: nothing has happened. */
static inline bool engine_try(struct weir_table *table, const struct weir_limit *limit,
                              const struct memory_key *key, const struct algo_call *call,
                              struct moment at, struct weir_decision *decision, uint64_t *until_ns)
{
	const struct algo_limit *algo = &limit->algo;
	uint32_t tag = table_tag(key->hash);
	struct algo_outcome outcome;

	if (__builtin_expect(!key->cell || !algo_is_current(algo), 0))
		return false;
	if (__builtin_expect(!memory_try(key->cell, table->table.load_is_atomic, algo, tag, call,
	                                 at.now_ns, &outcome, until_ns),
	                     0)) {
		if (algo->width == 0 || call->op != ALGO_ACQUIRE)
			return false;
		*until_ns = engine_try_row(limit, *key, call->cost, at.now_ns, decision);
		return *until_ns != 0;
	}
	limit_explain(limit, algo, &outcome, decision);
	return true;
}

/* The same on any key. */
static inline uint64_t engine_apply(struct weir_table *table, const struct weir_limit *limit,
                                    const struct memory_key *key, const struct algo_call *call,
                                    struct moment at, struct weir_decision *decision)
{
	struct memory_key seen = *key;
	uint64_t until_ns;

	if (!seen.cell)
		seen.cell = memory_near(table, &seen);
	if (__builtin_expect(!engine_try(table, limit, &seen, call, at, decision, &until_ns), 0))
		return engine_apply_slow(table, limit, seen, *call, at, decision);
	return until_ns;
}

/**
 * Lets `next` take over what the keys of `engine` have used, limit by limit,
 * where name, algorithm and period are the same. Call it when `next` is ready,
 * before anybody decides by it; `engine` may be decided by until it is closed,
 * which must be before `next` is.
 */
void engine_succeed(struct weir_engine *engine, struct weir_engine *next);

/** What it decides in. */
struct weir_table *engine_table(const struct weir_engine *engine);
/** The limits of an engine, for metrics and listings. */
size_t engine_limit_count(const struct weir_engine *engine);
const struct weir_limit *engine_limit_at(const struct weir_engine *engine, size_t index);
/** The place of a limit in that order; their count for a limit that the engine does not have. */
size_t engine_limit_index(const struct weir_engine *engine, const struct weir_limit *limit);
/** The limit whose counts these are, or NULL. */
struct weir_limit *engine_limit_of(const struct weir_engine *engine, uint64_t identity);

#endif
