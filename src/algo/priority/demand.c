/*
 * demand.c: counts a limit's recent requests of each priority, over the last DEMAND_PARTS parts of
 * time. Threads count without a lock, so a count may be off by a few requests.
 */
#include "algo/priority/demand.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"

struct demand *demand_open(void)
{
	struct demand *demand = aligned_alloc(_Alignof(struct demand), sizeof *demand);

	if (demand)
		memset(demand, 0, sizeof *demand);
	return demand;
}

void demand_close(struct demand *demand)
{
	free(demand);
}

static uint64_t load_relaxed(const _Atomic uint64_t *number)
{
	return atomic_load_explicit((_Atomic uint64_t *)number, memory_order_relaxed);
}

void demand_copy(struct demand *to, const struct demand *from)
{
	to->lower_until_ns = load_relaxed(&from->lower_until_ns);
	to->part = load_relaxed(&from->part);
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		for (unsigned i = 0; i < DEMAND_PARTS; i++) {
			to->calls[i][c] = load_relaxed(&from->calls[i][c]);
			to->totals[c] += to->calls[i][c];
		}
}

/*
 * The number of parts that have begun since `newest`. If `newest` is ahead: none if this clock only
 * lags, but all if it is so far ahead that the clock was set back.
 */
static uint64_t parts_begun_since(uint64_t newest, uint64_t part)
{
	if (part > newest)
		return u64_min(part - newest, DEMAND_PARTS);
	return newest - part > DEMAND_PARTS ? DEMAND_PARTS : 0;
}

/* Clears the counts of the oldest part, whose array elements a part that begins now will use. */
static void clear_oldest_part(struct demand *demand, uint64_t part)
{
	_Atomic uint64_t *calls = demand->calls[part % DEMAND_PARTS];

	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		atomic_fetch_sub_explicit(&demand->totals[c],
		                          atomic_exchange_explicit(&calls[c], 0, memory_order_relaxed),
		                          memory_order_relaxed);
}

/* Makes `part` the newest, and clears the parts that begin. Other threads count on meanwhile. */
static void advance_newest_part(struct demand *demand, uint64_t part)
{
	uint64_t newest = load_relaxed(&demand->part), begun = parts_begun_since(newest, part);

	if (begun == 0 || !atomic_compare_exchange_strong_explicit(
	                      &demand->part, &newest, part, memory_order_relaxed, memory_order_relaxed))
		return;
	for (uint64_t i = 0; i < begun; i++)
		clear_oldest_part(demand, part + DEMAND_PARTS - i);
}

/*
 * Sets the time until which requests of priority 0 must be counted, too: that at which a request of
 * a lower priority, counted in `part`, leaves the window.
 */
static void extend_lower_until(struct demand *demand, uint64_t part)
{
	uint64_t leaves_ns = (part + DEMAND_PARTS) * DEMAND_PART_NS;

	if (load_relaxed(&demand->lower_until_ns) != leaves_ns)
		atomic_store_explicit(&demand->lower_until_ns, leaves_ns, memory_order_relaxed);
}

/*
 * Counts a request, and returns the recent requests of each priority. Adds to the total before the
 * part, while clear_oldest_part clears the part first: so no total gets below 0.
 */
struct priority_demand demand_add(struct demand *demand, unsigned priority, uint64_t now_ns)
{
	uint64_t part;
	struct priority_demand all;

	advance_newest_part(demand, now_ns / DEMAND_PART_NS);
	part = load_relaxed(&demand->part);
	if (priority != 0)
		extend_lower_until(demand, part);
	atomic_fetch_add_explicit(&demand->totals[priority], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&demand->calls[part % DEMAND_PARTS][priority], 1,
	                          memory_order_relaxed);
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		all.calls[c] = load_relaxed(&demand->totals[c]);
	return all;
}

/* Returns what demand_add would, without a change. */
struct priority_demand demand_peek(const struct demand *demand, unsigned priority, uint64_t now_ns)
{
	uint64_t newest = load_relaxed(&demand->part),
	         begun = parts_begun_since(newest, now_ns / DEMAND_PART_NS);
	struct priority_demand all = {{0}};

	all.calls[priority] = 1;
	for (uint64_t i = 0; i + begun < DEMAND_PARTS; i++)
		for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
			all.calls[c] +=
			    load_relaxed(&demand->calls[(newest + DEMAND_PARTS - i) % DEMAND_PARTS][c]);
	return all;
}
