/*
 * warm_up_params.h: declares the parameters of `warm_up` limits, whose letters are explained in the
 * head of warm_up.c.
 */
#ifndef ALGO_RATES_WARM_UP_PARAMS_H
#define ALGO_RATES_WARM_UP_PARAMS_H

#include "algo/algo.h"

#define WARM_UP_MILLI 1000                /* `cold` is exact in thousandths */
#define WARM_UP_WORDS (UINT64_C(1) << 32) /* the values of a state's word */

struct warm_up {
	uint64_t count;       /* of the rate */
	uint64_t p, q;        /* T = p/q ns */
	uint64_t grains;      /* in a nanosecond: q D */
	uint64_t warm_up_ns;  /* W */
	uint64_t max_wait_ns; /* as configured; a limit waits no longer than max_wait() */
	uint32_t parts;       /* in a permit: D */
	uint32_t between;     /* the most parts that are stored after a request: (M - 1) D */
	uint32_t full, deep;  /* the most parts that words say are stored, and that are negative */
	uint32_t a, b;        /* f = a/b in lowest terms */
};

/* Returns b G, where f = a/b: the units of z in a grain. */
static inline uint64_t z_per_grain(const struct warm_up *warm)
{
	return 2 * ((uint64_t)warm->a + warm->b);
}

/* b H: the units of z that are stored in a grain of rest. */
static inline uint64_t z_gain(const struct warm_up *warm)
{
	return warm->a + 5 * (uint64_t)warm->b;
}

/* p b G: the z of a part. */
static inline u128 part_z(const struct warm_up *warm)
{
	return (u128)warm->p * z_per_grain(warm);
}

/**
 * Computes the parameters but for max_wait_ns. Returns false if more than 2^32 permits can be
 * stored.
 */
bool warm_up_derive(struct warm_up *warm, uint64_t count, uint64_t period_ns, uint64_t warm_up_ns,
                    uint64_t cold_milli);

struct algo_layout warm_up_layout(const struct warm_up *warm);
/**
 * Computes the parameters of a former limit of the same period from its layout. Returns false if
 * the layout does not tell them all.
 */
bool warm_up_read_layout(const struct warm_up *limit, uint64_t period_ns,
                         const struct algo_layout *from, struct warm_up *out);

#endif
