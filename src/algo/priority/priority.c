/*
 * priority.c: shares out the requests that a limit must shed: the lowest priorities lose all of
 * theirs before a higher one loses any.
 */
#include "algo/priority/priority.h"

#include "base/number.h"

/* Returns the share of the priority's own requests to shed, if `share` of all is to be shed. */
uint64_t priority_share(uint64_t share, const struct priority_demand *demand, unsigned priority)
{
	uint64_t total = 0, lower = 0, own = demand->calls[priority];
	u128 to_shed, lower_can_take;

	for (unsigned i = 0; i < PRIORITY_CLASSES; i++) {
		total += demand->calls[i];
		lower += i > priority ? demand->calls[i] : 0;
	}
	if (total == 0 || share >= PRIORITY_ALL)
		return share;
	/* Both are counted in requests times PRIORITY_ALL. */
	to_shed = (u128)total * share;
	lower_can_take = (u128)lower * PRIORITY_ALL;
	if (to_shed <= lower_can_take)
		return 0;
	if (to_shed - lower_can_take >= (u128)own * PRIORITY_ALL)
		return PRIORITY_ALL;
	return (uint64_t)((to_shed - lower_can_take) / own);
}
