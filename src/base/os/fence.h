/*
 * fence.h: orders a change that a thread makes before the loads that follow it.
 *
 * Two threads that each change one thing and then look at the other's must not both miss the
 * other's change. Release and acquire don't prevent that: a processor may load ahead while its
 * own change is still on the way. A compare-and-swap prevents it on x86-64, where a locked
 * instruction is a full barrier. On arm64 it does not where it is a pair of exclusive
 * instructions, as GCC and Clang make it for processors without LSE: Clang then puts nothing
 * behind the pair (GCC a barrier, for __sync).
 */
#ifndef BASE_OS_FENCE_H
#define BASE_OS_FENCE_H

/** After a swap or another change: all threads see it before this one loads anything further. */
static inline void fence_behind_swap(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" : : : "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
