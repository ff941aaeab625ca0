/* command_chunk.c: steps on keys with chunks, as scripts/bucket_chunk.lua and window_chunk.lua read
 * them. */
#include "algo/rates/bucket.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/value.h"

/* A text and numbers, as struct.unpack takes them. */
static void add_text_packed(struct buffer *out, const struct algo_limit *limit,
                            const struct numbers *numbers)
{
	char all[VALUE_HEAD_MAX + 1 + sizeof numbers->bytes];
	char *at = all + value_head(limit, all);

	*at++ = '\0';
	at = mempcpy(at, numbers->bytes, numbers->count * sizeof(double));
	add_slice(out, (struct slice){all, (size_t)(at - all)});
}

/* Writes the operation that a script carries out at a key with chunks. */
static void put_operation(struct numbers *numbers, const struct redis_command *step)
{
	const struct algo_call *call = &step->call;
	bool is_question = command_is_question(step) && call->op != ALGO_REFUND;

	put(numbers, is_question ? ALGO_PEEK : call->op);
	put(numbers, step->units.is_whole);
	put(numbers, step->repeat);
	put(numbers, call->op == ALGO_REFUND ? call->cost : u64_max(call->cost, 1));
	put_ns(numbers, call->op == ALGO_REFUND ? call->until_ns : 0);
}

static void put_chunk(struct numbers *numbers, const struct command_units *units)
{
	put(numbers, units->id);
	put(numbers, units->number);
	put(numbers, units->used);
}

void command_add_bucket_chunk(struct buffer *out, const struct redis_command *step)
{
	const struct bucket_params *params = &step->limit->bucket;
	const struct command_units *units = &step->units;
	struct bucket_time own = {units->own.until_ns, units->own.word};
	struct redis_command asked = *step;
	struct numbers numbers = {0};

	if (step->call.op == ALGO_REFUND)
		asked.call.cost = u64_min(step->call.cost, params->burst);
	put_operation(&numbers, &asked);
	put(&numbers, bucket_refunds_newest(params));
	put(&numbers, params->q);
	put_parts(&numbers, params->p, params->q);
	put_parts(&numbers, parts_of(params->depth, params->q), params->q);
	put_chunk(&numbers, units);
	put_parts(&numbers, parts_of(own, params->q), params->q);
	put(&numbers, units->want);
	put(&numbers, units->lease_ns / 1000);
	put(&numbers, value_block_us(step->limit));
	add_text_packed(out, step->limit, &numbers);
}

void command_add_window_chunk(struct buffer *out, const struct redis_command *step)
{
	struct numbers numbers = {0};

	put_operation(&numbers, step);
	put(&numbers, step->limit->quota);
	command_put_window(&numbers, step);
	put_chunk(&numbers, &step->units);
	put(&numbers, step->units.want);
	add_text_packed(out, step->limit, &numbers);
}
