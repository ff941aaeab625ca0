/*
 * work_key.h: computes hashes by which two requests are compared: have they a key in common, and do
 * they do the same? key_order.h needs that to let requests take effect in their order.
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
