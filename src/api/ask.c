#include "api/ask.h"

int ask_read(const struct weir_ask *from, struct ask *ask)
{
	bool has_time = from->now_ns != 0 && from->now_ns != WEIR_NOW;

	for (size_t i = 0; i < sizeof from->reserved / sizeof *from->reserved; i++)
		if (from->reserved[i])
			return WEIR_EINVAL;
	if (from->priority > WEIR_PRIORITY_LOWEST)
		return WEIR_ERANGE;
	*ask = (struct ask){
	    .call = {.op = ALGO_ACQUIRE,
	             .cost = from->cost == 0           ? 1
	                     : from->cost == WEIR_ZERO ? 0
	                                               : from->cost,
	             .priority = (uint8_t)from->priority},
	    .waits = from->deadline_ns != 0,
	    .time_ns = has_time ? from->now_ns : WEIR_NOW,
	};
	if (ask->waits)
		ask->time_ns = from->deadline_ns;
	return ask->waits && has_time ? WEIR_EINVAL : WEIR_OK;
}
