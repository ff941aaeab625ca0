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
	return widths[timeline->width];
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
	uint64_t factor = widths[t->width + 1] / widths[t->width], first = t->first / factor;

	for (size_t i = 0; i < t->count; i++) {
		struct timeline_counts counts = t->counts[i];
		size_t to = (size_t)((t->first + i) / factor - first);

		t->counts[i] = (struct timeline_counts){0};
		add_to_counts(&t->counts[to], &counts);
	}
	if (t->count > 0)
		t->count = (size_t)((t->first + t->count - 1) / factor - first) + 1;
	t->first = first;
	t->width++;
	t->latest_width_ns = 0;
}

/* Makes the timeline contain `at_ns`; returns the index of its interval. */
static size_t extend_to(struct timeline *t, uint64_t at_ns)
{
	size_t i;

	if (t->count == 0)
		t->first = at_ns / widths[t->width];
	while (at_ns / widths[t->width] - t->first >= TIMELINE_MAX)
		merge_intervals(t);
	i = (size_t)(at_ns / widths[t->width] - t->first);
	t->count = i >= t->count ? i + 1 : t->count;
	t->latest = i;
	t->latest_width_ns = widths[t->width];
	t->latest_ns = (t->first + i) * widths[t->width];
	return i;
}

void timeline_add(struct timeline *t, uint64_t at_ns, struct timeline_counts more)
{
	/* Wraps to a large number for a time before the latest interval. */
	bool is_in_latest = at_ns - t->latest_ns < t->latest_width_ns;

	add_to_counts(&t->counts[is_in_latest ? t->latest : extend_to(t, at_ns)], &more);
}

void timeline_add_span(struct timeline *t, uint64_t from_ns, uint64_t until_ns, size_t field)
{
	if (until_ns > from_ns)
		timeline_add(t, until_ns - 1,
		             (struct timeline_counts){0}); /* so that all intervals exist */
	while (from_ns < until_ns) {
		uint64_t width_ns = widths[t->width];
		uint64_t end_ns = u64_min(until_ns, (from_ns / width_ns + 1) * width_ns);

		t->counts[from_ns / width_ns - t->first].n[field] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

void timeline_widen_to(struct timeline *timeline, const struct timeline *other)
{
	while (timeline->width < other->width)
		merge_intervals(timeline);
}

void timeline_widen_until(struct timeline *timeline, size_t most)
{
	while (timeline->count > most && timeline->width + 1 < sizeof widths / sizeof *widths)
		merge_intervals(timeline);
}

struct timeline_counts timeline_beside(const struct timeline *timeline,
                                       const struct timeline *other, size_t i)
{
	uint64_t at =
	    other->first + i - timeline->first; /* wraps to a large number if it is before the first */

	return at < timeline->count ? timeline->counts[at] : (struct timeline_counts){0};
}
