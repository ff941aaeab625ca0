/*
 * smallest.h: the smallest number that fits, by trying several at once.
 *
 * It ends at a number that fits while the one below it does not. That is the smallest of all if
 * every number above one that fits does, too. Of limits it holds: a larger count allows whatever a
 * smaller one has allowed to a key so far.
 *
 * Sketch of the proof, for requests of cost 1. A limit allows a request if what its key was
 * allowed lately, each request weighted by its age, leaves room; weights only fall with age, and
 * room grows with the count. Let the larger limit be the first to fall behind, at some request: so
 * far both allowed equally many, and before each earlier time the larger one at least as many. Its
 * requests are then no younger, and weigh no more, and it has more room: it allows the request,
 * too. Windows that begin with a key's first request begin alike, since both allow that one.
 *
 * With other costs the smaller limit may deny one large request and have room for many small ones
 * in its place. Whether a key has any denial is ordered even then: of a key without one, both
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
	uint64_t below; /* does not fit; 0 at first */
	uint64_t fits;  /* fits, and is more than `below`; 0 until one is found */
};

/** The numbers to try next, ascending; 0 if it has ended. */
size_t smallest_next(const struct smallest *search, uint64_t numbers[SMALLEST_AT_ONCE]);

/** Whether a number fits. Those of a round are told in their order. */
void smallest_report(struct smallest *search, uint64_t number, bool fits);

#endif
