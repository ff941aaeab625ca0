/*
 * smallest.h: searches for the smallest number that fits, by trying several at once.
 *
 * The search ends at a number that fits while the one below it does not. That is the smallest of
 * all if every number above one that fits does, too. This holds for limits: at each time, a larger
 * count has allowed a key at least as many requests as a smaller one.
 *
 * Sketch of the proof, for requests of cost 1. A limit allows a request if the requests that its
 * key was allowed recently, weighted by their age, leave capacity. Weights only fall with age, and
 * the capacity grows with the count. Let the larger limit be the first to fall behind, at some
 * request: so far both allowed equally many, and before each earlier time the larger one at least
 * as many. Its requests are then no younger, and weigh no more, and it has more capacity: it allows
 * the request, too. Windows that begin with a key's first request begin alike, since both allow
 * that one.
 *
 * With other costs the smaller limit may deny one large request and have capacity for many small
 * ones in its place. Whether a key has any denial is ordered even then: of a key without one, both
 * limits allowed the same. Where neither holds, the caller tries every smaller number.
 */
#ifndef SIMULATE_SMALLEST_H
#define SIMULATE_SMALLEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMALLEST_AT_ONCE 8

struct smallest {
	uint64_t max;
	uint64_t largest_unfit; /* of the numbers tried; 0 at first */
	uint64_t smallest_fit;  /* of the numbers tried; 0 until there is one */
};

/** Returns how many numbers to try next, ascending; 0 if the search has ended. */
size_t smallest_next(const struct smallest *search, uint64_t numbers[SMALLEST_AT_ONCE]);

/** Reports whether a number fits. Call it for the numbers of smallest_next in order. */
void smallest_report(struct smallest *search, uint64_t number, bool fits);

#endif
