/*
 * patience.c: decides how long a request may wait for a key of a limit, and for which reason it is
 * refused when waiting can't help it.
 */
#include "wait/patience.h"

/*
 * `max_wait_ns` is the longest wait that the caller accepts: 0 leaves it to the limit, WEIR_ZERO is
 * none. A request to a paced limit never waits in a queue: it gets a start time at once.
 */
uint64_t wait_patience_ns(const struct algo_limit *limit, uint64_t max_wait_ns)
{
	bool limit_has_queue = limit->queue > 0;

	if (limit->paced || max_wait_ns == WEIR_ZERO)
		return 0;
	if (!limit_has_queue)
		return max_wait_ns;
	return max_wait_ns == 0 ? limit->max_wait_ns : u64_min(max_wait_ns, limit->max_wait_ns);
}

/* How many requests may wait for one key: without a `queue`, as many as accept to wait. */
size_t wait_queue_max(const struct algo_limit *limit)
{
	return limit->queue > 0 ? limit->queue : SIZE_MAX;
}

/*
 * `d` is a denial, or allows although requests before this one wait. Returns OK if this request is
 * to wait as well. If its retry_after_ns is an estimate, it waits even for longer than it may: the
 * estimate may be too long.
 */
enum weir_reason wait_refusal_reason(const struct algo_limit *limit, enum wait_position position,
                                     uint64_t max_wait_ns, const struct weir_decision *d)
{
	uint64_t patience_ns = wait_patience_ns(limit, max_wait_ns);
	bool may_pass_in_time = limit->algorithm->retry_is_estimate || d->retry_after_ns <= patience_ns;
	bool time_is_over = position != WAIT_NEW; /* it has waited, or came too late */
	bool was_ready_to_wait = !limit->paced && (time_is_over || patience_ns > 0);

	if (patience_ns > 0 && may_pass_in_time)
		return WEIR_REASON_OK;
	/* The table is full: a longer wait does not help, only a larger setting `keys` does. */
	if (!d->allowed && d->reason == WEIR_REASON_NO_ROOM)
		return WEIR_REASON_NO_ROOM;
	if (was_ready_to_wait)
		return WEIR_REASON_WAIT_TOO_LONG;
	return d->allowed ? WEIR_REASON_OVER_LIMIT : d->reason; /* it is left to those that wait */
}

/* Makes a denial even of a decision that allowed. A denial never has 0 as its retry_after_ns. */
void wait_deny(struct weir_decision *decision, enum weir_reason reason)
{
	decision->allowed = false;
	decision->reason = reason;
	decision->retry_after_ns = u64_max(decision->retry_after_ns, 1);
	decision->wait_ns = 0;
}
