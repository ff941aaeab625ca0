/*
 * node_availability.h: whether a Redis is there, for all clients: by one failure, and one probe a
 * second, without a lock.
 *
 * It is up until a client reports a failure. From then on no client sends steps, until a client
 * that has claimed a probe finds that it has recovered.
 */
#ifndef REDIS_NODE_AVAILABILITY_H
#define REDIS_NODE_AVAILABILITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RECOVERY_CHECK_NS UINT64_C(1000000000) /* between two probes, of all clients together */

/* Zero: up. */
struct availability {
	_Atomic bool unavailable;
	_Atomic uint64_t check_ns; /* unavailable: when the next probe is due, by the monotonic clock */
	_Atomic uint64_t era;      /* how often it was found unavailable */
	_Atomic bool refuses_scripts; /* it refused what a script does, or to load one */
};

static inline bool availability_is_up(const struct availability *availability)
{
	return !atomic_load_explicit(&availability->unavailable, memory_order_acquire);
}

/** When the next probe is due. */
static inline uint64_t availability_check_ns(const struct availability *availability)
{
	return atomic_load_explicit(&availability->check_ns, memory_order_relaxed);
}

/**
 * A connection that was opened in an earlier era says nothing of what is there now: the address
 * may lead to another Redis, or this one may be a replica since.
 */
static inline uint64_t availability_era(const struct availability *availability)
{
	return atomic_load_explicit(&availability->era, memory_order_relaxed);
}

/** It is unavailable; the first probe is due then, or later after another. Whether it was up. */
bool availability_fail(struct availability *availability, uint64_t check_ns);
/** Whether the caller is to probe now: of all clients that ask, one in RECOVERY_CHECK_NS. */
bool availability_claim_check(struct availability *availability, uint64_t now_ns);
/** A probe has succeeded. Whether it was unavailable. */
bool availability_restore(struct availability *availability);

#endif
