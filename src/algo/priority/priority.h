/*
 * priority.h: the requests that go first when a share of all is shed.
 *
 * A request has a priority from 0, the highest, to 9. A limit that sheds a share keeps the total
 * share, and takes it from the lowest priorities of the recent demand: a class loses nothing as
 * long as it is enough to shed all classes below it.
 */
#ifndef ALGO_PRIORITY_PRIORITY_H
#define ALGO_PRIORITY_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#define PRIORITY_LOWEST  WEIR_PRIORITY_LOWEST
#define PRIORITY_CLASSES (PRIORITY_LOWEST + 1)

/* The demand that counts is that of the last 10 s, ... */
#define PRIORITY_WINDOW_NS (UINT64_C(10) * 1000000000)

/* A share of requests: so many of PRIORITY_ALL draws of 63 bits. */
#define PRIORITY_ALL (UINT64_C(1) << 63)

/* ... requests by priority, passed and shed, each below 2^60. */
struct priority_demand {
	uint64_t calls[PRIORITY_CLASSES];
};

/**
 * The share that a class loses where `share` of all is shed: the rest of it once all lower classes
 * are shed whole, between none and all. Rounded down, which is less than one request of each
 * 2^63 / demand. Demand that is counted includes the request that asks; without any, it is `share`.
 */
uint64_t priority_share(uint64_t share, const struct priority_demand *demand, unsigned priority);

/** Whether a request with such a draw, 64 fair bits, is among that share. */
static inline bool priority_is_in(uint64_t share, uint64_t draw)
{
	return draw >> 1 < share;
}

#endif
