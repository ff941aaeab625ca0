/* resp_adhoc.c: CL.THROTTLE and THROTTLE, and what Redis has for their keys. */
#include "base/error.h"
#include "base/number.h"
#include "proto/resp_session.h"

/* CL.THROTTLE and THROTTLE name key max_burst count period [quantity]. */
static int read_adhoc(struct fill *fill, const struct slice *args, size_t n, unsigned min_burst)
{
	const struct {
		const char *name;
		int64_t min;
	} params[] = {{"max_burst", min_burst}, {"count", 1}, {"period", 1}, {"quantity", 0}};
	int64_t values[4] = {[3] = 1};

	for (size_t i = 0; i + 2 < n; i++)
		if (!parse_i64(args[i + 2], &values[i]) || values[i] < params[i].min)
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected %s to be a whole number of at least %lld, found '%.*s'",
			                 params[i].name, (long long)params[i].min, FILL_QUOTE(args[i + 2]));
	/* redis-cell grants one token on top of max_burst, throttlecrab does not. */
	fill->request->adhoc = (struct request_adhoc){
	    .burst = (uint64_t)values[0] + (min_burst == 0),
	    .count = (uint64_t)values[1],
	    .period_s = (uint64_t)values[2],
	};
	fill->request->cost = (uint64_t)values[3];
	return fill_key(fill, args[1]);
}

int resp_read_cell(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n)
{
	(void)spec;
	return read_adhoc(fill, args, n, 0);
}

int resp_read_crab(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n)
{
	(void)spec;
	return read_adhoc(fill, args, n, 1);
}

int resp_read_key(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                  size_t n)
{
	(void)n;
	return fill_key(fill, args[spec->key]);
}

/* One request for each key. */
int resp_read_keys(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n)
{
	size_t count = n - spec->key;
	struct request *items;

	if (count > fill->limits->batch_max)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu keys, found %zu",
		                 fill->limits->batch_max, count);
	items = arena_array(fill->arena, count, sizeof *items);
	if (!items)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct fill item = {.request = &items[i], .limits = fill->limits};
		int status = fill_key(&item, args[spec->key + i]);

		if (status != 0) {
			fill->error = item.error;
			return status;
		}
		items[i].kind = REQUEST_KEY;
		items[i].op = spec->op;
		items[i].class = spec->class;
	}
	fill->request->kind = REQUEST_BATCH;
	fill->request->items = items;
	fill->request->item_count = count;
	return 0;
}

/* Seconds, rounded up as soon as a millisecond is left. */
static uint64_t seconds_left(uint64_t ns)
{
	return ceil_div(ns / NS_PER_MS, 1000);
}

void resp_write_cell(const struct reply *reply, struct buffer *out)
{
	const struct weir_decision *d = &reply->decision;
	bool never = d->allowed || reply->status == WEIR_ECOST;
	int64_t values[] = {
	    !d->allowed,
	    (int64_t)d->quota,
	    (int64_t)d->remaining,
	    never ? -1 : (int64_t)u64_max(seconds_left(d->retry_after_ns), 1),
	    (int64_t)seconds_left(d->reset_after_ns),
	};

	resp_write_integers(out, 5, values, 5);
}

void resp_write_crab(const struct reply *reply, struct buffer *out)
{
	const struct weir_decision *d = &reply->decision;
	int64_t values[] = {
	    d->allowed,
	    (int64_t)d->quota,
	    (int64_t)d->remaining,
	    (int64_t)seconds_left(d->reset_after_ns),
	    d->allowed ? 0 : (int64_t)u64_max(seconds_left(d->retry_after_ns), 1),
	};

	resp_write_integers(out, 5, values, 5);
}

static uint64_t left_ms(const struct reply *reply)
{
	return ceil_div(reply->decision.reset_after_ns, NS_PER_MS);
}

void resp_write_pttl(const struct reply *reply, struct buffer *out)
{
	resp_write_integer(out, reply->known ? (int64_t)left_ms(reply) : -2);
}

/* To the nearest second, as Redis. */
void resp_write_ttl(const struct reply *reply, struct buffer *out)
{
	resp_write_integer(out, reply->known ? (int64_t)((left_ms(reply) + 500) / 1000) : -2);
}
