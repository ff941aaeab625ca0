/*
 * node_availability.h: records for all clients whether a node can be used: one failure makes it
 * unavailable, and one recovery check a second finds out when it has recovered. It takes no lock.
 *
 * A node is available until a client reports a failure. From then on no client sends it commands,
 * until a client that has claimed a recovery check reports success.
 */
#ifndef REDIS_NODE_AVAILABILITY_H
#define REDIS_NODE_AVAILABILITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RECOVERY_CHECK_NS UINT64_C(1000000000) /* between two checks by any clients */

/* All zeros mean available. */
struct availability {
	_Atomic bool unavailable;
	/* When the next check of an unavailable node is due, by the monotonic clock. */
	_Atomic uint64_t check_ns;
	_Atomic uint64_t era;         /* how often the node became unavailable */
	_Atomic bool refuses_scripts; /* Redis refused to load a script, or a command within one */
};

static inline bool availability_is_up(const struct availability *availability)
{
	return !atomic_load_explicit(&availability->unavailable, memory_order_acquire);
}

/** When the next check is due. */
static inline uint64_t availability_check_ns(const struct availability *availability)
{
	return atomic_load_explicit(&availability->check_ns, memory_order_relaxed);
}

/**
 * Changes each time the node becomes unavailable. A connection from an earlier era proves nothing
 * about the present: its address may lead to another Redis now, or its Redis may have become a
 * replica.
 */
static inline uint64_t availability_era(const struct availability *availability)
{
	return atomic_load_explicit(&availability->era, memory_order_relaxed);
}

/**
 * Makes the node unavailable; the first check is due at that time, or later if one was claimed.
 * Whether the node was available.
 */
bool availability_fail(struct availability *availability, uint64_t check_ns);
/** Whether the caller has to check now: only one client does in RECOVERY_CHECK_NS. */
bool availability_claim_check(struct availability *availability, uint64_t now_ns);
/** A check has succeeded. Whether the node was unavailable. */
bool availability_restore(struct availability *availability);

#endif
