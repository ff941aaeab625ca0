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

#define TIMELINE_MAX   16384
#define TIMELINE_SHOWN 1000 /* where it can't be looked at more closely */

/* The counts: of requests, or of the nanoseconds that keys were in a phase. */
struct timeline_counts {
	union {
		struct {
			uint64_t asked, passed, denied;
		};
		uint64_t n[3];
	};
};

enum { TIMELINE_OPEN, TIMELINE_HALF_OPEN, TIMELINE_RAMP };

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

/** Counts, in the n[field] of each interval, how much of this stretch of time is in it. */
void timeline_add_span(struct timeline *timeline, uint64_t from_ns, uint64_t until_ns,
                       size_t field);

/** Makes the intervals as wide as those of `other`, if that is wider. */
void timeline_widen_to(struct timeline *timeline, const struct timeline *other);

/** Widens the intervals until there are at most `most`, or until they have the greatest width. */
void timeline_widen_until(struct timeline *timeline, size_t most);

uint64_t timeline_width_ns(const struct timeline *timeline);

/** The counts of `timeline` in the i-th interval of `other`, whose intervals are as wide. */
struct timeline_counts timeline_beside(const struct timeline *timeline,
                                       const struct timeline *other, size_t i);

/** When the first interval begins. */
static inline uint64_t timeline_start_ns(const struct timeline *timeline)
{
	return timeline->first * timeline_width_ns(timeline);
}

#endif
