#include "simulate/timeline.h"

#include <string.h>

#include "base/number.h"

/* Each a multiple of the one before it; a thousand of the last are more than the clock has. */
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

static void widen(struct timeline *t)
{
	uint64_t factor = widths[t->width + 1] / widths[t->width], first = t->first / factor;

	for (size_t i = 0; i < t->count; i++) {
		struct timeline_counts counts = t->counts[i];
		size_t to = (size_t)((t->first + i) / factor - first);

		t->counts[i] = (struct timeline_counts){0, 0};
		t->counts[to].passed += counts.passed;
		t->counts[to].denied += counts.denied;
	}
	if (t->count > 0)
		t->count = (size_t)((t->first + t->count - 1) / factor - first) + 1;
	t->first = first;
	t->width++;
}

void timeline_add(struct timeline *t, uint64_t now_ns, uint64_t passed, uint64_t denied)
{
	size_t i;

	if (t->count == 0)
		t->first = now_ns / widths[t->width];
	while (now_ns / widths[t->width] - t->first >= TIMELINE_MAX)
		widen(t);
	i = (size_t)(now_ns / widths[t->width] - t->first);
	t->count = i >= t->count ? i + 1 : t->count;
	t->counts[i].passed += passed;
	t->counts[i].denied += denied;
}

void timeline_widen_to(struct timeline *timeline, const struct timeline *other)
{
	while (timeline->width < other->width)
		widen(timeline);
}
