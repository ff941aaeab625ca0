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

struct random_params {
	uint64_t deny;             /* of ALL draws so many are denied: as given, ... */
	_Atomic uint64_t deny_now; /* and as it has been changed since */
};

_Static_assert(sizeof(struct random_params) <= sizeof((struct algo_limit *)0)->own,
               "a limit has room for them");

/* Not const: the share changes while the limit is used. */
static struct random_params *params_of(const struct algo_limit *limit)
{
	return (struct random_params *)limit->own;
}

static uint64_t threshold(double deny)
{
	return (uint64_t)(deny * (double)ALL);
}

/* It has no period. Where one is needed, such as to tell rates, that is a second. */
static int init(struct algo_limit *limit, const struct weir_limit_options *options,
                struct weir_error *error)
{
	uint64_t deny = threshold(options->deny);

	(void)error;
	*params_of(limit) = (struct random_params){deny, deny};
	limit->quota = ALGO_COUNT_MAX;
	limit->window_ns = 0;
	return WEIR_OK;
}

static bool step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_outcome *out)
{
	uint64_t deny = atomic_load_explicit(&params_of(limit)->deny_now, memory_order_relaxed);
	bool draws = call->op == ALGO_ACQUIRE && call->cost > 0;

	(void)time;
	(void)state;
	out->remaining = deny == ALL ? 0 : ALGO_COUNT_MAX;
	if (call->op <= ALGO_PEEK && (draws ? call->draw >> 1 < deny : deny == ALL)) {
		algo_outcome_deny(out, WEIR_REASON_SHED, limit->retry_ns);
		out->remaining = 0;
	}
	out->reset_after_ns = 0;
	return false;
}

static void set_share(const struct algo_limit *limit, double share)
{
	atomic_store(&params_of(limit)->deny_now, threshold(share));
}

/*
 * A thread that changes the share stores it first and then looks for a successor. So this reads
 * the new share, or that thread stores it in `next`.
 */
static void inherit(const struct algo_limit *limit, struct algo_limit *next)
{
	uint64_t given = params_of(next)->deny;

	if (params_of(limit)->deny == given)
		atomic_compare_exchange_strong(&params_of(next)->deny_now, &given,
		                               atomic_load(&params_of(limit)->deny_now));
}

static void amend(const struct algo_limit *limit, struct weir_limit_options *options)
{
	uint64_t now = atomic_load_explicit(&params_of(limit)->deny_now, memory_order_relaxed);

	options->deny = (double)now / (double)ALL;
}

const struct weir_limit_options algorithm_denies_all = {
    .name = "denies-all", .algorithm = WEIR_RANDOM, .deny = 1};

const struct algorithm algorithm_random = {
    .name = "random",
    .id = WEIR_RANDOM,
    .parameters = {{"deny", ALGO_DECIMAL, ALGO_FIELD(deny), .required = true, .max = 1}, ALGO_RETRY_ROW},
    .sample = "deny: 0.2",
    .draws = true,
    .guesses = true,
    .init = init,
    .step = step,
    .inherit = inherit,
    .set_share = set_share,
    .amend = amend,
};
