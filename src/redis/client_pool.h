/*
 * client_pool.h: the clients that blocking calls borrow, each with its own connections.
 *
 * A client is lent to one call at a time; the client that came back last goes first. After a fork,
 * the child drops its parent's clients.
 */
#ifndef REDIS_CLIENT_POOL_H
#define REDIS_CLIENT_POOL_H

#include "redis/redis.h"
#include "store/caller.h"

/** Opens a store, and a caller for it. Errors as redis_store_open's. */
int pool_open(const struct redis_options *options, struct store_caller **out,
              struct weir_error *error);

#endif
