/* prng.h: draws random numbers, not for secrets, from a generator that each thread has. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdint.h>

/**
 * Advances a state of the caller's and returns 64 bits, by SplitMix64 (Steele, Lea, Flood 2014).
 * Every state is a good seed.
 */
uint64_t prng_step(uint64_t *state);

/** Returns 64 uniformly distributed bits from this thread's state. */
uint64_t prng_next(void);

/** Returns a number from 0 to below 1, uniformly distributed. */
double prng_fraction(void);

/** Seeds this thread's state. Without a call the system's random source seeds it. */
void prng_seed(uint64_t seed);

#endif
