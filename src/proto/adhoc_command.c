#include "proto/adhoc_command.h"

#include "base/error.h"
#include "base/number.h"

int adhoc_read(struct fill *fill, struct slice key, const struct slice *numbers, size_t n,
               unsigned min_burst)
{
	const struct {
		const char *name;
		int64_t min;
	} params[] = {{"max_burst", min_burst}, {"count", 1}, {"period", 1}, {"quantity", 0}};
	int64_t values[4] = {[3] = 1};

	for (size_t i = 0; i < n; i++)
		if (!parse_i64(numbers[i], &values[i]) || values[i] < params[i].min)
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected %s to be a whole number of at least %lld, found '%.*s'",
			                 params[i].name, (long long)params[i].min, FILL_QUOTE(numbers[i]));
	fill->request->adhoc = (struct request_adhoc){
	    .burst = (uint64_t)values[0] + (min_burst == 0),
	    .count = (uint64_t)values[1],
	    .period_s = (uint64_t)values[2],
	};
	fill->request->cost = (uint64_t)values[3];
	return fill_key(fill, key);
}

uint64_t adhoc_seconds(uint64_t ns)
{
	return ceil_div(ns / NS_PER_MS, 1000);
}

void adhoc_throttlecrab(const struct reply *reply, int64_t values[THROTTLECRAB_COUNT])
{
	const struct weir_decision *d = &reply->decision;

	values[THROTTLECRAB_ALLOWED] = d->allowed;
	values[THROTTLECRAB_LIMIT] = (int64_t)d->quota;
	values[THROTTLECRAB_REMAINING] = (int64_t)d->remaining;
	values[THROTTLECRAB_RESET] = (int64_t)adhoc_seconds(d->reset_after_ns);
	values[THROTTLECRAB_RETRY] =
	    d->allowed ? 0 : (int64_t)u64_max(adhoc_seconds(d->retry_after_ns), 1);
}
