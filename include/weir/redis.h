/*
 * redis.h: tables whose limits count at Redis (libweir_redis). docs/distributed.md tells what is
 * exact there, and what is bounded.
 *
 * Conventions as in weir.h, and:
 *
 *   blocking  A call with such a table blocks its thread for a round trip, at most
 *             `timeout_ns`; one a second that tries whether Redis is back, twice that. *_acquire_wait blocks longer, but at Redis for no longer at once.
 *             A batch is one round trip, and so is a request by rules whose limits lie at one
 *             node. No call repeats a request that Redis did not answer.
 *   errors    ESTORE where Redis did not answer, or could not do it: nobody knows whether it took
 *             anything. The decision is a denial then (WEIR_REASON_STORE_FAILURE), for callers that
 *             would rather not serve. A request by rules has no such error: its rules and
 *             limits say what happens instead (`on_store_failure`). After a timeout or a lost
 *             connection calls fail at once, until Redis answers again; they try once a second.
 *   permits   One of weir_acquire_permit is good for all tables at the same Redis. Those of rules
 *             are good for their table: it keeps the names of their keys, of the newest up to
 *             16 MiB of them.
 *   time      Redis's clock decides. A time that is passed in counts for limits in memory.
 *   threads   Each call that is under way has a connection of its own, which is kept for later
 *             ones. There are no threads behind them, but one for as long as a host's name is
 *             looked up. The child of a fork connects anew, and may use the table if no other
 *             thread was using it when it was forked.
 */
#ifndef WEIR_REDIS_H
#define WEIR_REDIS_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_redis_options {
	const char *url;          /**< redis://, rediss://, redis-cluster:// or rediss-cluster://, see
	                               docs/distributed.md; required */
	const char *prefix;       /**< of every key; NULL: "weir:" */
	uint64_t timeout_ns;      /**< of a call, 1 ms to a minute; 0: 20 ms */
	uint64_t denied_cache_ns; /**< how long a denial may be repeated without asking Redis, a minute at
	                               most; 0: 1 s, WEIR_ZERO: never */
	uint64_t nodes;           /**< how many share the quota of a rule's limit that is `local` while
	                               Redis is away; 0: as the rule file says */
	uint64_t capacity;        /**< keys of such limits in memory; 0: 1,000,000 */
	uint64_t reserved[6];
};

/**
 * Opens a table whose limits count at a Redis, and connects to nothing yet: a Redis that is away
 * is as one that dies later. The calls of weir.h work on it; weir_table_close closes it,
 * and gives back what limits with a `chunk` have taken in advance, which blocks like a call.
 * weir_table_stats, weir_table_sync and weir_table_reserve tell of its memory alone.
 *
 *     weir_table *table;
 *     weir_redis_open(&(struct weir_redis_options){ .url = "redis://127.0.0.1" }, &table, NULL);
 *     if (weir_acquire(table, limit, "alice", 5, 1, WEIR_NOW, &d) == 0 && d.allowed)
 *         serve();
 *
 * Errors: EINVAL and ERANGE (options, URL), EIO (a file of the URL), ENOMEM. No message holds a
 * password.
 */
WEIR_API int weir_redis_open(const struct weir_redis_options *options, weir_table **out,
                             struct weir_error *error);

struct weir_redis_stats {
	uint64_t up;       /**< 1, or 0 while calls fail at once */
	uint64_t calls;    /**< sent to Redis so far, as all below */
	uint64_t steps;    /**< of limits, in those calls */
	uint64_t failed;   /**< steps that were not done, or nobody knows */
	uint64_t timeouts; /**< calls that were not answered in time */
	uint64_t switches; /**< times that Redis was found away */
	uint64_t denied;   /**< steps answered by a denial that was known */
	uint64_t reserved[5];
};

/** Errors: EINVAL (not a table of weir_redis_open). */
WEIR_API int weir_redis_stats(const weir_table *table, struct weir_redis_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
