/*
 * clock.h: what time it is, for those who were not told.
 *
 * A clock is anchored once: the wall's time at its start plus what the
 * monotonic clock has counted since. Steps of the wall while running do not
 * reach it. Calendar windows follow the wall, so a reading carries both; where
 * the caller passes a time in, both are that time.
 *
 * CLOCK_MONOTONIC, and not a coarse or raw one: it is slewed to true seconds,
 * costs no system call, and never goes back.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#include "base/os.h"

struct clock_anchor {
	uint64_t offset_ns; /* wall minus monotonic, at the start */
};

/* One instant. */
struct moment {
	uint64_t now_ns;  /* anchored: only ever forward */
	uint64_t wall_ns; /* the wall's: may step */
};

static inline struct clock_anchor clock_start(void)
{
	return (struct clock_anchor){os_wall_ns() - os_monotonic_ns()};
}

static inline uint64_t clock_now(const struct clock_anchor *clock)
{
	return os_monotonic_ns() + clock->offset_ns;
}

static inline struct moment clock_moment(const struct clock_anchor *clock)
{
	return (struct moment){clock_now(clock), os_wall_ns()};
}

static inline struct moment moment_given(uint64_t now_ns)
{
	return (struct moment){now_ns, now_ns};
}

#endif
