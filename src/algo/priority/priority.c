#include "algo/priority/priority.h"

#include "base/number.h"

uint64_t priority_share(uint64_t share, const struct priority_demand *demand, unsigned priority)
{
	uint64_t total = 0, lower = 0, own = demand->calls[priority];
	u128 shed, below;

	for (unsigned i = 0; i < PRIORITY_CLASSES; i++) {
		total += demand->calls[i];
		lower += i > priority ? demand->calls[i] : 0;
	}
	if (total == 0 || share >= PRIORITY_ALL)
		return share;
	/* Both are counted in requests times PRIORITY_ALL. */
	shed = (u128)total * share;
	below = (u128)lower * PRIORITY_ALL;
	if (shed <= below)
		return 0;
	if (shed - below >= (u128)own * PRIORITY_ALL)
		return PRIORITY_ALL;
	return (uint64_t)((shed - below) / own);
}
