/*
 * spans.h: looks addresses up in a set of ranges, which is made once, in a few reads.
 *
 * The ranges are sorted and do not touch each other. Above them are levels of every SPANS_FAN-th
 * first address: a search reads SPANS_FAN of each level, from the top, and then as many ranges.
 * The levels take an eighth of the ranges' memory and are mostly in the cache.
 */
#ifndef RULES_SPANS_H
#define RULES_SPANS_H

#include "base/network/ip.h"

#define SPANS_FAN        16
#define SPANS_LEVELS_MAX 8 /* of 2^32 ranges */

typedef unsigned __int128 spans_address;

struct span {
	spans_address first, last;
};

struct spans {
	struct span *items;
	size_t count, room, size; /* items; items; bytes of `items` */
	spans_address *levels[SPANS_LEVELS_MAX]; /* the lowest first */
	size_t level_counts[SPANS_LEVELS_MAX], level_count;
	size_t levels_size; /* bytes of all, which levels[0] begins */
};

/** Allocates space for up to `most` ranges. Returns 0 or ENOMEM. */
int spans_open(struct spans *spans, size_t most);
void spans_add(struct spans *spans, const struct ip_range *range);
/** Call it when all ranges are added: only then are they found. Returns 0 or ENOMEM. */
int spans_sort(struct spans *spans);
void spans_close(struct spans *spans);

bool spans_have(const struct spans *spans, const struct ip *ip);

#endif
