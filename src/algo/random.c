/*
 * random.c: denies a share of all requests, each by a draw of its own.
 *
 * The draw is part of the call, so the step stays pure. A share is a threshold
 * of 2^63 draws: 0 denies none, 2^63 all, and any double from 0 to 1 that is at
 * least 2^-10 is exact. There is no state, and what only asks draws nothing: a
 * peek passes unless all are denied.
 */
#include "algo/algo.h"

#define ALL (UINT64_C(1) << 63)

uint64_t random_threshold(double deny)
{
	return (uint64_t)(deny * (double)ALL);
}

double random_share(const struct random_params *params)
{
	uint64_t now = atomic_load_explicit(&params->deny_now, memory_order_relaxed);

	return (double)now / (double)ALL;
}

bool random_step(const struct random_params *params, const struct algo_call *call,
                 struct algo_outcome *out)
{
	uint64_t deny = atomic_load_explicit(&params->deny_now, memory_order_relaxed);
	bool draws = call->op == ALGO_ACQUIRE && call->cost > 0;

	out->remaining = deny == ALL ? 0 : ALGO_COUNT_MAX;
	if (call->op <= ALGO_PEEK && (draws ? call->draw >> 1 < deny : deny == ALL)) {
		out->allowed = false;
		out->reason = WEIR_REASON_SHED;
		out->remaining = 0;
		out->retry_after_ns = params->retry_ns;
	}
	out->reset_after_ns = 0;
	return false;
}
