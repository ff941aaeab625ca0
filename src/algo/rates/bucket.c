/*
 * bucket.c: decides token_bucket, leaky_bucket, pacer and leaky_queue limits, all by GCRA.
 *
 * The generic cell rate algorithm (ITU-T I.371, annex A), in its virtual scheduling form, has one
 * time as its state: TAT, the theoretical arrival time, at which the bucket will be full of tokens
 * again. With T = period / count and burst B, a request of cost c passes iff
 *
 *     max(TAT, now) + c T - now <= B T,    and then  TAT = max(TAT, now) + c T.
 *
 * For a leaky_bucket, (TAT - now) / T is the level of the bucket.
 *
 * A pacer and a leaky_queue have two bounds in place of B T. A request whose TAT - now is past
 * `at_once` waits until it no longer is, and one past `depth` is denied. The time at which a
 * request may start is its turn: TAT - at_once for the newest request.
 *
 *     depth = at_once + min(tokens_waiting T, max_wait)
 *
 *     token_bucket, leaky_bucket    at_once = B T              tokens_waiting = 0
 *     pacer                         at_once = (slack + 1) T    tokens_waiting = 2^53
 *     leaky_queue                   at_once = T                tokens_waiting = capacity
 *
 * T is a rational number p/q of nanoseconds, and so is every TAT. A state has it exactly: in whole
 * nanoseconds, rounded up, and the 1/q parts that were added by rounding. So no rate drifts, and
 * the rounded time alone tells whether the state has expired:
 *
 *     TAT = until_ns - word / q,    TAT > now  iff  until_ns > now.
 */
#include "algo/rates/bucket.h"

#include "base/error.h"

/* Longer than any depth; the sum of two does not overflow. */
#define TIME_MAX (UINT64_MAX / 4)

/* Returns parts/q ns: rounded up to whole nanoseconds, and by how many parts. */
static struct bucket_time time_of(u128 parts, uint64_t q)
{
	u128 ns = (parts + q - 1) / q;

	if (ns > TIME_MAX)
		return (struct bucket_time){TIME_MAX, 0};
	return (struct bucket_time){(uint64_t)ns, (uint32_t)(ns * q - parts)};
}

/*
 * Computes the parameters of a bucket from its rate and shape. Returns false if a state could end
 * later than ALGO_HORIZON_NS after now.
 */
static bool derive_bucket(struct bucket_params *params, uint64_t count, uint64_t period_ns,
                          const struct bucket_shape *shape)
{
	uint64_t divisor = gcd_u64(count, period_ns);
	uint64_t p = period_ns / divisor, q = count / divisor;
	/* In 1/q ns: a token takes p of these. */
	u128 at_once = (u128)shape->tokens_at_once * p, queue = (u128)shape->tokens_waiting * p;
	u128 max_wait = (u128)shape->max_wait_ns * q;
	u128 depth = at_once + (queue < max_wait ? queue : max_wait);
	enum weir_reason bound_of_queue =
	    queue <= max_wait ? WEIR_REASON_QUEUE_FULL : WEIR_REASON_WAIT_TOO_LONG;

	if (depth / q > ALGO_HORIZON_NS)
		return false;
	*params = (struct bucket_params){
	    .count = count,
	    .burst = (uint64_t)((depth + p - 1) / p),
	    .p = p,
	    .q = q,
	    .interval = time_of(p, q),
	    .depth = time_of(depth, q),
	    .at_once = time_of(at_once, q),
	    .denial = queue == 0 ? WEIR_REASON_OVER_LIMIT : bound_of_queue,
	};
	return true;
}

static struct bucket_time time_add(struct bucket_time a, struct bucket_time b, uint64_t q)
{
	uint64_t under = (uint64_t)a.under + b.under;
	uint64_t carry = under >= q;

	return (struct bucket_time){a.ns + b.ns - carry, (uint32_t)(under - (carry ? q : 0))};
}

/* a - b, where a >= b. */
static struct bucket_time time_sub(struct bucket_time a, struct bucket_time b, uint64_t q)
{
	uint64_t borrow = a.under < b.under;

	return (struct bucket_time){a.ns - b.ns + borrow,
	                            (uint32_t)((borrow ? q : 0) + a.under - b.under)};
}

static bool time_at_most(struct bucket_time a, struct bucket_time b)
{
	return a.ns < b.ns || (a.ns == b.ns && a.under >= b.under);
}

/* Returns c T: the time in which the cost's tokens come. */
static struct bucket_time cost_time(const struct bucket_params *params, uint64_t cost)
{
	return cost == 1 ? params->interval : time_of((u128)cost * params->p, params->q);
}

/* The whole tokens that are left if TAT is `ahead` of now. */
static uint64_t tokens_left(const struct bucket_params *params, struct bucket_time ahead)
{
	struct bucket_time left;
	u128 parts;

	if (!time_at_most(ahead, params->depth))
		return 0;
	left = time_sub(params->depth, ahead, params->q);
	parts = (u128)left.ns * params->q - left.under;
	if (parts >> 64 == 0) /* one machine division in place of a call */
		return (uint64_t)parts / params->p;
	return (uint64_t)(parts / params->p);
}

/* Returns how long a request of that cost waits on an unused key. */
uint64_t bucket_least_wait_ns(const struct algo_limit *limit, uint64_t cost)
{
	const struct bucket_params *params = &limit->bucket;
	struct bucket_time after = cost_time(params, cost);

	return time_at_most(after, params->at_once) ? 0
	                                            : time_sub(after, params->at_once, params->q).ns;
}

/* Makes the limit a bucket. `word` is the parameter that an error names. */
int bucket_init(struct algo_limit *limit, uint64_t count, const struct bucket_shape *shape,
                const char *word, struct weir_error *error)
{
	if (!derive_bucket(&limit->bucket, count, limit->period_ns, shape))
		return error_set(error, WEIR_ERANGE,
		                 "%s: expected to be refilled within 16 years, found more", word);
	limit->has_whole_interval = limit->bucket.q == 1;
	limit->quota = tokens_left(&limit->bucket, (struct bucket_time){0, 0});
	limit->window_ns = u64_max(limit->bucket.depth.ns, 1);
	return WEIR_OK;
}

/*
 * Refunds units: those of the newest request, or those that are left of an earlier one, whose TAT
 * was until_ns. The bucket leaks in the order of requests, so the c T of the earlier one will have
 * leaked at until_ns, and min(c T, until_ns - now) are left. In a limit with turns, only the newest
 * turn can be refunded: the next request gets it.
 *
 * Proof that a refund leaves no lower TAT than if the request had never come: the two states differ
 * by c T after the request. Later requests add the same to both. Time takes the same from both
 * until the state without the request is at 0; from then on they differ by TAT - now, which is at
 * least until_ns - now.
 *
 * The last step needs TAT >= until_ns. It fails if a request before this one was refunded
 * meanwhile: this one has moved forward, and leaks sooner than until_ns says. A series of such
 * refunds can gain the idle time between requests. But no more units pass, less those refunded,
 * than the burst and the units that have leaked since the bucket was idle.
 */
static bool refund_bucket(const struct bucket_params *params, const struct algo_call *call,
                          struct algo_state *state, struct bucket_time ahead, uint64_t now_ns)
{
	uint64_t most_in_use = params->burst;
	struct bucket_time refunded = cost_time(params, u64_min(call->cost, most_in_use));
	bool is_newest = call->until_ns == 0 || call->until_ns == state->until_ns;

	if (ahead.ns == 0 || call->cost == 0)
		return false;
	if (!is_newest) {
		/* until_ns may have been rounded up by less than 1 ns: allow for it. */
		struct bucket_time left = {sat_sub(call->until_ns, now_ns + (params->q > 1)), 0};

		if (bucket_refunds_newest(params) || left.ns == 0)
			return false;
		refunded = time_at_most(left, refunded) ? left : refunded;
	}
	if (time_at_most(ahead, refunded)) {
		*state = (struct algo_state){0, 0};
	} else {
		ahead = time_sub(ahead, refunded, params->q);
		*state = (struct algo_state){now_ns + ahead.ns, ahead.under};
	}
	return true;
}

/*
 * Performs a refund or a reset. Returns whether the state changed. Not inlined, so that an acquire
 * saves no registers for it.
 */
__attribute__((noinline)) static bool refund_or_reset(const struct bucket_params *params,
                                                      const struct algo_call *call,
                                                      struct algo_state *state,
                                                      struct bucket_time ahead, uint64_t now_ns,
                                                      struct algo_decision *out)
{
	bool changed;

	if (call->op == ALGO_RESET) {
		changed = state->until_ns != 0;
		*state = (struct algo_state){0, 0};
	} else {
		changed = refund_bucket(params, call, state, ahead, now_ns);
		algo_decision_refund(out, call, changed);
	}
	return changed;
}

/* The burst of a paced limit may have more bits than fit: the low ones tell layouts apart. */
struct algo_layout bucket_layout(const struct algo_limit *limit)
{
	return (struct algo_layout){(uint32_t)(limit->bucket.count - 1),
	                            (uint32_t)(limit->bucket.burst - 1)};
}

void bucket_cut(const struct algo_limit *limit, struct algo_state *state)
{
	state->word = limit->bucket.depth.under;
}

/*
 * Whether all units in use are turns of requests. These must not be cut, because a turn would be
 * given twice; unless they end so late that only a clock that was set back can have written them.
 */
static bool holds_only_turns(const struct bucket_params *params, struct bucket_time whole)
{
	return bucket_refunds_newest(params) && params->at_once.ns == params->interval.ns &&
	       whole.ns <= params->depth.ns + ALGO_SKEW_NS;
}

/* Returns `parts`/from->q ns as a time of `to`, in which as many tokens come. Rounds up. */
static struct bucket_time scale_time(u128 parts, const struct bucket_params *from,
                                     const struct bucket_params *to)
{
	/* A token takes p of these parts, and p = period / divisor. */
	uint64_t divisor_from = from->count / from->q, divisor_to = to->count / to->q;

	return time_of((parts * divisor_from + divisor_to - 1) / divisor_to, to->q);
}

/*
 * Converts a state of another rate, by which tokens came until since_ns: then the same number is in
 * use. Without a layout (the parameters of the state are unknown) all tokens count as in use.
 */
struct algo_converted bucket_convert(const struct algo_limit *limit,
                                     const struct algo_layout *layout, uint64_t since_ns,
                                     uint64_t now_ns, struct algo_state state)
{
	const struct bucket_params *to = &limit->bucket;
	struct bucket_shape any_shape = {1, 0, 0}; /* only p and q of the former rate are needed */
	struct bucket_params from;
	struct bucket_time cut, whole = to->depth;

	if (layout && derive_bucket(&from, (uint64_t)layout->first + 1, limit->period_ns, &any_shape)) {
		uint64_t depth_ns = time_of(((u128)layout->second + 1) * from.p, from.q).ns;
		u128 parts = 0;
		bool was_written_later = sat_sub(state.until_ns, since_ns) > depth_ns;

		if (was_written_later) /* so the former rate was in use until now */
			since_ns = now_ns;
		if (state.until_ns > since_ns)
			parts = (u128)(state.until_ns - since_ns) * from.q - state.word;
		whole = scale_time(parts, &from, to);
	}
	/* At most the tokens that the new limit allows. */
	cut = time_at_most(whole, to->depth) || holds_only_turns(to, whole) ? whole : to->depth;
	return (struct algo_converted){{since_ns + whole.ns, whole.under},
	                               {since_ns + cut.ns, cut.under}};
}

bool bucket_restore(const struct algo_limit *limit, const struct algo_layout *layout,
                    struct algo_limit *then)
{
	return derive_bucket(&then->bucket, (uint64_t)layout->first + 1, limit->period_ns,
	                     &(struct bucket_shape){1, 0, 0});
}

bool bucket_is_whole(const struct algo_limit *limit, const struct algo_layout *layout)
{
	return limit->period_ns % ((uint64_t)layout->first + 1) == 0;
}

/*
 * Whether a request whose TAT is past `at_once` passes after a wait. Sets the wait or the denial.
 */
static inline bool admit_for_a_wait(const struct bucket_params *params,
                                    const struct algo_call *call, struct bucket_time after,
                                    struct algo_decision *out)
{
	uint64_t too_late_ns = 0;

	if (!time_at_most(after, params->depth)) {
		too_late_ns = time_sub(after, params->depth, params->q).ns;
		if (call->max_wait_ns == 0) /* the most frequent case: needs no comparison of waits */
			return algo_decision_deny(out, params->denial, too_late_ns);
	}
	return algo_decision_wait(out, call, time_sub(after, params->at_once, params->q).ns,
	                          too_late_ns, params->denial);
}

/* TAT - now, at least 0. A word that other parameters wrote can make it wrong by less than 1 ns. */
static inline struct bucket_time ahead_of(const struct bucket_params *params,
                                          const struct algo_state *state, uint64_t now_ns)
{
	if (state->until_ns <= now_ns)
		return (struct bucket_time){0, 0};
	return (struct bucket_time){state->until_ns - now_ns,
	                            state->word < params->q ? state->word : 0};
}

/*
 * Decides by GCRA, as in the head of this file. `out` allows the request already; a request of cost
 * 0 asks whether one unit would pass. Returns whether the state changed.
 */
__attribute__((always_inline)) static inline bool
step_bucket(const struct bucket_params *params, const struct algo_call *call,
            const struct algo_time *time, struct algo_state *state, struct algo_decision *out)
{
	uint64_t now_ns = time->now_ns;
	struct bucket_time ahead = ahead_of(params, state, now_ns), after;
	bool changed = false;

	if (algo_op_requests(call->op)) {
		after = time_add(ahead, cost_time(params, u64_max(call->cost, 1)), params->q);
		if ((time_at_most(after, params->at_once) || admit_for_a_wait(params, call, after, out)) &&
		    algo_consumes(call)) {
			*state = (struct algo_state){now_ns + after.ns, after.under};
			ahead = after;
			changed = true;
		}
	} else {
		changed = refund_or_reset(params, call, state, ahead, now_ns, out);
		ahead = ahead_of(params, state, now_ns);
	}
	out->remaining = tokens_left(params, ahead);
	out->reset_after_ns = ahead.ns;
	return changed;
}

bool bucket_step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_decision *out)
{
	return step_bucket(&limit->bucket, call, time, state, out);
}

/* algo_step for a T of whole nanoseconds: the compiler omits all fractions. */
bool algo_step_whole(const struct algo_limit *limit, const struct algo_call *call,
                     const struct algo_time *time, struct algo_state *state,
                     struct algo_decision *out)
{
	struct bucket_params whole = limit->bucket;

	whole.q = 1;
	whole.interval.under = whole.depth.under = whole.at_once.under = 0;
	algo_decision_allow(out);
	return step_bucket(&whole, call, time, state, out);
}
