/*
 * engine.h: opens an engine, which decides requests by the rules and limits of one configuration,
 * replaces it after a reload, and lists its limits. plan/plan.h has the decisions.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/plan/plan.h"

/**
 * weir_engine_open where limits have stores of their own: for each limit of the configuration
 * its store, or NULL for the table's. The table's `store` is its memory. `stores` is only read
 * here, and the stores outlive the engine.
 */
int engine_open(const struct weir_config *config, struct weir_table *table,
                struct store *const *stores, struct weir_engine **out, struct weir_error *error);

/**
 * Lets the limits of `next` take over the counts of `engine`, if name, algorithm and period are the
 * same. Call it before the first decision by `next`. `engine` may decide until it is closed, which
 * must be before `next` is closed.
 */
void engine_succeed(struct weir_engine *engine, struct weir_engine *next);

/** Returns the table of an engine. */
struct weir_table *engine_table(const struct weir_engine *engine);
/** The limits of an engine, for metrics and listings. */
size_t engine_limit_count(const struct weir_engine *engine);
const struct weir_limit *engine_limit_at(const struct weir_engine *engine, size_t index);
/**
 * Returns the index of a limit in that order, or the number of limits if the engine does not have
 * it. A local limit has the index of the limit that it replaces, and one of a later engine that of
 * the limit of its name.
 */
size_t engine_limit_index(const struct weir_engine *engine, const struct weir_limit *limit);
/**
 * Lets the engine add to `counter` each request to a rule in whose key an attribute is empty or
 * missing. Call it before the first decision. The engine may add until it is closed.
 */
void engine_count_empty_keys(struct weir_engine *engine, size_t rule, _Atomic uint64_t *counter);
/** Returns the limit of an identity, or NULL. */
struct weir_limit *engine_find_limit(const struct weir_engine *engine, uint64_t identity);

#endif
