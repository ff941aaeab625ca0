#include "algo/headroom.h"

#include "base/number.h"

/* Seconds are kept by their number in 255, and one more. */
#define SECONDS 255

static unsigned age_s(uint8_t seen, uint64_t now_s)
{
	return (unsigned)((now_s % SECONDS + SECONDS - (seen - 1U)) % SECONDS);
}

/* A clock that lags a little sees it, too. */
static bool asks(uint8_t seen, uint64_t now_s)
{
	return seen != 0 && (age_s(seen, now_s) < HEADROOM_S ||
	                     age_s(seen, now_s) > SECONDS - HEADROOM_S);
}

static void forget(struct headroom *headroom, unsigned priority)
{
	headroom->seen[priority] = 0;
	if (priority < PRIORITY_LOWEST)
		headroom->room[priority] = 0;
}

bool headroom_see(struct headroom *headroom, unsigned priority, uint64_t now_ns)
{
	uint64_t now_s = now_ns / NS_PER_S;
	uint8_t now = (uint8_t)(now_s % SECONDS + 1);
	bool known = asks(headroom->seen[priority], now_s);

	if (known && age_s(headroom->seen[priority], now_s) > SECONDS - HEADROOM_S)
		return false; /* the clock lags */
	if (headroom->seen[priority] == now)
		return false;
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		if (headroom->seen[c] != 0 && !asks(headroom->seen[c], now_s))
			forget(headroom, c);
	headroom->seen[priority] = now;
	return true;
}

static bool lower_asks(const struct headroom *headroom, unsigned priority)
{
	for (unsigned c = priority + 1; c < PRIORITY_CLASSES; c++)
		if (headroom->seen[c] != 0)
			return true;
	return false;
}

static uint64_t most_room(uint64_t quota)
{
	uint64_t root = 1;

	while ((root + 1) * (root + 1) <= quota)
		root++;
	return HEADROOM_ROOTS * root;
}

uint64_t headroom_over(const struct headroom *headroom, unsigned priority, uint64_t quota)
{
	if (priority >= PRIORITY_LOWEST || headroom->room[priority] == 0 ||
	    !lower_asks(headroom, priority))
		return 0;
	return u64_min(headroom->room[priority], most_room(quota));
}

bool headroom_denied(struct headroom *headroom, unsigned priority, uint64_t quota)
{
	if (priority >= PRIORITY_LOWEST || !lower_asks(headroom, priority) ||
	    headroom->room[priority] >= most_room(quota))
		return false;
	headroom->room[priority]++;
	return true;
}

bool headroom_passed(struct headroom *headroom, unsigned priority, uint64_t draw)
{
	if (priority >= PRIORITY_LOWEST || headroom->room[priority] == 0 || draw % HEADROOM_SHRINK != 0)
		return false;
	headroom->room[priority]--;
	return true;
}
