/*
 * metrics.h: counters, and the page that Prometheus reads.
 *
 * Each loop is the only writer of its own cache lines, so it counts with plain relaxed
 * loads and stores; a scrape sums them up. A limit's counters belong to its name, so they
 * survive reloads.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/outcomes/health.h"
#include "base/buffer.h"
#include "base/os/os.h"
#include "redis/redis.h"
#include "server/admin/named_counters.h"

enum metrics_protocol { METRICS_HTTP, METRICS_RESP, METRICS_PROTOCOL_COUNT };

enum metrics_histogram {
	METRICS_DURATION,    /* ns, by request */
	METRICS_INTAKE_SIZE, /* requests, by how many were decided together */
	METRICS_WAIT,        /* ns, by answer that was held */
	METRICS_HISTOGRAM_COUNT
};

/* The fates of permits. */
enum metrics_permit {
	METRICS_PERMIT_HANDED_OUT,
	METRICS_PERMIT_REFUNDED,
	METRICS_PERMIT_REPORTED,
	METRICS_PERMIT_NOT_HELD, /* refunded or reported too late, or again */
	METRICS_PERMIT_COUNT
};

#define METRICS_BUCKETS_MAX 14

/* The statuses, WEIR_OK too. */
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
		_Atomic uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* the last: above all bounds */
		_Atomic uint64_t sum;
	} histograms[METRICS_HISTOGRAM_COUNT];
	_Atomic uint64_t pending_answers; /* answers, now */
	_Atomic uint64_t cancelled; /* of those held: the client left */
	_Atomic uint64_t continued; /* batches, once for each turn that they went on in */
	_Atomic uint64_t transaction_bytes; /* bytes, now: of codec_bounds.session_bytes */
};

#define METRICS_FAILURE_COUNT 3 /* enum rules_failure */

/* The counters of one limit in one loop. */
struct metrics_counts {
	alignas(64) _Atomic uint64_t decisions[2][WEIR_REASON_COUNT][2]; /* [shadow][reason][allowed] */
	_Atomic uint64_t failures[METRICS_FAILURE_COUNT]; /* of its store, by what happened instead */
	_Atomic uint64_t phase_changes[HEALTH_PHASE_COUNT]; /* of its keys, by the phase they came to */
	_Atomic uint64_t withheld; /* permits that no proxy could have reported */
};

/* The answers of one rule in one loop to Koala's callers: decided, or passed on. */
struct metrics_answers {
	alignas(64) _Atomic uint64_t answers[2]; /* [allowed] */
};

struct metrics;

/* A store at Redis, under its name; of several with one name their sums. */
struct metrics_store {
	const char *name;
	struct redis_stats stats;
};

/* For a limit with phases: the number of keys in each phase now. */
struct metrics_phases {
	const struct named_counters *limit;
	uint64_t counts[HEALTH_PHASE_COUNT];
};

/* Figures that are not counted here but known at the time of a scrape. */
struct metrics_now {
	size_t connections, connections_reserved, connections_max;
	uint64_t connections_rejected;
	uint64_t log_lines_dropped;
	size_t event_streams;
	struct weir_table_stats table;
	struct os_usage usage;
	const struct metrics_store *stores;
	size_t store_count;
	const struct metrics_phases *phases;
	size_t phases_count;
};

struct metrics *metrics_open(size_t loops); /* NULL: out of memory */
void metrics_close(struct metrics *metrics);

/** The counters of loop `index`. */
struct metrics_loop *metrics_loop(struct metrics *metrics, size_t index);

/** Finds or makes the counters of a limit or a rule; NULL: out of memory. One thread at a time. */
struct named_counters *metrics_limit(struct metrics *metrics, const char *name);
struct named_counters *metrics_rule(struct metrics *metrics, const char *name);
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

/** At `wall_ns`. What is loaded at the start is a success that is not counted. */
void metrics_count_reload(struct metrics *metrics, bool success, uint64_t wall_ns);

/** The page, text format 0.0.4. Any thread. */
void metrics_render(struct metrics *metrics, const struct metrics_now *now, struct buffer *out);

/** For the loop that owns `counter`. */
static inline void metrics_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** `n` times `value`. For the loop that owns it. */
void metrics_observe(struct metrics_loop *loop, enum metrics_histogram histogram, uint64_t value,
                     uint64_t n);

#endif
