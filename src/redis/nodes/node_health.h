/*
 * node_health.h: whether a Redis is there, for all clients: by one failure, and one probe a second,
 * without a lock.
 *
 * It is up until a client reports a failure. From then on no client sends steps, until a client
 * that has claimed a probe finds that it has recovered.
 */
#ifndef REDIS_NODE_HEALTH_H
#define REDIS_NODE_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HEALTH_PROBE_NS UINT64_C(1000000000) /* between two probes, of all clients together */

/* Zero: up. */
struct health {
	_Atomic bool unavailable;
	_Atomic uint64_t probe_ns; /* unavailable: when the next probe is due, by the monotonic clock */
	_Atomic uint64_t era;      /* how often it was found unavailable */
	_Atomic bool runs_none;    /* it refused what a script does, or to load one */
};

static inline bool health_is_up(const struct health *health)
{
	return !atomic_load_explicit(&health->unavailable, memory_order_acquire);
}

/** When the next probe is due. */
static inline uint64_t health_probe_ns(const struct health *health)
{
	return atomic_load_explicit(&health->probe_ns, memory_order_relaxed);
}

/**
 * A connection that was opened in an earlier era says nothing of what is there now: the address
 * may lead to another Redis, or this one may be a replica since.
 */
static inline uint64_t health_era(const struct health *health)
{
	return atomic_load_explicit(&health->era, memory_order_relaxed);
}

/** It is unavailable; the first probe is due then, or later after another. Whether it was up. */
bool health_fail(struct health *health, uint64_t probe_ns);
/** Whether the caller is to probe now: of all clients that ask, one in HEALTH_PROBE_NS. */
bool health_claim(struct health *health, uint64_t now_ns);
/** A probe has succeeded. Whether it was unavailable. */
bool health_recover(struct health *health);

#endif
