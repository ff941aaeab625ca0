#include "algo/sliding.h"

void sliding_init(struct algo_limit *limit)
{
	limit->generation = slots_generation(limit->slots.slots, limit->slots.count);
	limit->head_has_sum = !(limit->generation & SLOTS_BARE);
	limit->width = algo_width(limit->slots.slots);
}

/*
 * After a change of the number of slots, the generation differs from the one before. The two forms
 * always have different generations.
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
