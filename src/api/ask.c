/*
 * ask.c: checks the options of a public call (struct weir_ask), and translates them into the call
 * that an algorithm runs (struct algo_call).
 */
#include "api/ask.h"

#include "wait/sleep.h"

/* Whether the caller chose a time of its own, so that no thread can wait for a deadline by it. */
static bool is_chosen_time(uint64_t now_ns)
{
	return now_ns != 0 && now_ns != WEIR_NOW;
}

/* `unusable_permit` is where the caller wants a permit of a kind that the call can't give, or NULL.
 */
int ask_to_call(const struct weir_ask *ask, const void *unusable_permit, struct algo_call *call)
{
	bool has_reserved = ask->reserved[0] || ask->reserved[1];
	bool has_zero_time = ask->now_ns == WEIR_ZERO || ask->deadline_ns == WEIR_ZERO;

	if (ask->priority > WEIR_PRIORITY_LOWEST)
		return WEIR_ERANGE;
	if (unusable_permit || has_reserved || has_zero_time ||
	    (ask->deadline_ns != 0 && is_chosen_time(ask->now_ns)))
		return WEIR_EINVAL;
	*call = (struct algo_call){
	    .op = ALGO_ACQUIRE,
	    .cost = ask->cost == 0           ? 1
	            : ask->cost == WEIR_ZERO ? 0
	                                     : ask->cost,
	    .priority = (uint8_t)ask->priority,
	    .max_wait_ns = ask->deadline_ns != 0 ? wait_max_until(ask->deadline_ns) : 0,
	};
	call->is_late = call->max_wait_ns == WEIR_ZERO && ask->deadline_ns != WEIR_NOW;
	return WEIR_OK;
}
