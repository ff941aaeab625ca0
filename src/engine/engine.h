/* engine.h: a configuration compiled for deciding. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/plan/plan.h"

/**
 * weir_engine_open where limits have stores of their own: for each limit of the configuration
 * its store, or NULL for the table's. The table's `store` is its memory. `stores` is only read here,
 * and the stores outlive the engine.
 */
int engine_open(const struct weir_config *config, struct weir_table *table,
                struct store *const *stores, struct weir_engine **out, struct weir_error *error);

/**
 * Lets `next` take over what the keys of `engine` have used, limit by limit,
 * where name, algorithm and period are the same. Call it when `next` is ready,
 * before anybody decides by it; `engine` may be decided by until it is closed,
 * which must be before `next` is.
 */
void engine_succeed(struct weir_engine *engine, struct weir_engine *next);

/** The table that it decides in. */
struct weir_table *engine_table(const struct weir_engine *engine);
/** The limits of an engine, for metrics and listings. */
size_t engine_limit_count(const struct weir_engine *engine);
const struct weir_limit *engine_limit_at(const struct weir_engine *engine, size_t index);
/**
 * The place of a limit in that order, or of the one that it stands in for; their count for a
 * limit that the engine does not have.
 */
size_t engine_limit_index(const struct weir_engine *engine, const struct weir_limit *limit);
/** The limit whose counts these are, or NULL. */
struct weir_limit *engine_limit_of(const struct weir_engine *engine, uint64_t identity);

#endif
