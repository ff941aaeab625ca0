/*
 * hits.h: how many requests each key sent, and how many of them were denied.
 *
 * Keys past the most that may be tracked are not counted. A count stops at
 * UINT32_MAX.
 */
#ifndef SIMULATE_HITS_H
#define SIMULATE_HITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct hits {
	struct map keys; /* of those that sent requests */
	uint64_t hit;    /* of them, those with a denied request */
};

/* The number that so many percent of the keys have at most; 0 without keys. */
struct hits_spread {
	uint64_t p50, p90, p99, max;
};

void hits_open(struct hits *hits, uint64_t keys_max);
void hits_close(struct hits *hits);

/** A request of the key with this hash. */
void hits_add(struct hits *hits, uint64_t hash, bool denied);

/**
 * Requests of each key, and denied requests of each key that was hit. Returns false if out of
 * memory.
 */
bool hits_spreads(const struct hits *hits, struct hits_spread *asked, struct hits_spread *denied);

#endif
