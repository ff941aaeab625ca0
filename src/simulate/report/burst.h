/*
 * burst.h: the most that one key was granted in any sliding period.
 *
 * Exact, from a log of each key's last period: a time and what was granted at
 * it. A key with more than BURST_LOG_MAX different times in a period, or that
 * comes when the logs have taken BURST_BYTES_PER_KEY of all keys' memory
 * together, is counted in slots from then on: too high by at most what it was
 * granted in one slot. Keys past the most that may be tracked are not.
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
	uint64_t estimated; /* of them counted in slots */
	uint64_t untracked; /* calls for keys that are not tracked */
};

/** `keys_max` at least 1. Returns NULL if out of memory. */
struct burst *burst_open(uint64_t period_ns, uint64_t keys_max);
void burst_close(struct burst *burst);

/** Starts fetching a key, then, best some keys later, its log: what burst_add will need. */
void burst_prefetch(const struct burst *burst, uint64_t hash);
void burst_prefetch_log(const struct burst *burst, uint64_t hash);

/**
 * A request of the key with this hash: `granted` is its cost, or 0, at `at_ns`, its
 * turn. A key's turns never go back, but where its state was evicted: what would
 * pass before another of its key counts with that one. Keys need no order among
 * them. Returns what the key was granted in the period that ends then, the start
 * not included; where that is not more than `least`, it may return any such number.
 */
uint64_t burst_add(struct burst *burst, uint64_t hash, uint64_t at_ns, uint64_t granted,
                   uint64_t least);

struct burst_stats burst_stats(const struct burst *burst);

#endif
