/*
 * bucket.h: decides the limits that admit some tokens at once and refill at a rate: token_bucket,
 * leaky_bucket, and those whose requests may wait, pacer and leaky_queue. rates/bucket.c has the
 * formulas.
 */
#ifndef ALGO_RATES_BUCKET_H
#define ALGO_RATES_BUCKET_H

#include "algo/algo.h"

/* The most tokens that may wait: the greatest count that any reader of JSON can represent. */
#define BUCKET_WAITING_MAX (UINT64_C(1) << 53)

/* A bucket admits some tokens at once, and others that wait for at most max_wait_ns. */
struct bucket_shape {
	uint64_t tokens_at_once;
	uint64_t tokens_waiting;
	uint64_t max_wait_ns;
};

/**
 * Makes the limit a bucket of that shape. Returns ERANGE if a state could end later than
 * ALGO_HORIZON_NS after now; the message names the parameter `word`.
 */
int bucket_init(struct algo_limit *limit, uint64_t count, const struct bucket_shape *shape,
                const char *word, struct weir_error *error);

/** Whether a refund with until_ns succeeds only if no request came since: the limit has turns. */
static inline bool bucket_refunds_newest(const struct bucket_params *params)
{
	return params->at_once.ns != params->depth.ns;
}

/** The wait of a request of that cost for the last of its turns if the key is unused. */
uint64_t bucket_least_wait_ns(const struct algo_limit *limit, uint64_t cost);

/* The hooks that all buckets share, see algorithm.h. */
bool bucket_step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_decision *out);
void bucket_cut(const struct algo_limit *limit, struct algo_state *state);
struct algo_layout bucket_layout(const struct algo_limit *limit);
/**
 * Keeps the number of tokens in use, or takes all of the limit's if `from` is NULL. Both limits
 * have one period. Rounds up by less than 1/q ns, so that no client gains by a change. A state that
 * ends later after since_ns than `from` allows was written later, so it is converted as of now_ns.
 */
struct algo_converted bucket_convert(const struct algo_limit *limit, const struct algo_layout *from,
                                     uint64_t since_ns, uint64_t now_ns, struct algo_state state);

bool bucket_restore(const struct algo_limit *limit, const struct algo_layout *layout,
                    struct algo_limit *then);
/** Whether the layout had a token each whole number of nanoseconds. */
bool bucket_is_whole(const struct algo_limit *limit, const struct algo_layout *layout);

#define BUCKET_HOOKS                                                                               \
	.step = bucket_step, .word = "under", .cut = bucket_cut, .layout = bucket_layout,              \
	.convert = bucket_convert, .restore = bucket_restore, .least_wait_ns = bucket_least_wait_ns

#endif
