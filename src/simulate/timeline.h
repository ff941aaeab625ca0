/*
 * timeline.h: counts over time, in intervals that widen as the trace goes on.
 *
 * The span is not known before its end, and memory is bounded: when there is no
 * interval left, neighbours are put together. Intervals are those of a clock's
 * face: a second, ten seconds, a minute, an hour.
 */
#ifndef SIMULATE_TIMELINE_H
#define SIMULATE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#define TIMELINE_MAX 1000

struct timeline_counts {
	uint64_t asked, passed, denied;
};

/* Zeroed is empty. */
struct timeline {
	size_t width;   /* index of timeline_width_ns */
	uint64_t first; /* interval since 1970 that counts[0] is */
	size_t count;
	size_t latest; /* the index last counted at, and from when it is good for how long */
	uint64_t latest_ns, latest_width_ns;
	struct timeline_counts counts[TIMELINE_MAX];
};

/** Counts what happened at `at_ns`, which is not before the first time given. */
void timeline_add(struct timeline *timeline, uint64_t at_ns, struct timeline_counts more);

/** Makes the intervals as wide as those of `other`, if that is wider. */
void timeline_widen_to(struct timeline *timeline, const struct timeline *other);

uint64_t timeline_width_ns(const struct timeline *timeline);

/** When the first interval begins. */
static inline uint64_t timeline_start_ns(const struct timeline *timeline)
{
	return timeline->first * timeline_width_ns(timeline);
}

#endif
