/* prefetch.h: asks memory for a cache line before it is needed. */
#ifndef BASE_OS_PREFETCH_H
#define BASE_OS_PREFETCH_H

#include <stddef.h>

/*
 * Not __builtin_prefetch: to GCC a function that does nothing else has no
 * effect, and where it has not inlined the function it drops the call.
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

/* The same for a line that is to be changed: other cores lose it. */
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

/** All lines of so many bytes. */
static inline void prefetch_all(const void *memory, size_t size)
{
	for (size_t at = 0; at < size; at += 64)
		prefetch((const char *)memory + at);
}

#endif
