/* bucket.h: the maths of token_bucket, leaky_bucket, pacer and leaky_queue, see rates/bucket.c. */
#ifndef ALGO_RATES_BUCKET_H
#define ALGO_RATES_BUCKET_H

#include "algo/algo.h"

/* The most that may wait: what every reader of JSON can count. */
#define BUCKET_WAITING_MAX (UINT64_C(1) << 53)

/* A bucket admits some tokens at once, then as many as may wait, and so long. */
struct bucket_shape {
	uint64_t at_once;
	uint64_t queue;
	uint64_t max_wait_ns;
};

/**
 * Makes the limit a bucket of that shape. ERANGE if it would reach past ALGO_HORIZON_NS; the
 * message blames the parameter `word`.
 */
int bucket_init(struct algo_limit *limit, uint64_t count, const struct bucket_shape *shape,
                const char *word, struct weir_error *error);

/** Whether a refund that names what it gives back does so only if nothing was taken since. */
static inline bool bucket_refunds_newest(const struct bucket_params *params)
{
	return params->at_once.ns != params->depth.ns;
}

/** How long the last turn of a request of that cost is away when no turn is taken. */
uint64_t bucket_least_wait_ns(const struct algo_limit *limit, uint64_t cost);

/* The part that the descriptions of buckets share. */
bool bucket_step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_decision *out);
void bucket_cut(const struct algo_limit *limit, struct algo_state *state);
struct algo_layout bucket_layout(const struct algo_limit *limit);
/**
 * The same number of tokens in use; all of the limit's where `from` is NULL. Both have one period.
 * Rounded up by less than 1/q ns, so nothing is gained by a change. A state that reaches further
 * ahead of since_ns than `from` lets any was written later, and is converted as of now.
 */
struct algo_converted bucket_convert(const struct algo_limit *limit, const struct algo_layout *from,
                                     uint64_t since_ns, uint64_t now_ns, struct algo_state state);

bool bucket_restore(const struct algo_limit *limit, const struct algo_layout *layout,
                    struct algo_limit *then);
/** Whether tokens of such parameters came in whole nanoseconds. */
bool bucket_is_whole(const struct algo_limit *limit, const struct algo_layout *layout);

#define BUCKET_HOOKS                                                                               \
	.step = bucket_step, .word = "under", .cut = bucket_cut, .layout = bucket_layout,              \
	.convert = bucket_convert, .restore = bucket_restore, .least_wait_ns = bucket_least_wait_ns

#endif
