#include "algo/sliding.h"

void sliding_init(struct algo_limit *limit)
{
	limit->generation = slots_generation(limit->slots.slots, limit->slots.count);
	limit->head_has_sum = !(limit->generation & SLOTS_BARE);
	limit->width = algo_width(limit->slots.slots);
}

/*
 * Of two numbers of slots that follow one another the generations differ, as those of the
 * two forms always do.
 */
void sliding_join(const struct algo_limit *limit, struct algo_limit *next)
{
	unsigned differ = limit->generation ^ next->generation;

	if (differ & SLOTS_BARE)
		return;
	if (limit->slots.slots == next->slots.slots)
		next->generation = limit->generation;
	else if (differ == 0)
		next->generation ^= SLOTS_OTHER;
}
