/*
 * cell.c: finds out how this processor can load a cell (the 16-byte state of one key, which threads
 * change by compare-and-swap), and backs off from a cell that many threads change at once.
 */
#include "base/cell.h"

#include "base/os/os.h"
#include "base/os/prefetch.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* Whether a plain load of 16 bytes is atomic. Otherwise cells are loaded by a compare-and-swap. */
bool cell_load_is_atomic(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx");
#elif defined(__aarch64__)
	return getauxval(AT_HWCAP) & HWCAP_USCAT; /* LSE2 */
#else
	return false;
#endif
}

#define BACK_OFF_NS 2000

/* Hints to the processor that this is a spin loop. */
static inline void pause_briefly(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Spins without touching the cell, so that its cache line stays with another thread for a while. */
void cell_back_off(struct cell *cell)
{
	uint64_t until_ns = os_monotonic_ns() + BACK_OFF_NS;

	do
		pause_briefly();
	while (os_monotonic_ns() < until_ns);
	prefetch_to_write(cell);
}
