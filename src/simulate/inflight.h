/*
 * inflight.h: a queue of a scenario's requests that have passed but not ended, by the time they
 * end.
 *
 * Memory is bounded: beyond INFLIGHT_MAX requests the caller ends the next one early.
 */
#ifndef SIMULATE_INFLIGHT_H
#define SIMULATE_INFLIGHT_H

#include <weir/weir.h>

#include "base/heap.h"

#define INFLIGHT_MAX ((size_t)1 << 18)

struct inflight {
	struct heap heap;
};

/* How a request that is in flight will end. */
struct request_end {
	uint64_t latency_ns; /* 0 if not known */
	enum weir_outcome outcome;
	uint64_t permits_end_ns; /* when they expire by themselves */
	struct weir_permits permits;
};

/** Adds a request that ends at `due_ns`. Returns false if out of memory. */
bool inflight_add(struct inflight *inflight, uint64_t due_ns, const struct request_end *end);

/** When the next request ends; UINT64_MAX if there is none. */
static inline uint64_t inflight_due_ns(const struct inflight *inflight)
{
	const struct heap_node *first = heap_first(&inflight->heap);

	return first ? first->due : UINT64_MAX;
}

static inline bool inflight_is_full(const struct inflight *inflight)
{
	return inflight->heap.count >= INFLIGHT_MAX;
}

/** Removes and returns the request that ends next. There must be one. */
struct request_end inflight_pop(struct inflight *inflight);

void inflight_close(struct inflight *inflight);

#endif
