/*
 * hits.h: counts the requests and the denied requests of each key. A key is "hit" if any is denied.
 *
 * At most `keys_max` keys are counted. A count stops at UINT32_MAX.
 */
#ifndef SIMULATE_HITS_H
#define SIMULATE_HITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct hits {
	struct map keys; /* that have sent requests */
	uint64_t hit;    /* number of keys with a denied request */
};

/* Percentiles of a count over keys; 0 without keys. */
struct hits_spread {
	uint64_t p50, p90, p99, max;
};

void hits_open(struct hits *hits, uint64_t keys_max);
void hits_close(struct hits *hits);

/** Counts a request of the key with this hash. */
void hits_add(struct hits *hits, uint64_t hash, bool denied);

/**
 * Sets the percentiles of requests per key, and of denied requests per hit key. Returns false if
 * out of memory.
 */
bool hits_spreads(const struct hits *hits, struct hits_spread *asked, struct hits_spread *denied);

#endif
