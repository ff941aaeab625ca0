/*
 * demand.h: counts the requests of the last 10 s by priority, for a limit that sheds a share of
 * all.
 *
 * Time is split into parts of a second; the current part and the nine before it count. Requests of
 * priority 0 are counted only while the window has a request of another priority: as long as all
 * have the same priority, their number makes no difference, so they need not write.
 *
 * Any number of threads count at the same time, without a lock. A request that another thread
 * counts just when a part begins may be missed.
 */
#ifndef ALGO_PRIORITY_DEMAND_H
#define ALGO_PRIORITY_DEMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "algo/priority/priority.h"

#define DEMAND_PARTS   10
#define DEMAND_PART_NS (PRIORITY_WINDOW_NS / DEMAND_PARTS)

struct demand {
	_Atomic uint64_t lower_until_ns; /* end of the last count of a priority that is not 0 */
	/* On other cache lines, which threads that only read lower_until_ns do not need. */
	_Alignas(64) _Atomic uint64_t part; /* number of the newest part */
	_Atomic uint64_t totals[PRIORITY_CLASSES];
	_Atomic uint64_t calls[DEMAND_PARTS][PRIORITY_CLASSES]; /* by part modulo DEMAND_PARTS */
};

/** Allocates a demand without requests. Returns NULL if there is no memory. */
struct demand *demand_open(void);
void demand_close(struct demand *demand);

/** Copies the demand of `from` to `to`, which no other thread uses yet. */
void demand_copy(struct demand *to, const struct demand *from);

/** Whether a request of this priority must be counted, and the counts decide. */
static inline bool demand_matters(const struct demand *demand, unsigned priority, uint64_t now_ns)
{
	return priority != 0 ||
	       __builtin_expect(
	           atomic_load_explicit(&demand->lower_until_ns, memory_order_relaxed) > now_ns, 0);
}

/** Counts one request and returns the demand. A clock that lags counts in the newest part. */
struct priority_demand demand_add(struct demand *demand, unsigned priority, uint64_t now_ns);

/** Returns the demand that demand_add would return. Changes nothing. */
struct priority_demand demand_peek(const struct demand *demand, unsigned priority, uint64_t now_ns);

#endif
