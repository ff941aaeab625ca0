/*
 * clock.h: reads the time for calls whose caller passes none, and never goes back.
 *
 * A clock is anchored once: it is the wall clock's time at its start plus what the monotonic clock
 * has counted since. Steps of the wall clock do not reach it. Calendar windows follow the wall
 * clock, so a reading has both times; if the caller passes a time, both are that time.
 *
 * It follows CLOCK_MONOTONIC, and not a coarse or raw clock: CLOCK_MONOTONIC is slewed to true
 * seconds, is the same for all processes, and never goes back. But the system reads the processor's
 * counter only after all earlier loads, so the memory of two checks could not be fetched side by
 * side. If the system trusts the counter, this clock reads it plainly, and follows the monotonic
 * clock on a line through two pairs of (counter, clock). The reading that finds the line at its end
 * draws the next line; docs/design/clock.md has the bound.
 *
 * Two words, `begun` and `done`, differ while a line is being written. No reading waits for
 * that: meanwhile the system tells the time.
 */
#ifndef BASE_TIME_CLOCK_H
#define BASE_TIME_CLOCK_H

#include <weir/weir.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"
#include "base/os/os.h"

/* A line is followed so long; a slew that turns from -500 to 500 ppm puts it 524 ns off by then. */
#define CLOCK_LINE_NS (UINT64_C(1) << 19)
/* A line is drawn through pairs taken within this time, and so far from one another. */
#define CLOCK_PAIR_NS  200
#define CLOCK_APART_NS UINT64_C(500000)
/* After a longer pause the next line begins anew. */
#define CLOCK_GAP_NS (UINT64_C(1) << 30)
/* A reading is at most so far from the monotonic clock, slewed by 500 ppm at most. */
#define CLOCK_BOUND_NS 1000

/* One reading of the system's clock between two of the counter. */
struct clock_pair {
	uint64_t before, after; /* counter */
	uint64_t ns;
};

struct clock_line {
	uint64_t counter, ns; /* where it begins */
	uint64_t slope;       /* nanoseconds a count, times 2^32; 0 after one pair */
	uint64_t span;        /* counts for which it is good; 0 if not to be followed */
};

#define CLOCK_NO_SLOPE UINT64_MAX /* for clocks that never follow the counter */

struct clock {
	_Alignas(64) uint32_t begun; /* lines so far, counted by the thread that writes one */
	uint32_t done;
	struct clock_line line;
	uint64_t floor_ns;     /* the floor of all readings: ends of lines, and the system's readings */
	uint64_t offset_ns;    /* from the monotonic clock */
	uint64_t *recorded_ns; /* the clock of a file, kept for the next start, or NULL */
};

_Static_assert(sizeof(struct clock) == 64, "a clock is read from one cache line");

/* *recorded_ns is renewed when it is so old. */
#define CLOCK_RECORD_NS (100 * NS_PER_MS)

/* One instant. */
struct moment {
	uint64_t now_ns;  /* anchored: only ever forward */
	uint64_t wall_ns; /* the wall's: may step */
};

/** Returns the wall clock minus the monotonic clock. */
uint64_t clock_offset(void);

/**
 * A clock `offset_ns` ahead of the monotonic clock, `by_counter` where the system trusts the
 * counter. Any thread may read it; now and then a reading writes to it.
 */
struct clock clock_start(uint64_t offset_ns, bool by_counter);

/** Reads the time that `pair` tells, and draws a new line when that is due. */
uint64_t clock_read_pair(struct clock *clock, const struct clock_pair *pair);

/**
 * Reads the system's clock. Never inlined into flattened functions: there it cost the fast path
 * a third.
 */
__attribute__((noinline, cold)) uint64_t clock_now_slow(const struct clock *clock);

/** Raises *least to `ns`, where it is below; returns what it is then. */
uint64_t clock_raise(uint64_t *least, uint64_t ns);

/* Not ordered with the loads and stores around it; readings of one thread are, on x86-64. */
static inline uint64_t clock_counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return 0;
#endif
}

/** The time by the line; false when the line is at its end, or being written. */
static inline bool clock_follow(const struct clock *clock, uint64_t counter, uint64_t *now_ns)
{
	/*
	 * Each load is an acquire, so that `begun` is read last: it equals `done` if all loads saw
	 * one line.
	 */
	uint32_t done = __atomic_load_n(&clock->done, __ATOMIC_ACQUIRE);
	uint64_t age = counter - __atomic_load_n(&clock->line.counter, __ATOMIC_ACQUIRE);
	uint64_t slope = __atomic_load_n(&clock->line.slope, __ATOMIC_ACQUIRE);
	uint64_t ns = __atomic_load_n(&clock->line.ns, __ATOMIC_ACQUIRE) + (age * slope >> 32);
	uint64_t least_ns = __atomic_load_n(&clock->floor_ns, __ATOMIC_ACQUIRE);

	/* A counter from before the line counts as a great age, too. */
	if (__builtin_expect(age >= __atomic_load_n(&clock->line.span, __ATOMIC_ACQUIRE), 0) ||
	    __builtin_expect(__atomic_load_n(&clock->begun, __ATOMIC_RELAXED) != done, 0))
		return false;
	*now_ns = u64_max(ns, least_ns);
	return true;
}

static inline uint64_t clock_now(const struct clock *clock)
{
	uint64_t now_ns;

	if (clock_follow(clock, clock_counter(), &now_ns))
		return now_ns;
	return clock_now_slow(clock);
}

/** The monotonic clock's time at `now_ns` of this one. */
static inline uint64_t clock_monotonic(const struct clock *clock, uint64_t now_ns)
{
	return now_ns - clock->offset_ns;
}

static inline struct moment clock_moment(const struct clock *clock)
{
	return (struct moment){clock_now(clock), os_wall_ns()};
}

static inline struct moment moment_given(uint64_t now_ns)
{
	return (struct moment){now_ns, now_ns};
}

/** The moment of a call: as given, or the clock's for WEIR_NOW. */
static inline struct moment clock_moment_at(const struct clock *clock, uint64_t now_ns)
{
	return now_ns == WEIR_NOW ? clock_moment(clock) : moment_given(now_ns);
}

#endif
