/*
 * resp_adhoc.c: reads and answers CL.THROTTLE (of redis-cell) and THROTTLE (of throttlecrab), two
 * commands that carry the parameters of their limit, and the commands for keys of these limits:
 * DEL, EXISTS, TTL and PTTL.
 */
#include "base/error.h"
#include "base/number.h"
#include "proto/adhoc_command.h"
#include "proto/resp/resp_session.h"

int resp_read_cl_throttle(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                          size_t n)
{
	(void)spec;
	return adhoc_read(fill, args[1], args + 2, n - 2, REDIS_CELL_MIN_BURST);
}

int resp_read_throttle(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                       size_t n)
{
	(void)spec;
	return adhoc_read(fill, args[1], args + 2, n - 2, THROTTLECRAB_MIN_BURST);
}

int resp_read_key(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                  size_t n)
{
	(void)n;
	return fill_key(fill, args[spec->key_index]);
}

/* Reads DEL or EXISTS: makes a batch with one request for each key. */
int resp_read_keys(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n)
{
	size_t count = n - spec->key_index;
	struct request *items;

	if (count > fill->bounds->batch_max)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu keys, found %zu",
		                 fill->bounds->batch_max, count);
	items = arena_array(fill->arena, count, sizeof *items);
	if (!items)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct fill item;
		int status;

		fill_begin(&item, &items[i], fill->bounds, fill->arena);
		status = fill_key(&item, args[spec->key_index + i]);
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

#define CL_THROTTLE_COUNT 5

/*
 * Writes the numbers of redis-cell's reply: limited, limit, remaining, retry after and reset after
 * in seconds.
 */
void resp_write_cl_throttle(const struct reply *reply, struct buffer *out)
{
	const struct weir_decision *d = &reply->decision;
	bool never_passes = reply->status == WEIR_ECOST; /* a cost above what the limit can grant */
	bool has_no_retry = d->allowed || never_passes;
	int64_t values[CL_THROTTLE_COUNT] = {
	    !d->allowed,
	    (int64_t)d->quota,
	    (int64_t)d->remaining,
	    has_no_retry ? -1 : (int64_t)u64_max(adhoc_seconds(d->retry_after_ns), 1),
	    (int64_t)adhoc_seconds(d->reset_after_ns),
	};

	resp_write_integers(out, CL_THROTTLE_COUNT, values, CL_THROTTLE_COUNT);
}

void resp_write_throttle(const struct reply *reply, struct buffer *out)
{
	int64_t values[THROTTLECRAB_COUNT];

	adhoc_throttlecrab_values(reply, values);
	resp_write_integers(out, THROTTLECRAB_COUNT, values, THROTTLECRAB_COUNT);
}

#define TTL_OF_MISSING_KEY (-2) /* as in Redis */

static uint64_t time_to_live_ms(const struct reply *reply)
{
	return ceil_div(reply->decision.reset_after_ns, NS_PER_MS);
}

void resp_write_pttl(const struct reply *reply, struct buffer *out)
{
	resp_write_integer(out,
	                   reply->has_state ? (int64_t)time_to_live_ms(reply) : TTL_OF_MISSING_KEY);
}

/* Rounds to the nearest second, as Redis does. */
void resp_write_ttl(const struct reply *reply, struct buffer *out)
{
	int64_t seconds = (int64_t)((time_to_live_ms(reply) + 500) / 1000);

	resp_write_integer(out, reply->has_state ? seconds : TTL_OF_MISSING_KEY);
}
