/*
 * sliding.c: completes the parameters of sliding windows, which count in slots of time, and of the
 * limits that take over from them.
 */
#include "algo/rates/sliding.h"

void sliding_init(struct algo_limit *limit)
{
	limit->generation = slots_generation(limit->slots.slots, limit->slots.count);
	limit->header_has_sum = !(limit->generation & SLOTS_BARE);
	limit->width = algo_width(limit->slots.slots);
}

/*
 * Sets the generation of `next`, by which states of the two limits are told apart. It has two bits:
 * one differs if the number of slots changes, one follows from the count.
 */
void sliding_before_takeover(const struct algo_limit *limit, struct algo_limit *next)
{
	unsigned other = limit->generation & SLOTS_OTHER;

	if (limit->slots.slots != next->slots.slots)
		other ^= SLOTS_OTHER;
	next->generation = (next->generation & SLOTS_BARE) | other;
}
