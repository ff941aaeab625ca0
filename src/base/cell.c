#include "base/cell.h"

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
