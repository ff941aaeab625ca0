/*
 * redis.h: opens tables whose limits count at Redis (libweir_redis). docs/distributed.md tells
 * which counts are exact there, and the bounds of the others.
 *
 * Conventions as in weir.h, and:
 *
 *   blocking  A call with such a table blocks its thread for one round trip, at most
 *             `timeout_ns`. While Redis is unavailable, one call a second tries to reach it, and takes
 *             twice that at most. A call with a deadline may make several. A batch is
 *             one round trip, and so is a request by rules whose limits lie at one node. No call
 *             repeats a request that Redis did not answer.
 *   errors    ESTORE: Redis did not answer, or could not do it. Nobody knows whether it took
 *             anything. The decision is then a denial (WEIR_REASON_STORE_FAILURE), for callers
 *             that would rather not serve. A request by rules has no such error: its rules and
 *             limits say what happens instead (`on_store_failure`), and the decision says that
 *             they decided (`degraded`). After a timeout or a lost
 *             connection calls fail at once until Redis answers again. weir_redis_failure tells
 *             why, for example that Redis refuses the password.
 *   permits   A permit of weir_ask is valid for all tables at the same Redis. Permits
 *             of rules are valid only for their table. It keeps the names of their keys, the
 *             newest 16 MiB of them.
 *   time      Redis's clock decides. A time that you pass in counts for limits in memory.
 *   threads   Each call under way has its own connection, which is kept for later calls. The
 *             library starts no threads, except one while it looks up a host's name. The child
 *             of a fork connects anew; it may use the table if no other thread was using it at
 *             the fork.
 */
#ifndef WEIR_REDIS_H
#define WEIR_REDIS_H

#include <weir/weir.h>

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* functions have the names of their structs */
#endif
extern "C" {
#endif

/** Where a Redis is, and how long to wait for it. */
struct weir_redis_options {
	const char *url;          /**< redis://, redis+unix://, redis-cluster:// or redis+sentinel://,
	                               with rediss for TLS, or valkey, see docs/rules.md; required */
	const char *prefix;       /**< begins the name of every key, 64 bytes at most, without { and };
	                               default "weir:" */
	uint64_t timeout_ns;      /**< of a call, 1 ms to a minute; default 20 ms */
	uint64_t denied_cache_ns; /**< for this time a denial may be repeated without asking Redis, a
	                               minute at most; default 1 s, WEIR_ZERO for never */
	uint64_t nodes;           /**< servers that share the quota of a `local` limit while Redis is
	                               unavailable, 65,536 at most; default as the rule file says */
	uint64_t capacity;        /**< keys of such limits in memory; default 1,000,000 */
	uint64_t reserved[6];
};

/**
 * Opens a table whose limits count at a Redis. It does not connect yet, so a Redis that is
 * unavailable is no error here. The calls of weir.h work on the table. weir_table_close gives back
 * what limits with a `chunk` have taken in advance, and so blocks like a call. weir_table_stats,
 * weir_table_sync and weir_table_reserve concern only the table's memory.
 *
 *     weir_table *table;
 *     struct weir_redis_options options = {.url = "redis://127.0.0.1"};
 *     if (weir_redis_open(&options, &table, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: EINVAL and ERANGE (options, URL), EIO (a file of the URL), ENOMEM. No message holds a
 * password.
 */
WEIR_API int weir_redis_open(const struct weir_redis_options *options, weir_table **out,
                             struct weir_error *error);

/** Counts of the calls that a table at Redis has made. */
struct weir_redis_stats {
	uint64_t up;       /**< 1; 0 while calls fail at once */
	uint64_t calls;    /**< sent to Redis since the table was opened, as all below */
	uint64_t steps;    /**< steps of limits in those calls */
	uint64_t failed;   /**< steps that were not done, or may not have been */
	uint64_t timeouts; /**< calls that Redis did not answer in time */
	uint64_t switches; /**< times that Redis became unavailable */
	uint64_t denied;   /**< steps that were answered from the cache of denials, without Redis */
	uint64_t reserved[5];
};

/**
 * Counts the calls of a table to its Redis.
 *
 *     struct weir_redis_stats stats;
 *     if (weir_redis_stats(table, &stats) == 0)
 *         printf("%llu calls\n", (unsigned long long)stats.calls);
 *
 * Errors: EINVAL (not a table of weir_redis_open).
 */
WEIR_API int weir_redis_stats(const weir_table *table, struct weir_redis_stats *stats);

/**
 * Says why Redis is unavailable to a table, or was last. `failure->message` is "" if Redis was
 * always available, and otherwise a text such as "127.0.0.1:6379: Connection refused" or
 * "127.0.0.1:6379: Redis refuses user or password: WRONGPASS". It holds no password.
 *
 *     if (weir_acquire(table, limit, key, 1, WEIR_NOW, &d) == WEIR_ESTORE &&
 *         weir_redis_failure(table, &error) == 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: EINVAL (not a table of weir_redis_open).
 */
WEIR_API int weir_redis_failure(const weir_table *table, struct weir_error *failure);

#ifdef __cplusplus
}
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif
#endif
