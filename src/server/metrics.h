/*
 * metrics.h: counters, and the page that Prometheus reads.
 *
 * Each loop counts on its own cache lines, with plain relaxed loads and stores,
 * for it is their only writer; a scrape sums them up. A limit's counters belong
 * to its name, so they survive reloads.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/buffer.h"

enum metrics_protocol { METRICS_HTTP, METRICS_RESP, METRICS_PROTOCOL_COUNT };
enum metrics_answer { METRICS_REQUESTS, METRICS_ERRORS, METRICS_ANSWER_COUNT };

#define METRICS_BUCKETS 14

/* Of one loop. */
struct metrics_loop {
	alignas(64) _Atomic uint64_t answers[METRICS_ANSWER_COUNT][METRICS_PROTOCOL_COUNT];
	_Atomic uint64_t durations[METRICS_BUCKETS + 1]; /* the last: longer than all bounds */
	_Atomic uint64_t duration_ns;
};

/* Of one limit in one loop. */
struct metrics_counts {
	alignas(64) _Atomic uint64_t decisions[2][2][WEIR_REASON_COUNT]; /* [shadow][allowed][reason] */
};

struct metrics_limit {
	struct metrics_limit *next;
	char *name;
	struct metrics_counts *loops;
};

struct metrics;

/* What is not counted here but known at the time of a scrape. */
struct metrics_now {
	size_t connections;
	uint64_t connections_rejected;
	struct weir_table_stats table;
};

struct metrics *metrics_open(size_t loops); /* NULL: out of memory */
void metrics_close(struct metrics *metrics);

/** The counters of loop `index`. */
struct metrics_loop *metrics_loop(struct metrics *metrics, size_t index);

/** Finds or makes the counters of `name`; NULL: out of memory. One thread at a time. */
struct metrics_limit *metrics_limit(struct metrics *metrics, const char *name);

void metrics_count_reload(struct metrics *metrics, bool success);

/** The page, text format 0.0.4. Any thread. */
void metrics_render(struct metrics *metrics, const struct metrics_now *now, struct buffer *out);

/** For the loop that owns `counter`. */
static inline void metrics_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** `n` requests that took `duration_ns` each. */
void metrics_count_duration(struct metrics_loop *loop, uint64_t duration_ns, uint64_t n);

#endif
