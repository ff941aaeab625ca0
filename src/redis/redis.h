/*
 * redis.h: opens a store on Redis, which servers share, and the clients by which threads use it.
 *
 * All threads share the store: its settings, its nodes and their availability, and its cache. Each
 * thread submits operations by a store client of its own.
 */
#ifndef REDIS_REDIS_H
#define REDIS_REDIS_H

#include "redis/network/transport.h"
#include "store/store.h"

/* With the terminating NUL, the most bytes of a reason why a store is unavailable. */
#define REDIS_FAILURE_MAX 300

struct redis_options {
	const char *url;
	const char *prefix;       /* of every key */
	uint64_t timeout_ns;      /* of a call */
	uint64_t denied_cache_ns; /* how long a denial may be repeated without asking Redis, or 0 */
	bool given_time; /* for tests: operations are decided at the caller's time, not at Redis's */
	/*
	 * Called when the store becomes unavailable, for the reason `why`, or has recovered (NULL), by
	 * the thread that finds it.
	 */
	void (*switched)(void *context, const struct store *store, const char *why);
	void *context;
};

/* Buckets of the histogram of round trips: all have an upper bound but the last. */
#define REDIS_LATENCY_BUCKETS 13

/** The upper bound of a bucket that is not the last. */
uint64_t redis_latency_bound_ns(size_t bucket);

/* Counts since the store was opened, which only grow. */
struct redis_stats {
	uint64_t calls, steps; /* sent; a step is one command of a call */
	uint64_t failed;       /* operations that were not carried out, or whose outcome is unknown */
	uint64_t timeouts;           /* of calls */
	uint64_t switches;           /* times that the store was found unavailable */
	uint64_t denied;             /* operations that the cache has denied */
	uint64_t granted_by_chunks;  /* operations that a chunk has granted */
	uint64_t latency_counts[REDIS_LATENCY_BUCKETS]; /* answered calls, by their round trip */
	uint64_t latency_sum_ns;                        /* of all round trips */
	bool is_up;                            /* at present; must follow the counts: redis_stats_add */
};

/** Connects to nothing yet. Options are copied. EINVAL, ERANGE, ENOMEM, EUNSUPPORTED. */
int redis_store_open(const struct redis_options *options, struct store **out,
                     struct weir_error *error);
/** Call it after all clients are closed. */
void redis_store_close(struct store *store);
/** Writes the newest reason why the store was unavailable, or "". */
void redis_store_failure(const struct store *store, char why[REDIS_FAILURE_MAX]);
/** The URL without its password. */
const char *redis_store_name(const struct store *store);
/** The master that Sentinels named. False if they have named none yet. */
bool redis_store_master(const struct store *store, struct redis_host *master);
void redis_store_stats(const struct store *store, struct redis_stats *stats);
/** Adds counts to a sum, which is up only if all are. */
void redis_stats_add(struct redis_stats *sum, const struct redis_stats *more);

/** `transport` outlives it. ENOMEM. */
int redis_client_open(struct store *store, struct redis_transport *transport,
                      struct store_client **out);
/** Completes its operations first, with ESTORE. */
void redis_client_close(struct store_client *client);
/**
 * Begins to stop a client: it returns its chunks to Redis and takes no more. Serve it until
 * redis_client_command_count is 0, as long as time allows.
 */
void redis_client_stop(struct store_client *client);
/**
 * For a transport without an event loop, at the start of a call: the client reads the clock anew. A
 * flush ends a reading, too, but a call that needs nothing from Redis reaches no flush.
 */
void redis_client_begin(struct store_client *client);
/** At the end of an iteration of the loop: sends the operations that were submitted. */
void redis_client_flush(struct store_client *client);
/** Call it when the transport's alarm is due. */
void redis_client_tick(struct store_client *client, uint64_t monotonic_ns);
/** The number of commands whose operations were submitted and are not complete. */
size_t redis_client_command_count(const struct store_client *client);
/**
 * Whether the client awaits anything of Redis, even if only the reply to a recovery check: for
 * transports that block.
 */
bool redis_client_is_awaited(const struct store_client *client);

#endif
