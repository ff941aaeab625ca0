/*
 * node_availability.c: records for all clients of a store, without a lock, whether a node can be
 * used, and lets one client a second check whether an unavailable node has recovered.
 */
#include "redis/nodes/node_availability.h"

/* Makes the node unavailable. Returns whether it was available. */
bool availability_fail(struct availability *availability, uint64_t check_ns)
{
	if (!availability_is_up(availability))
		return false;
	/* Before `unavailable`: a client that reads it may claim the check at once. */
	if (check_ns > availability_check_ns(availability))
		atomic_store_explicit(&availability->check_ns, check_ns, memory_order_relaxed);
	/* Also before: a client that reads a recovery must read the new era. */
	atomic_fetch_add_explicit(&availability->era, 1, memory_order_relaxed);
	return !atomic_exchange_explicit(&availability->unavailable, true, memory_order_acq_rel);
}

/* Whether the caller has to check the node now; of several clients one gets true. */
bool availability_claim_check(struct availability *availability, uint64_t now_ns)
{
	uint64_t due_ns = availability_check_ns(availability);

	return !availability_is_up(availability) && due_ns <= now_ns &&
	       atomic_compare_exchange_strong_explicit(&availability->check_ns, &due_ns,
	                                               now_ns + RECOVERY_CHECK_NS, memory_order_relaxed,
	                                               memory_order_relaxed);
}

/* Makes the node available. Returns whether it was unavailable. */
bool availability_restore(struct availability *availability)
{
	return atomic_exchange_explicit(&availability->unavailable, false, memory_order_acq_rel);
}
