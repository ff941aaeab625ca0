/*
 * client_pool.h: lends store clients, each with connections of its own, to the library's blocking
 * calls.
 *
 * A client serves one call at a time; the client that was returned last is lent first. After a
 * fork, the child drops its parent's clients.
 */
#ifndef REDIS_CLIENT_POOL_H
#define REDIS_CLIENT_POOL_H

#include "redis/redis.h"
#include "store/caller.h"

/** Opens a store, and a caller for it. Errors as redis_store_open's. */
int pool_open(const struct redis_options *options, struct store_caller **out,
              struct weir_error *error);

#endif
