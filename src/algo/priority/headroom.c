/*
 * headroom.c: computes how far requests of higher priority may exceed a measured limit, so that
 * they pass while requests of lower priority are denied.
 *
 * Requests of one priority are a class; 0 is the highest. A class gets extra requests over the
 * limit if it is denied while a lower class is present. A probe is a window of time in which the
 * limit is lowered to measure latencies without waiting.
 */
#include "algo/priority/headroom.h"

#include "base/number.h"

/* A second is stored as its number modulo 255, plus 1. */
#define SECONDS 255

/* Returns how many seconds ago the stored second was, modulo SECONDS. */
static unsigned age_s(uint8_t second, uint64_t now_s)
{
	return (unsigned)((now_s % SECONDS + SECONDS - (second - 1U)) % SECONDS);
}

/*
 * Whether a class is present: `second` is at most HEADROOM_S ago, or a little ahead of this clock.
 */
static bool is_present(uint8_t second, uint64_t now_s)
{
	return second != 0 &&
	       (age_s(second, now_s) < HEADROOM_S || age_s(second, now_s) > SECONDS - HEADROOM_S);
}

static void forget_class(struct headroom *headroom, unsigned priority)
{
	headroom->last_request_second[priority] = 0;
	headroom->lower_passed_bits &= (uint16_t) ~(1U << priority);
	if (priority < PRIORITY_LOWEST)
		headroom->extra_requests[priority] = 0;
}

/*
 * Stores the second of the class's last request, and forgets the classes that are no longer
 * present. Returns false if nothing changed.
 */
bool headroom_record_request(struct headroom *headroom, unsigned priority, uint64_t now_ns)
{
	uint64_t now_s = now_ns / NS_PER_S;
	uint8_t now = (uint8_t)(now_s % SECONDS + 1);
	bool was_present = is_present(headroom->last_request_second[priority], now_s);

	if (was_present && age_s(headroom->last_request_second[priority], now_s) > SECONDS - HEADROOM_S)
		return false; /* the clock lags */
	if (headroom->last_request_second[priority] == now)
		return false;
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		if (headroom->last_request_second[c] != 0 &&
		    !is_present(headroom->last_request_second[c], now_s))
			forget_class(headroom, c);
	headroom->last_request_second[priority] = now;
	return true;
}

static bool lower_class_is_present(const struct headroom *headroom, unsigned priority)
{
	for (unsigned c = priority + 1; c < PRIORITY_CLASSES; c++)
		if (headroom->last_request_second[c] != 0)
			return true;
	return false;
}

/* Returns the most extra requests of a class: HEADROOM_ROOTS square roots of the quota. */
static uint64_t most_extra(uint64_t quota)
{
	uint64_t root = 1;

	while ((root + 1) * (root + 1) <= quota)
		root++;
	return u64_min(HEADROOM_ROOTS * root, quota);
}

uint64_t headroom_extra(const struct headroom *headroom, unsigned priority, uint64_t quota)
{
	if (priority >= PRIORITY_LOWEST || headroom->extra_requests[priority] == 0 ||
	    !lower_class_is_present(headroom, priority))
		return 0;
	return u64_min(headroom->extra_requests[priority], most_extra(quota));
}

/*
 * Returns the quota of a class in a probe. The lowest class that is present bears the probe: its
 * quota is the lowered one, and less by a part of the extra requests of the others. These keep the
 * quota that they have outside the probe, unless it is a probe of all classes.
 */
static uint64_t quota_in_probe(const struct headroom *headroom, unsigned priority,
                               const struct headroom_limits *limits)
{
	uint64_t ordinary = limits->quota_without_probe, most_extra_above = 0, fewer;
	uint64_t lowered_by = sat_sub(ordinary, limits->quota);

	if (lower_class_is_present(headroom, priority))
		return limits->is_probe_of_all ? limits->quota
		                               : ordinary + headroom_extra(headroom, priority, ordinary);
	for (unsigned c = 0; c < priority; c++)
		most_extra_above = u64_max(most_extra_above, headroom_extra(headroom, c, ordinary));
	fewer = u64_min(u64_min(most_extra_above, limits->quota) / 2, lowered_by / HEADROOM_DEEPER);
	return limits->quota - fewer;
}

uint64_t headroom_quota(const struct headroom *headroom, unsigned priority,
                        const struct headroom_limits *limits)
{
	if (limits->is_probe)
		return quota_in_probe(headroom, priority, limits);
	return limits->quota + headroom_extra(headroom, priority, limits->quota);
}

static bool grow_extra(struct headroom *headroom, unsigned priority, uint64_t by, uint64_t most)
{
	uint64_t extra = headroom->extra_requests[priority];

	if (extra >= most)
		return false;
	headroom->extra_requests[priority] = (uint16_t)u64_min(extra + by, most);
	return true;
}

/*
 * Takes one extra request off, by chance: one call in `one_in`; `draw` is random. Returns whether
 * it did.
 */
static bool shrink_extra(struct headroom *headroom, unsigned priority, uint64_t draw,
                         unsigned one_in)
{
	if (headroom->extra_requests[priority] == 0 || draw % one_in != 0)
		return false;
	headroom->extra_requests[priority]--;
	return true;
}

/*
 * Changes the class's extra requests after a denial: grows them if a lower class has passed since
 * they last grew. Otherwise the class alone exceeds the capacity, and its extra requests would only
 * wait, so they move slowly to half of the most. Returns whether the headroom changed.
 */
bool headroom_record_denial(struct headroom *headroom, unsigned priority, uint64_t quota,
                            uint64_t draw)
{
	uint64_t most = most_extra(quota);
	bool lower_passed;

	if (priority >= PRIORITY_LOWEST || !lower_class_is_present(headroom, priority))
		return false;
	lower_passed = headroom->lower_passed_bits & 1U << priority;
	if (lower_passed) {
		headroom->lower_passed_bits &= (uint16_t) ~(1U << priority);
		grow_extra(headroom, priority, HEADROOM_GROW, most);
		return true;
	}
	if (headroom->extra_requests[priority] > most / 2)
		return shrink_extra(headroom, priority, draw, HEADROOM_VAIN);
	return grow_extra(headroom, priority, 1, most / 2);
}

/*
 * Records for each higher class that a lower one has passed. If that is recorded already, shrinks
 * the class's own extra requests, by chance. Returns whether the headroom changed.
 */
bool headroom_record_pass(struct headroom *headroom, unsigned priority, uint64_t quota,
                          uint64_t draw)
{
	uint16_t higher_classes = 0; /* bits of those that are present */

	for (unsigned c = 0; c < priority; c++)
		higher_classes |= (uint16_t)((headroom->last_request_second[c] != 0) << c);
	if ((headroom->lower_passed_bits & higher_classes) != higher_classes) {
		headroom->lower_passed_bits |= higher_classes;
		return true;
	}
	return headroom_extra(headroom, priority, quota) > 0 &&
	       shrink_extra(headroom, priority, draw, HEADROOM_SHRINK);
}
