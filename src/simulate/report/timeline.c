/*
 * timeline.c: counts requests over time, in at most TIMELINE_MAX intervals. When the trace becomes
 * too long for these, neighbouring intervals are merged into wider ones.
 */
#include "simulate/report/timeline.h"

#include <stdbool.h>

#include "base/number.h"

/* Widths, each a multiple of the one before. A thousand of the last exceed all times. */
static const uint64_t widths[] = {
    NS_PER_MS,           2 * NS_PER_MS,   10 * NS_PER_MS,  20 * NS_PER_MS,
    100 * NS_PER_MS,     200 * NS_PER_MS, NS_PER_S,        2 * NS_PER_S,
    10 * NS_PER_S,       30 * NS_PER_S,   60 * NS_PER_S,   300 * NS_PER_S,
    600 * NS_PER_S,      1800 * NS_PER_S, 3600 * NS_PER_S, 3 * 3600 * NS_PER_S,
    6 * 3600 * NS_PER_S, NS_PER_DAY,      7 * NS_PER_DAY,  35 * NS_PER_DAY,
    350 * NS_PER_DAY,
};

uint64_t timeline_width_ns(const struct timeline *timeline)
{
	return widths[timeline->width_index];
}

static void add_to_counts(struct timeline_counts *to, const struct timeline_counts *more)
{
	to->asked += more->asked;
	to->passed += more->passed;
	to->denied += more->denied;
}

/* Changes to the next width: adds neighbouring intervals together, in place. */
static void merge_intervals(struct timeline *t)
{
	uint64_t factor = widths[t->width_index + 1] / widths[t->width_index];
	uint64_t first = t->first_interval / factor;

	for (size_t i = 0; i < t->count; i++) {
		struct timeline_counts counts = t->counts[i];
		size_t to = (size_t)((t->first_interval + i) / factor - first);

		t->counts[i] = (struct timeline_counts){0};
		add_to_counts(&t->counts[to], &counts);
	}
	if (t->count > 0)
		t->count = (size_t)((t->first_interval + t->count - 1) / factor - first) + 1;
	t->first_interval = first;
	t->width_index++;
	t->latest_width_ns = 0; /* `latest` is the index of a narrower interval: not valid any more */
}

/* Makes the timeline contain `at_ns`. Returns the index of its interval, the latest. */
static size_t extend_to(struct timeline *t, uint64_t at_ns)
{
	size_t i;

	if (t->count == 0)
		t->first_interval = at_ns / widths[t->width_index];
	/* Wraps to a large number for a time before the first interval: merges until that has it. */
	while (at_ns / widths[t->width_index] - t->first_interval >= TIMELINE_MAX)
		merge_intervals(t);
	i = (size_t)(at_ns / widths[t->width_index] - t->first_interval);
	t->count = i >= t->count ? i + 1 : t->count;
	t->latest = i;
	t->latest_width_ns = widths[t->width_index];
	t->latest_ns = (t->first_interval + i) * widths[t->width_index];
	return i;
}

void timeline_add(struct timeline *t, uint64_t at_ns, struct timeline_counts more)
{
	/* Wraps to a large number for a time before the latest interval. */
	bool is_in_latest = at_ns - t->latest_ns < t->latest_width_ns;

	add_to_counts(&t->counts[is_in_latest ? t->latest : extend_to(t, at_ns)], &more);
}

void timeline_add_phase(struct timeline *t, uint64_t from_ns, uint64_t until_ns,
                        enum timeline_phase phase)
{
	/* Adds zeros at the end, so that all intervals exist, and none are merged in the loop. */
	if (until_ns > from_ns)
		timeline_add(t, until_ns - 1, (struct timeline_counts){0});
	while (from_ns < until_ns) {
		uint64_t width_ns = widths[t->width_index];
		uint64_t end_ns = u64_min(until_ns, (from_ns / width_ns + 1) * width_ns);

		t->counts[from_ns / width_ns - t->first_interval].phase_ns[phase] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

void timeline_widen_to(struct timeline *timeline, const struct timeline *other)
{
	while (timeline->width_index < other->width_index)
		merge_intervals(timeline);
}

void timeline_widen_until(struct timeline *timeline, size_t count_max)
{
	while (timeline->count > count_max &&
	       timeline->width_index + 1 < sizeof widths / sizeof *widths)
		merge_intervals(timeline);
}

struct timeline_counts timeline_in_interval_of(const struct timeline *timeline,
                                               const struct timeline *other, size_t i)
{
	/* Wraps to a large number if the interval is before the timeline's first. */
	uint64_t index = other->first_interval + i - timeline->first_interval;

	return index < timeline->count ? timeline->counts[index] : (struct timeline_counts){0};
}
