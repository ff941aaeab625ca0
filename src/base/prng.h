/* prng.h: draws random numbers from a generator that each thread has for itself. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdint.h>

/** 64 bits by SplitMix64 (Steele, Lea, Flood 2014): every state is a good seed. */
uint64_t prng_step(uint64_t *state);

/** 64 fair bits; fit for shedding load, not for secrets. */
uint64_t prng_next(void);

/** Fair, from 0 to below 1. */
double prng_fraction(void);

/** This thread's draws follow from `seed`; without a call, from the system's random source. */
void prng_seed(uint64_t seed);

#endif
