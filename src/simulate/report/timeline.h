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

/* The phases of a breaker whose time is counted: all but closed. */
enum timeline_phase { TIMELINE_OPEN, TIMELINE_HALF_OPEN, TIMELINE_RAMP, TIMELINE_PHASES };

/* The counts of an interval: of requests, or of the time that keys were in each phase. */
struct timeline_counts {
	union {
		struct {
			uint64_t asked, passed, denied;
		};
		uint64_t phase_ns[TIMELINE_PHASES];
		uint64_t n[3]; /* either of them by index */
	};
};

/* Zeroed is empty. */
struct timeline {
	size_t width_index;      /* of the intervals' width, see timeline_width_ns */
	uint64_t first_interval; /* of counts[0]: how many of this width are before it since 1970 */
	size_t count;
	size_t latest; /* cache: the index last used, and the times for which it is valid */
	uint64_t latest_ns, latest_width_ns;
	struct timeline_counts counts[TIMELINE_MAX];
};

/** Adds counts to the interval of `at_ns`, which must not be before the first call's. */
void timeline_add(struct timeline *timeline, uint64_t at_ns, struct timeline_counts more);

/**
 * Adds the time of a key in `phase` to the intervals that it covers. `from_ns` must not be before
 * the time of the first timeline_add.
 */
void timeline_add_phase(struct timeline *timeline, uint64_t from_ns, uint64_t until_ns,
                        enum timeline_phase phase);

/** Makes the intervals as wide as those of `other`, if that is wider. */
void timeline_widen_to(struct timeline *timeline, const struct timeline *other);

/** Widens the intervals until there are at most `count_max`, or they have the greatest width. */
void timeline_widen_until(struct timeline *timeline, size_t count_max);

uint64_t timeline_width_ns(const struct timeline *timeline);

/** The counts of `timeline` in the i-th interval of `other`, whose intervals are as wide. */
struct timeline_counts timeline_in_interval_of(const struct timeline *timeline,
                                               const struct timeline *other, size_t i);

/** When the i-th interval begins. */
static inline uint64_t timeline_interval_ns(const struct timeline *timeline, size_t i)
{
	return (timeline->first_interval + i) * timeline_width_ns(timeline);
}

/** When the first interval begins. */
static inline uint64_t timeline_start_ns(const struct timeline *timeline)
{
	return timeline_interval_ns(timeline, 0);
}

#endif
