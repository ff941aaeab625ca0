/*
 * fence.h: orders a change that a thread makes before the loads that follow it.
 *
 * If two threads each change one variable and then read the other's, they must not both miss the
 * other's change. Release and acquire don't prevent that, because a processor may load ahead while
 * its own change is still in its store buffer. On x86-64 a compare-and-swap prevents it, since a
 * locked instruction is a full barrier. On arm64 without LSE a compare-and-swap is a pair of
 * exclusive instructions, which later loads may pass: behind it GCC adds a barrier for __sync, and
 * Clang does not.
 */
#ifndef BASE_OS_FENCE_H
#define BASE_OS_FENCE_H

/** All threads see the swap before this call, or another change, before this thread loads further.
 */
static inline void fence_behind_swap(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" : : : "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
