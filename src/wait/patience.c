/* patience.c: decides how long a request may wait, and why it is refused. */
#include "wait/patience.h"

uint64_t wait_patience_ns(const struct algo_limit *limit, uint64_t asked_ns)
{
	if (limit->paced || asked_ns == WEIR_ZERO)
		return 0;
	if (limit->queue == 0)
		return asked_ns;
	return asked_ns == 0 ? limit->max_wait_ns : u64_min(asked_ns, limit->max_wait_ns);
}

size_t wait_queue_max(const struct algo_limit *limit)
{
	return limit->queue > 0 ? limit->queue : SIZE_MAX;
}

enum weir_reason wait_refusal(const struct algo_limit *limit, enum wait_position position,
                              uint64_t max_wait_ns, const struct weir_decision *d)
{
	uint64_t patience_ns = wait_patience_ns(limit, max_wait_ns);

	if (patience_ns > 0 &&
	    (limit->algorithm->retry_is_estimate || d->retry_after_ns <= patience_ns))
		return WEIR_REASON_OK;
	/* A longer wait does not help, only more `keys` do. */
	if (!d->allowed && d->reason == WEIR_REASON_NO_ROOM)
		return WEIR_REASON_NO_ROOM;
	if (!limit->paced && (position != WAIT_NEW || patience_ns > 0))
		return WEIR_REASON_WAIT_TOO_LONG;
	return d->allowed ? WEIR_REASON_OVER_LIMIT : d->reason;
}

void wait_deny(struct weir_decision *decision, enum weir_reason reason)
{
	decision->allowed = false;
	decision->reason = reason;
	decision->retry_after_ns = u64_max(decision->retry_after_ns, 1);
	decision->wait_ns = 0;
}
