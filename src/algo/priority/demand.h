/*
 * demand.h: the requests of the last 10 s by priority, of a limit that sheds a share of all.
 *
 * Time is cut into parts of a second: the current part and the nine before it count. Requests of
 * priority 0 are counted only while the window has a request of another priority. As long as all
 * requests are alike, their number makes no difference, and they write nothing.
 *
 * Any number of threads count at once, without a lock. A request that another thread counts just
 * when a part begins may be missed.
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
	_Atomic uint64_t until_ns; /* so long a priority other than 0 counts, or 0 if none was seen */
	/* On lines that those who only look at until_ns do not need. */
	_Alignas(64) _Atomic uint64_t part; /* the newest */
	_Atomic uint64_t totals[PRIORITY_CLASSES];
	_Atomic uint64_t calls[DEMAND_PARTS][PRIORITY_CLASSES]; /* by part modulo DEMAND_PARTS */
};

/** Makes one without requests. Returns NULL if there is no memory. */
struct demand *demand_open(void);
void demand_close(struct demand *demand);

/** Copies the demand of `from` to `to`, which nobody uses yet. */
void demand_copy(struct demand *to, const struct demand *from);

/** Whether to count a request of this priority and to look at the counts. */
static inline bool demand_matters(const struct demand *demand, unsigned priority, uint64_t now_ns)
{
	return priority != 0 ||
	       __builtin_expect(
	           atomic_load_explicit(&demand->until_ns, memory_order_relaxed) > now_ns, 0);
}

/** Counts one request and returns the demand. A clock that lags counts in the newest part. */
struct priority_demand demand_add(struct demand *demand, unsigned priority, uint64_t now_ns);

/** Returns the demand that demand_add would return. Changes nothing. */
struct priority_demand demand_peek(const struct demand *demand, unsigned priority, uint64_t now_ns);

#endif
