/* prefetch.h: asks memory for a cache line before it is needed. */
#ifndef BASE_OS_PREFETCH_H
#define BASE_OS_PREFETCH_H

#include <stddef.h>

/*
 * __builtin_prefetch would not do: GCC takes a function that only prefetches for one without
 * effect, and drops calls to it that are not inlined.
 */
static inline void prefetch(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)line));
#elif defined(__aarch64__)
	__asm__ volatile("prfm pldl1keep, %a0" : : "p"(line));
#else
	__builtin_prefetch(line);
#endif
}

/* Prefetches a line that is to be changed, and so takes it from other cores. */
static inline void prefetch_to_write(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#elif defined(__aarch64__)
	__asm__ volatile("prfm pstl1keep, %a0" : : "p"(line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/** Prefetches all lines of `size` bytes. */
static inline void prefetch_all(const void *memory, size_t size)
{
	for (size_t at = 0; at < size; at += 64)
		prefetch((const char *)memory + at);
}

#endif
