/*
 * timeline.h: counts events over time, in intervals that become wider as the trace goes on.
 *
 * The length of the trace is not known in advance, and memory is bounded: when no interval is left,
 * neighbours are merged. Widths are those of clocks: a second, ten seconds, a minute, an hour.
 */
#ifndef SIMULATE_TIMELINE_H
#define SIMULATE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#define TIMELINE_MAX   16384
#define TIMELINE_SHOWN 1000 /* intervals for reports that can not be zoomed */

/* Counts of requests, or of nanoseconds that keys were in each phase. */
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
	size_t width;   /* index of the width, see timeline_width_ns */
	uint64_t first; /* number of the interval of counts[0] since 1970 */
	size_t count;
	size_t latest; /* cache: the index last used, and the times for which it is valid */
	uint64_t latest_ns, latest_width_ns;
	struct timeline_counts counts[TIMELINE_MAX];
};

/** Adds counts at `at_ns`, which must not be before the first time. */
void timeline_add(struct timeline *timeline, uint64_t at_ns, struct timeline_counts more);

/** Adds to n[field] of each interval how much of the time span is in it. */
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
