/* cell.c: asks the processor how cells can be loaded, and backs off from a contended cell. */
#include "base/cell.h"

#include "base/os/os.h"
#include "base/os/prefetch.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

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

void cell_back_off(struct cell *cell)
{
	uint64_t until_ns = os_monotonic_ns() + BACK_OFF_NS;

	do
		pause_briefly();
	while (os_monotonic_ns() < until_ns);
	prefetch_to_write(cell);
}
