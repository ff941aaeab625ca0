/*
 * priority.h: computes the share that each priority loses if a limit sheds a share of all requests.
 *
 * A request has a priority from 0, the highest, to 9. All requests of one priority are a class. The
 * share of all requests falls on the lowest classes of the recent demand: a class loses nothing as
 * long as it is enough to shed all classes below it.
 */
#ifndef ALGO_PRIORITY_PRIORITY_H
#define ALGO_PRIORITY_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#define PRIORITY_LOWEST  WEIR_PRIORITY_LOWEST
#define PRIORITY_CLASSES (PRIORITY_LOWEST + 1)

/* The demand is that of the last 10 s. */
#define PRIORITY_WINDOW_NS (UINT64_C(10) * 1000000000)

/* A share of requests is a number of draws of 63 bits: PRIORITY_ALL is the share 1. */
#define PRIORITY_ALL (UINT64_C(1) << 63)

/* Requests by priority, passed and shed together, each below 2^60. */
struct priority_demand {
	uint64_t calls[PRIORITY_CLASSES];
};

/**
 * The share that a class loses if `share` of all requests is shed: the rest of it after all
 * lower classes are shed whole, between none and all. Rounded down, by less than one request of
 * each 2^63 / demand. `demand` includes the new request; if it is empty, the result is `share`.
 */
uint64_t priority_share(uint64_t share, const struct priority_demand *demand, unsigned priority);

/** Whether a request with this draw, 64 fair random bits, is in the share. */
static inline bool priority_is_in(uint64_t share, uint64_t draw)
{
	return draw >> 1 < share;
}

#endif
