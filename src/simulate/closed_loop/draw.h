/*
 * draw.h: draws random numbers from a seed, for the real server and simulated ones.
 */
#ifndef SIMULATE_DRAW_H
#define SIMULATE_DRAW_H

#include <math.h>
#include <stdint.h>

/* A random number from 0 to below 1, the same in each run for a seed and a number. */
static inline double draw(uint64_t seed, uint64_t number)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + number;

	for (int i = 0; i < 2; i++) { /* splitmix64 */
		x += UINT64_C(0x9e3779b97f4a7c15);
		x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
		x ^= x >> 31;
	}
	return (double)(x >> 11) / (double)(UINT64_C(1) << 53);
}

/* An exponential draw of mean 1, from a uniform one. */
static inline double exponential(double uniform)
{
	return -log1p(-uniform);
}

#endif
