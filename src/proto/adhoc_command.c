/*
 * adhoc_command.c: reads and answers requests that carry the parameters of their limit: those of
 * redis-cell (CL.THROTTLE) and throttlecrab (THROTTLE, POST /throttle).
 */
#include "proto/adhoc_command.h"

#include "base/error.h"
#include "base/number.h"

/*
 * Fills in a request from `n` texts: max_burst, count, period, and optionally quantity. `min_burst`
 * says whose request it is: redis-cell's burst is max_burst + 1, throttlecrab's max_burst. Returns
 * 0, or a status.
 */
int adhoc_read(struct fill *fill, struct slice key, const struct slice *numbers, size_t n,
               unsigned min_burst)
{
	enum { MAX_BURST, COUNT, PERIOD, QUANTITY };
	const struct {
		const char *name;
		int64_t min, max;
	} params[] = {[MAX_BURST] = {"max_burst", min_burst,
	                             ADHOC_COUNT_MAX - (min_burst == REDIS_CELL_MIN_BURST)},
	              [COUNT] = {"count", 1, ADHOC_COUNT_MAX},
	              [PERIOD] = {"period", 1, ADHOC_PERIOD_MAX_S},
	              [QUANTITY] = {"quantity", 0, INT64_MAX}};
	int64_t values[] = {[QUANTITY] = 1}; /* the only optional one */

	for (size_t i = 0; i < n; i++)
		if (!parse_i64(numbers[i], &values[i]) || values[i] < params[i].min ||
		    values[i] > params[i].max)
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected %s to be a whole number from %lld to %lld, found '%.*s'",
			                 params[i].name, (long long)params[i].min, (long long)params[i].max,
			                 FILL_QUOTE(numbers[i]));
	fill->request->adhoc = (struct request_adhoc){
	    .burst = (uint64_t)values[MAX_BURST] + (min_burst == REDIS_CELL_MIN_BURST),
	    .count = (uint64_t)values[COUNT],
	    .period_s = (uint64_t)values[PERIOD],
	};
	fill->request->cost = (uint64_t)values[QUANTITY];
	return fill_key(fill, key);
}

/* Rounds up to whole seconds, but drops parts of a millisecond. */
uint64_t adhoc_seconds(uint64_t ns)
{
	return ceil_div(ns / NS_PER_MS, 1000);
}

/* The decision as the five numbers of throttlecrab. */
void adhoc_throttlecrab_values(const struct reply *reply, int64_t values[THROTTLECRAB_COUNT])
{
	const struct weir_decision *d = &reply->decision;

	values[THROTTLECRAB_ALLOWED] = d->allowed;
	values[THROTTLECRAB_LIMIT] = (int64_t)d->quota;
	values[THROTTLECRAB_REMAINING] = (int64_t)d->remaining;
	values[THROTTLECRAB_RESET] = (int64_t)adhoc_seconds(d->reset_after_ns);
	values[THROTTLECRAB_RETRY] =
	    d->allowed ? 0 : (int64_t)u64_max(adhoc_seconds(d->retry_after_ns), 1);
}
