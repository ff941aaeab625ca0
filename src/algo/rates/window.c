/*
 * window.c: decides fixed_window and resetting_bucket limits: a count that ends with its window.
 *
 * An aligned window is one of the calendar. Any other window is opened by the first request that
 * consumes units, and lasts one period. The state is the end of the window and the count less one;
 * a count of 0 is no state:
 *
 *     until_ns = end of the window,    word = count - 1.
 *
 * An aligned window that ends later than the current one was opened under a clock that was ahead.
 * If it can be the next window, it is used as it is: around midnight, threads with different clocks
 * read different days, and must not grant two quotas. If it is later than that, the wall clock was
 * set back. Then the count stays, and counts in the current window, so that such a step of the
 * clock neither frees a key nor blocks it for long.
 */
#include "algo/rates/window.h"

#include "algo/algo.h"

struct window_params {
	uint64_t count;
	uint64_t period_ns;
	bool aligned; /* to the calendar */
};

_Static_assert(sizeof(struct window_params) <= sizeof((struct algo_limit *)0)->own,
               "a limit has room for them");

void window_init(struct algo_limit *limit, uint64_t count, bool aligned)
{
	*(struct window_params *)limit->own =
	    (struct window_params){count, limit->period_ns, aligned};
}

/*
 * Returns the end of the window in which a request counts now: that of the state, or of a new one.
 */
static uint64_t window_end(const struct window_params *params, const struct algo_time *time,
                           const struct algo_state *state, uint64_t count)
{
	uint64_t end_ns = params->aligned ? time->window_end_ns : time->now_ns + params->period_ns;
	/* A calendar day can have 25 hours, more than its period. */
	uint64_t longest_ns = params->period_ns + params->period_ns / 8;

	if (count > 0 && (!params->aligned || state->until_ns - end_ns <= longest_ns))
		return state->until_ns;
	return end_ns;
}

/*
 * Takes units off the count. Returns false if there are none, or the refund names another window.
 */
static bool refund_window(const struct algo_call *call, struct algo_state *state, uint64_t *count,
                          uint64_t end_ns)
{
	uint64_t refunded = u64_min(call->cost, *count);

	if (refunded == 0 || (call->until_ns != 0 && call->until_ns != end_ns))
		return false;
	*count -= refunded;
	*state = *count == 0 ? (struct algo_state){0, 0}
	                     : (struct algo_state){end_ns, (uint32_t)(*count - 1)};
	return true;
}

/* Returns whether the state changed. */
bool window_step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_decision *out)
{
	const struct window_params *params = (const struct window_params *)limit->own;
	uint64_t now_ns = time->now_ns;
	uint64_t count = state->until_ns > now_ns ? (uint64_t)state->word + 1 : 0;
	uint64_t end_ns = window_end(params, time, state, count);
	uint64_t cost = u64_max(call->cost, 1);
	bool changed = false;

	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (count + cost > params->count) {
			algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, end_ns - now_ns);
			break;
		}
		if (count + cost == params->count)
			out->reason = WEIR_REASON_HIT_QUOTA;
		if (algo_consumes(call)) {
			count += cost;
			*state = (struct algo_state){end_ns, (uint32_t)(count - 1)};
			changed = true;
		}
		break;
	case ALGO_REFUND:
		changed = refund_window(call, state, &count, end_ns);
		algo_decision_refund(out, call, changed);
		break;
	default: /* a case of its own would cost each acquire two instructions */
		changed = call->op == ALGO_RESET && state->until_ns != 0;
		if (changed) {
			*state = (struct algo_state){0, 0};
			count = 0;
		}
		break;
	}
	out->remaining = sat_sub(params->count, count);
	out->reset_after_ns = count > 0 ? end_ns - now_ns : 0;
	return changed;
}
