#include "algo/priority/headroom.h"

#include "base/number.h"

/* A second is stored as its number modulo 255, plus 1. */
#define SECONDS 255

static unsigned age_s(uint8_t second, uint64_t now_s)
{
	return (unsigned)((now_s % SECONDS + SECONDS - (second - 1U)) % SECONDS);
}

/* Whether a class is present: `second` is at most HEADROOM_S ago, or a little ahead of this clock.
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

bool headroom_record_request(struct headroom *headroom, unsigned priority, uint64_t now_ns)
{
	uint64_t now_s = now_ns / NS_PER_S;
	uint8_t now = (uint8_t)(now_s % SECONDS + 1);
	bool asked = is_present(headroom->last_request_second[priority], now_s);

	if (asked && age_s(headroom->last_request_second[priority], now_s) > SECONDS - HEADROOM_S)
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

static uint64_t most_room(uint64_t quota)
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
	return u64_min(headroom->extra_requests[priority], most_room(quota));
}

/* A class with a lower one keeps its quota and room in a probe; others make way for that. */
static uint64_t quota_in_probe(const struct headroom *headroom, unsigned priority,
                               const struct headroom_limits *limits)
{
	uint64_t room = 0, fewer;

	if (priority < PRIORITY_LOWEST && lower_class_is_present(headroom, priority))
		return limits->probes_all
		           ? limits->quota
		           : limits->ordinary + headroom_extra(headroom, priority, limits->ordinary);
	for (unsigned c = 0; c < priority; c++)
		room = u64_max(room, headroom_extra(headroom, c, limits->ordinary));
	fewer = u64_min(u64_min(room, limits->quota) / 2,
	                sat_sub(limits->ordinary, limits->quota) / HEADROOM_DEEPER);
	return limits->quota - fewer;
}

uint64_t headroom_quota(const struct headroom *headroom, unsigned priority,
                        const struct headroom_limits *limits)
{
	if (limits->probes)
		return quota_in_probe(headroom, priority, limits);
	return limits->quota + headroom_extra(headroom, priority, limits->quota);
}

static bool grow_room(struct headroom *headroom, unsigned priority, uint64_t by, uint64_t most)
{
	uint64_t room = headroom->extra_requests[priority];

	if (room >= most)
		return false;
	headroom->extra_requests[priority] = (uint16_t)u64_min(room + by, most);
	return true;
}

static bool shrink_room(struct headroom *headroom, unsigned priority, uint64_t draw,
                        unsigned one_in)
{
	if (headroom->extra_requests[priority] == 0 || draw % one_in != 0)
		return false;
	headroom->extra_requests[priority]--;
	return true;
}

bool headroom_record_denial(struct headroom *headroom, unsigned priority, uint64_t quota,
                            uint64_t draw)
{
	uint64_t most = most_room(quota);
	bool lower_passed;

	if (priority >= PRIORITY_LOWEST || !lower_class_is_present(headroom, priority))
		return false;
	lower_passed = headroom->lower_passed_bits & 1U << priority;
	if (!lower_passed && headroom->extra_requests[priority] > most / 2)
		return shrink_room(headroom, priority, draw, HEADROOM_VAIN);
	headroom->lower_passed_bits &= (uint16_t) ~(1U << priority);
	return grow_room(headroom, priority, lower_passed ? HEADROOM_GROW : 1,
	                 lower_passed ? most : most / 2) ||
	       lower_passed;
}

bool headroom_record_pass(struct headroom *headroom, unsigned priority, uint64_t quota,
                          uint64_t draw)
{
	uint16_t above = 0;

	for (unsigned c = 0; c < priority; c++)
		above |= (uint16_t)((headroom->last_request_second[c] != 0) << c);
	if ((headroom->lower_passed_bits & above) != above) {
		headroom->lower_passed_bits |= above;
		return true;
	}
	return headroom_extra(headroom, priority, quota) > 0 &&
	       shrink_room(headroom, priority, draw, HEADROOM_SHRINK);
}
