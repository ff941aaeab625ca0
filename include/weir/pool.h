/*
 * pool.h: runs tasks from a bounded bucket on threads, at once or at a rate.
 *
 * Conventions as in weir.h.
 */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <weir/weir.h>

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* functions have the names of their structs */
#endif
extern "C" {
#endif

/**
 * Workers that run tasks from a bounded bucket, first in first out. A task starts as soon
 * as a worker is free, or at a fixed rate.
 */
typedef struct weir_pool weir_pool;

/** Brings the result of one task. */
typedef struct weir_pool_ticket weir_pool_ticket;

/** A task that a worker runs; returns its result. `argument` stays the caller's. */
typedef void *weir_pool_run(void *argument);

/** Receives a task that the pool will not run. Must not stop or close the pool. */
typedef void weir_pool_return(void *context, weir_pool_run *run, void *argument);

/** How many workers, and how they start tasks. */
struct weir_pool_options {
	uint32_t workers;      /**< threads, 1 to 1,024; default one for each processor online */
	uint32_t bucket;       /**< tasks that may wait while all workers are busy, 1 to 2^24, at 24
	                            bytes each; default 1,000 */
	struct weir_rate rate; /**< count 0: none. Otherwise tasks start evenly spaced, never early,
	                            by the monotonic clock. If the system or all workers were late,
	                            the pool catches up the turns of the last 100 ms at once and
	                            loses older ones. Idle time saves up no turns. */
	uint64_t reserved[5];
};

/**
 * Starts the workers. They block signals, so the process's other threads get them. The child of a
 * fork has no workers, and must not use the pool. `options` may be NULL.
 *
 *     weir_pool *pool;
 *     if (weir_pool_open(&(struct weir_pool_options){.workers = 4}, &pool, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: ERANGE and EINVAL (the rate, as weir_limit_open; reserved), ENOMEM (threads, too).
 */
WEIR_API int weir_pool_open(const struct weir_pool_options *options, weir_pool **out,
                            struct weir_error *error);

/**
 * Runs all accepted tasks as weir_pool_stop does, then frees the pool. A task must not call it.
 * `pool` may be NULL.
 *
 *     weir_pool_close(pool);
 */
WEIR_API void weir_pool_close(weir_pool *pool);

/**
 * Puts a task into the bucket and never waits: while `bucket` + `workers` tasks are unfinished, it
 * refuses with EFULL. An accepted task is run or returned, once. `ticket` may be NULL if nobody
 * will ask for the result. Otherwise the caller closes *ticket, which is NULL on error. Tasks may
 * submit tasks. A task that waits for another holds its worker meanwhile.
 *
 *     if (weir_pool_submit(pool, run, argument, NULL) == WEIR_EFULL)
 *         puts("busy");
 *
 * Errors: EFULL, ESTOPPED, EINVAL (no function), ENOMEM (only with a ticket).
 */
WEIR_API int weir_pool_submit(weir_pool *pool, weir_pool_run *run, void *argument,
                              weir_pool_ticket **ticket);

/**
 * Waits until a task has finished or `deadline_ns` comes: a Unix time, WEIR_NOW (do not wait) or
 * WEIR_FOREVER. The task goes on after a timeout, and you may wait for it again.
 * Only success sets *result, to what the task returned; `result` may be NULL.
 *
 *     if (weir_pool_wait(ticket, WEIR_FOREVER, &result) == 0)
 *         use(result);
 *
 * Errors: ETIMEDOUT, ESTOPPED (weir_pool_stop returned the task instead of running it).
 */
WEIR_API int weir_pool_wait(weir_pool_ticket *ticket, uint64_t deadline_ns, void **result);

/**
 * Frees a ticket. `ticket` may be NULL. Allowed at any time, also before the task has finished or
 * after the pool is closed.
 *
 *     weir_pool_ticket_close(ticket);
 */
WEIR_API void weir_pool_ticket_close(weir_pool_ticket *ticket);

/**
 * Accepts no more tasks, and returns when all accepted tasks have run, at the pool's rate. If
 * `give_back` is not NULL, it first passes the tasks not yet started to it, with `context`, in
 * order, on this thread; then it waits for the others. You may call it again; a second call with
 * `give_back` cuts a first one short.
 *
 *     status = weir_pool_stop(pool, NULL, NULL);
 *
 * Errors: EINVAL (a task of this pool calls it, and it would wait for that task).
 */
WEIR_API int weir_pool_stop(weir_pool *pool, weir_pool_return *give_back, void *context);

/** The workers of a pool, and counts of its tasks. */
struct weir_pool_stats {
	uint64_t workers;      /**< as opened */
	uint64_t bucket;       /**< as opened */
	uint64_t waiting;      /**< tasks not yet started */
	uint64_t unfinished;   /**< tasks waiting, running, or being given back */
	uint64_t accepted;     /**< since the pool was opened, as all below */
	uint64_t refused;      /**< with EFULL */
	uint64_t finished;     /**< run to their end */
	uint64_t returned;     /**< given back */
	uint64_t missed_turns; /**< turns of the rate that were lost because none took them in time */
	uint64_t reserved[3];  /**< 0 */
};

/**
 * Counts the tasks of a pool.
 *
 *     struct weir_pool_stats stats;
 *     weir_pool_stats(pool, &stats);
 *     printf("%llu waiting\n", (unsigned long long)stats.waiting);
 */
WEIR_API void weir_pool_stats(weir_pool *pool, struct weir_pool_stats *stats);

#ifdef __cplusplus
}
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif
#endif
