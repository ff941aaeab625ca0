/* prng.c: generates pseudo-random numbers by SplitMix64, with a state for each thread. */
#include "base/prng.h"

#include <stdbool.h>

#include "base/os/os.h"

struct prng {
	uint64_t state;
	bool is_seeded;
};

/*
 * Each thread has its own state, so threads do not contend. It is small enough for the thread-local
 * memory that the system reserves for libraries loaded late, so access needs no call.
 */
static _Thread_local struct prng thread_prng __attribute__((tls_model("initial-exec")));

void prng_seed(uint64_t seed)
{
	thread_prng = (struct prng){seed, true};
}

__attribute__((noinline, cold)) static void seed_by_system(void)
{
	uint64_t seed;

	if (os_random(&seed, sizeof seed) != 0)
		seed = os_monotonic_ns() ^ (uint64_t)(uintptr_t)&thread_prng;
	prng_seed(seed);
}

uint64_t prng_step(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t prng_next(void)
{
	if (!thread_prng.is_seeded)
		seed_by_system();
	return prng_step(&thread_prng.state);
}

/* A double has 53 bits: the highest ones of the 64. */
double prng_fraction(void)
{
	return (double)(prng_next() >> 11) * 0x1p-53;
}
