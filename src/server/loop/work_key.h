/*
 * work_key.h: compares the keys and the effect of works, so that their order can be kept
 * (key_order.h). A work is a request that is being processed.
 */
#ifndef SERVER_WORK_KEY_H
#define SERVER_WORK_KEY_H

#include "server/loop/work.h"

/**
 * The hash of a step's key under the limit that the request names, even if a local limit replaces
 * it.
 */
uint64_t work_key(const struct weir_table *table, const struct plan_step *step);

/**
 * Returns the same value for works with the same effect, which may run at once; for others another
 * value, but for collisions. Returns 0 if the work equals no other.
 */
uint64_t work_effect_hash(const struct weir_table *table, const struct work *work);

#endif
