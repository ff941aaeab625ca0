#include "redis/nodes/node_health.h"

bool health_fail(struct health *health, uint64_t probe_ns)
{
	if (!health_is_up(health))
		return false;
	/* Before `unavailable`: a client that sees that it is unavailable may claim the probe. */
	if (probe_ns > health_probe_ns(health))
		atomic_store_explicit(&health->probe_ns, probe_ns, memory_order_relaxed);
	/* Also before: a client that sees it back must see the new era. */
	atomic_fetch_add_explicit(&health->era, 1, memory_order_relaxed);
	return !atomic_exchange_explicit(&health->unavailable, true, memory_order_acq_rel);
}

bool health_claim(struct health *health, uint64_t now_ns)
{
	uint64_t due_ns = health_probe_ns(health);

	return !health_is_up(health) && due_ns <= now_ns &&
	       atomic_compare_exchange_strong_explicit(&health->probe_ns, &due_ns,
	                                               now_ns + HEALTH_PROBE_NS, memory_order_relaxed,
	                                               memory_order_relaxed);
}

bool health_recover(struct health *health)
{
	return atomic_exchange_explicit(&health->unavailable, false, memory_order_acq_rel);
}
