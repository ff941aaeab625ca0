/*
 * burst.h: measures how much a key was granted in its last period, at any time (a sliding window).
 *
 * Each key has a log of the grants of its last period, so the result is exact. A key changes to
 * counts in slots if it has more than BURST_LOG_MAX different times in a period, or if all logs
 * together use BURST_BYTES_PER_KEY bytes for each key. Then the result is too high by at most the
 * grants of one slot. At most `keys_max` keys are tracked.
 */
#ifndef SIMULATE_BURST_H
#define SIMULATE_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BURST_LOG_MAX       1024
#define BURST_BYTES_PER_KEY 64

struct burst;

struct burst_stats {
	uint64_t keys;      /* tracked */
	uint64_t estimated; /* keys that are counted in slots */
	uint64_t untracked; /* calls for keys that are not tracked */
};

/** `keys_max` at least 1. Returns NULL if out of memory. */
struct burst *burst_open(uint64_t period_ns, uint64_t keys_max);
void burst_close(struct burst *burst);

/** Prefetch a key, and later its log, for burst_add. Prefetch other keys in between. */
void burst_prefetch(const struct burst *burst, uint64_t hash);
void burst_prefetch_log(const struct burst *burst, uint64_t hash);

/**
 * Counts a request of the key with this hash: `granted` is its cost, or 0 if it was denied, and
 * `at_ns` when it passes. The times of a key must not decrease; if they do, because its state was
 * evicted, the request counts at the latest time of the key. Returns how much the key was granted
 * in the period that ends at `at_ns`, without the start of the period. If that is at
 * most `least_reported`, any number up to it may be returned.
 */
uint64_t burst_add(struct burst *burst, uint64_t hash, uint64_t at_ns, uint64_t granted,
                   uint64_t least_reported);

struct burst_stats burst_stats(const struct burst *burst);

#endif
