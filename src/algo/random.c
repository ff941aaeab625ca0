/*
 * random.c: describes and decides `random` limits, which deny each request with the same
 * probability.
 *
 * The random draw is part of the call, so the step stays pure. The share to deny is counted in
 * 1/2^63 of all requests (PRIORITY_ALL is 2^63), so any double from 2^-10 to 1 is exact. There is
 * no state. A peek passes unless all requests are denied.
 *
 * If requests have priorities, the total share stays the same, but falls on the lowest priorities.
 * For this the limit counts its recent demand; keys have none of their own.
 */
#include "algo/algo.h"
#include "algo/priority/demand.h"
#include "base/error.h"

struct random_params {
	uint64_t configured_share; /* of requests to deny, in 1/PRIORITY_ALL, ... */
	_Atomic uint64_t share;    /* and as set since (set_deny_share) */
};

_Static_assert(sizeof(struct random_params) <= sizeof((struct algo_limit *)0)->own,
               "a limit has room for them");

/* The parameters are not const: the share changes while the limit is in use. */
static struct random_params *params_of(const struct algo_limit *limit)
{
	return (struct random_params *)limit->own;
}

static uint64_t share_of_all(double share)
{
	return (uint64_t)(share * (double)PRIORITY_ALL);
}

/* The limit has no period; period_ns stays a second, for code that shows rates. */
static int init_random(struct algo_limit *limit, const struct weir_limit_options *options,
                       struct weir_error *error)
{
	uint64_t share = share_of_all(options->deny);

	*params_of(limit) = (struct random_params){share, share};
	limit->quota = ALGO_COUNT_MAX;
	limit->quota_kind = ALGO_QUOTA_NONE;
	limit->window_ns = 0;
	limit->demand = demand_open();
	return limit->demand ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

/* Denies the share of requests. Returns false, as a step does that changes no state. */
static inline bool decide_by_draw(const struct algo_limit *limit, const struct algo_call *call,
                                  uint64_t share, struct algo_decision *out)
{
	bool denies_all = share == PRIORITY_ALL;
	bool is_drawn = algo_makes_draw(call) ? priority_is_in(share, call->draw) : denies_all;

	if (algo_op_requests(call->op) && is_drawn)
		algo_decision_deny(out, WEIR_REASON_SHED, limit->retry_ns);
	out->reset_after_ns = 0;
	return false;
}

/*
 * As decide_by_draw, with the share that falls on the request's priority. Not inlined, and called
 * last, so that requests without priorities save no registers for it.
 */
__attribute__((noinline)) static bool decide_by_priority(const struct algo_limit *limit,
                                                         const struct algo_call *call,
                                                         uint64_t now_ns, uint64_t share,
                                                         struct algo_decision *out)
{
	bool counts = algo_makes_draw(call);
	struct priority_demand demand = counts ? demand_add(limit->demand, call->priority, now_ns)
	                                       : demand_peek(limit->demand, call->priority, now_ns);

	return decide_by_draw(limit, call, priority_share(share, &demand, call->priority), out);
}

static bool step_random(const struct algo_limit *limit, const struct algo_call *call,
                        const struct algo_time *time, struct algo_state *state,
                        struct algo_decision *out)
{
	uint64_t share = atomic_load_explicit(&params_of(limit)->share, memory_order_relaxed);

	(void)state;
	if (demand_matters(limit->demand, call->priority, time->now_ns))
		return decide_by_priority(limit, call, time->now_ns, share, out);
	return decide_by_draw(limit, call, share, out);
}

static void set_deny_share(const struct algo_limit *limit, double share)
{
	atomic_store(&params_of(limit)->share, share_of_all(share));
}

static void copy_demand(const struct algo_limit *limit, struct algo_limit *next)
{
	demand_copy(next->demand, limit->demand);
}

/*
 * Sets in `next` the share that was set in `limit`, unless another share is configured. A thread
 * that sets the share stores it first and then looks for a successor. So either this function reads
 * the new share, or that thread stores it in `next`.
 */
static void take_over_share(const struct algo_limit *limit, struct algo_limit *next)
{
	uint64_t configured = params_of(next)->configured_share;

	if (params_of(limit)->configured_share == configured)
		atomic_compare_exchange_strong(&params_of(next)->share, &configured,
		                               atomic_load(&params_of(limit)->share));
}

static void amend_share(const struct algo_limit *limit, struct weir_limit_options *options)
{
	uint64_t share = atomic_load_explicit(&params_of(limit)->share, memory_order_relaxed);

	options->deny = (double)share / (double)PRIORITY_ALL;
}

const struct weir_limit_options algorithm_denies_all = {
    .name = "denies-all", .algorithm = WEIR_ALGORITHM_RANDOM, .deny = 1};

const struct algorithm algorithm_random = {
    .name = "random",
    .id = WEIR_ALGORITHM_RANDOM,
    .parameters = {{"deny", ALGO_DECIMAL, ALGO_FIELD(deny), .required = true, .max = 1},
                   ALGO_RETRY_ROW},
    .sample = "deny: 0.2",
    .draws = true,
    .retry_is_estimate = true,
    .init = init_random,
    .step = step_random,
    .before_takeover = copy_demand,
    .after_takeover = take_over_share,
    .set_share = set_deny_share,
    .amend = amend_share,
};
