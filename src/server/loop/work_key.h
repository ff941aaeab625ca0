/* work_key.h: the keys of a work, and whether two works do the same: for their order. */
#ifndef SERVER_WORK_KEY_H
#define SERVER_WORK_KEY_H

#include "server/loop/work.h"

/** The key of a step as its request has it, also where a local limit stands in for another. */
uint64_t work_key(const struct weir_table *table, const struct plan_step *step);

/**
 * The same for works that do the same, and may do it at once. Others have another value, but for
 * chance. 0: the work goes on alone.
 */
uint64_t work_equality_hash(const struct weir_table *table, const struct work *work);

#endif
