/*
 * pool.h: the lanes that blocking calls borrow, each with its own connections.
 *
 * A lane is lent to one call at a time; the lane that came back last goes first. After a fork, the
 * child drops its parent's lanes.
 */
#ifndef REDIS_POOL_H
#define REDIS_POOL_H

#include "redis/redis.h"
#include "store/caller.h"

/** Opens a store, and a caller for it. Errors as redis_store_open's. */
int pool_open(const struct redis_options *options, struct store_caller **out,
              struct weir_error *error);

#endif
