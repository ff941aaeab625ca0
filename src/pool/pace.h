/* pace.h: computes start times that are evenly spaced, exactly over any time. It reads no clock. */
#ifndef POOL_PACE_H
#define POOL_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

/* A start that is delayed by more than this is dropped, and counted as missed. */
#define PACE_CATCH_UP_NS (UINT64_C(100) * 1000 * 1000)

struct pace {
	uint64_t p, q;     /* p/q ns from start to start; q is 0 when there is no rate */
	uint64_t start_ns; /* the next is at start_ns + rest/q */
	uint64_t rest;
	uint64_t missed; /* starts lost */
};

/** Errors: as weir_limit_open. */
int pace_init(struct pace *pace, const struct weir_rate *rate, struct weir_error *error);

static inline bool pace_has_rate(const struct pace *pace)
{
	return pace->q > 0;
}

/** After idleness: the next start is not in the past. */
void pace_resume(struct pace *pace, uint64_t now_ns);

/** Uses the start at start_ns, which is not in the future, and computes the next one. */
void pace_advance(struct pace *pace, uint64_t now_ns);

#endif
