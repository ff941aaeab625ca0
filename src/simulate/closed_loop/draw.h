/*
 * draw.h: draws random numbers and service times from a seed, for the real server and simulated
 * ones.
 */
#ifndef SIMULATE_DRAW_H
#define SIMULATE_DRAW_H

#include <math.h>
#include <stdint.h>
#include <string.h>

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

/* A service time in means, from a uniform draw. */
typedef double service_time(double uniform);

static inline double exponential(double uniform)
{
	return -log1p(-uniform);
}

static inline double constant(double uniform)
{
	(void)uniform;
	return 1;
}

/* One of ten takes 19 times as long as the others. */
static inline double bimodal(double uniform)
{
	return uniform < 0.1 ? 19 / 2.8 : 1 / 2.8;
}

/* Returns NULL if there is none of that name. */
static inline service_time *service_named(const char *name)
{
	static const struct {
		const char *name;
		service_time *draw;
	} services[] = {{"exponential", exponential}, {"constant", constant}, {"bimodal", bimodal}};

	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (strcmp(name, services[i].name) == 0)
			return services[i].draw;
	return NULL;
}

#endif
