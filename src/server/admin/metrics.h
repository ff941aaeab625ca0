/*
 * metrics.h: counts for the operator, and renders the page that Prometheus reads.
 *
 * Each loop is the only writer of its own cache lines, so it counts with plain relaxed loads and
 * stores; a scrape adds them up. A limit's counters belong to its name, so they survive reloads.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/outcomes/breaker_state.h"
#include "base/buffer.h"
#include "base/os/os.h"
#include "redis/redis.h"
#include "server/admin/named_counters.h"

enum metrics_protocol { METRICS_HTTP, METRICS_RESP, METRICS_PROTOCOL_COUNT };

enum metrics_histogram {
	METRICS_DURATION,    /* of requests, in ns */
	METRICS_INTAKE_SIZE, /* requests that were decided together */
	METRICS_WAIT,        /* of pending answers, in ns */
	METRICS_HISTOGRAM_COUNT
};

/* The counted uses of permits. */
enum metrics_permit {
	METRICS_PERMIT_HANDED_OUT,
	METRICS_PERMIT_REFUNDED,
	METRICS_PERMIT_REPORTED,
	METRICS_PERMIT_NOT_HELD, /* refunded or reported too late, or twice */
	METRICS_PERMIT_COUNT
};

#define METRICS_BUCKETS_MAX 14

/* The number of statuses, with WEIR_OK. */
enum {
#define METRICS_ONE(name, value, text) +1
	METRICS_STATUS_COUNT = WEIR_STATUS_LIST(METRICS_ONE)
#undef METRICS_ONE
};

/* The counters of one loop. */
struct metrics_loop {
	alignas(64) _Atomic uint64_t requests[METRICS_PROTOCOL_COUNT];
	_Atomic uint64_t errors[METRICS_PROTOCOL_COUNT][METRICS_STATUS_COUNT]; /* by -status */
	_Atomic uint64_t permits[METRICS_PERMIT_COUNT];
	struct {
		_Atomic uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* the last one is above all bounds */
		_Atomic uint64_t sum;
	} histograms[METRICS_HISTOGRAM_COUNT];
	_Atomic uint64_t pending_answers; /* pending answers now */
	_Atomic uint64_t cancelled;       /* answers whose client left before */
	_Atomic uint64_t continued;       /* counts a batch once for each iteration that continues it */
	_Atomic uint64_t denials_left_out;  /* of the sample of denials */
	_Atomic uint64_t transaction_bytes; /* of codec_bounds.session_bytes, now */
};

#define METRICS_FAILURE_COUNT 3 /* enum rules_failure */

/* The counters of one limit in one loop. */
struct metrics_counts {
	alignas(64) _Atomic uint64_t decisions[2][WEIR_REASON_COUNT][2]; /* [shadow][reason][allowed] */
	/* of its store, by the policy that was applied */
	_Atomic uint64_t failures[METRICS_FAILURE_COUNT];
	_Atomic uint64_t phase_changes[BREAKER_PHASE_COUNT]; /* of its keys, by the new phase */
	_Atomic uint64_t withheld; /* permits that no proxy could have reported */
};

/* The answers of one rule in one loop to Koala's clients. */
struct metrics_answers {
	alignas(64) _Atomic uint64_t answers[2]; /* [allowed] */
};

struct metrics;

/* A store at Redis, or the sum of stores with the same name. */
struct metrics_store {
	const char *name;
	struct redis_stats stats;
};

/* How many keys of a limit are in each phase now. */
struct metrics_phases {
	const struct named_counters *limit;
	uint64_t counts[BREAKER_PHASE_COUNT];
};

/* Figures that are read at the time of a scrape instead of counted here. */
struct metrics_now {
	size_t connections, connections_reserved, connections_max;
	uint64_t connections_rejected;
	uint64_t log_lines_dropped;
	uint64_t denials_lost; /* of their file */
	size_t event_streams;
	struct weir_table_stats table;
	struct os_usage usage;
	const struct metrics_store *stores;
	size_t store_count;
	const struct metrics_phases *phases;
	size_t phases_count;
};

struct metrics *metrics_open(size_t loops); /* NULL if memory is short */
void metrics_close(struct metrics *metrics);

/** The counters of loop `index`. */
struct metrics_loop *metrics_loop(struct metrics *metrics, size_t index);

/**
 * Finds or makes the counters of a limit or a rule; NULL if memory is short. One thread at a time.
 */
struct named_counters *metrics_limit(struct metrics *metrics, const char *name);
struct named_counters *metrics_rule(struct metrics *metrics, const char *name);
/** The newest of all limits that were ever configured, from which a thread may walk to the others.
 */
const struct named_counters *metrics_first_limit(const struct metrics *metrics);
size_t metrics_loop_count(const struct metrics *metrics);
/** The sum of all loops. */
uint64_t metrics_answered(const struct metrics *metrics, const struct named_counters *rule,
                          bool allowed);

static inline struct metrics_counts *metrics_counts_of(const struct named_counters *limit,
                                                       size_t loop)
{
	return (struct metrics_counts *)limit->loops + loop;
}

static inline struct metrics_answers *metrics_answers_of(const struct named_counters *rule,
                                                         size_t loop)
{
	return (struct metrics_answers *)rule->loops + loop;
}

/** The sum over all loops of the counter at `offset` of struct metrics_loop. */
uint64_t metrics_loop_sum(const struct metrics *metrics, size_t offset);

/** Counts a reload at `wall_ns`. Loading at the start is not counted. */
void metrics_count_reload(struct metrics *metrics, bool success, uint64_t wall_ns);

/** Renders the page in text format 0.0.4. Any thread may call it. */
void metrics_render(struct metrics *metrics, const struct metrics_now *now, struct buffer *out);

static inline uint64_t metrics_read(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/** Called by the loop that owns `counter`. */
static inline void metrics_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** Adds `n` observations of `value`. Called by the loop that owns the counters. */
void metrics_observe(struct metrics_loop *loop, enum metrics_histogram histogram, uint64_t value,
                     uint64_t n);

#endif
