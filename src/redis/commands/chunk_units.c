/*
 * chunk_units.c: decides operations on a key while servers hold *chunks*, units of its limit that
 * they have reserved at Redis to grant them by themselves.
 */
#include "redis/commands/chunk_units.h"

#include "algo/rates/bucket.h"
#include "algo/rates/window.h"

#define IDLE_NS         NS_PER_S /* the longest time without requests before units are returned */
#define IDLE_MIN_NS     (50 * NS_PER_MS) /* the shortest time between two searches for idle chunks */
#define LIFETIME_MIN_NS (10 * NS_PER_S)
#define LIFETIME_MAX_NS (3600 * NS_PER_S)

bool chunk_units_supported(const struct algo_limit *limit)
{
	return !limit->paced &&
	       (algo_has_step(limit, bucket_step) || algo_has_step(limit, window_step));
}

uint64_t chunk_units_idle_ns(const struct algo_limit *limit)
{
	return u64_max(IDLE_MIN_NS, u64_min(IDLE_NS, limit->window_ns / 10));
}

/*
 * How long units are reserved for a server: the time in which the rate brings as many. So if the
 * server ends, they are free again after twice that time.
 */
uint64_t chunk_units_lifetime_ns(const struct algo_limit *limit)
{
	u128 chunk_ns = limit->chunk * (u128)limit->bucket.interval.ns;

	if (!algo_has_step(limit, bucket_step))
		return 0;
	return u64_max(LIFETIME_MIN_NS, u64_min(LIFETIME_MAX_NS, sat_u64(chunk_ns)));
}

/* Returns the state as if the units that other servers hold were used. */
static struct algo_state add_units_of_others(const struct algo_limit *limit, uint64_t now_ns,
                                             const struct chunk_units_reserved *reserved,
                                             struct algo_state state)
{
	uint64_t others_units = reserved->others_units;
	const struct bucket_params *params = &limit->bucket;
	bool is_live = state.until_ns > now_ns;
	u128 parts; /* the used time of the bucket, in nanoseconds times q */

	if (others_units == 0)
		return state;
	if (!algo_has_step(limit, bucket_step)) {
		uint64_t count = others_units + (is_live ? (uint64_t)state.word + 1 : 0);

		return (struct algo_state){is_live ? state.until_ns : reserved->ends_ns,
		                           (uint32_t)(u64_min(count, UINT32_MAX) - 1)};
	}
	parts = (u128)others_units * params->p;
	if (is_live)
		parts +=
		    (u128)(state.until_ns - now_ns) * params->q - (state.word < params->q ? state.word : 0);
	state.until_ns = now_ns + sat_u64((parts + params->q - 1) / params->q);
	state.word = (uint32_t)((params->q - parts % params->q) % params->q);
	return state;
}

/*
 * The retry time of a denied request. If it was denied only because of units that others hold:
 * these return unused units after the idle time, and some time for the call. Held units do not
 * leak, so this can be longer than `formula_ns`, the bucket's own formula.
 */
static uint64_t retry_ns_with_chunks(const struct algo_limit *limit, const struct algo_call *call,
                                     const struct algo_time *time, uint64_t others_units,
                                     struct algo_state state, uint64_t formula_ns)
{
	uint64_t returned_ns = chunk_units_idle_ns(limit) + chunk_units_idle_ns(limit) / 4;
	/* Even if all used units had leaked. */
	bool never_fits_beside_others =
	    algo_has_step(limit, bucket_step) && others_units + u64_max(call->cost, 1) > limit->quota;
	struct algo_call peek = *call;
	struct algo_decision without_others;

	peek.op = ALGO_PEEK;
	algo_step(limit, &peek, time, &state, &without_others);
	if (never_fits_beside_others)
		return u64_max(returned_ns, without_others.allowed ? 0 : formula_ns);
	return without_others.allowed ? u64_min(returned_ns, formula_ns) : formula_ns;
}

/* Applies a call while others hold units. Returns the name for a refund of the units, or 0. */
uint64_t chunk_units_step(const struct algo_limit *limit, const struct algo_call *call,
                          const struct algo_time *time, const struct chunk_units_reserved *reserved,
                          struct algo_state *state, struct algo_decision *out)
{
	const struct algo_call peek = {.op = ALGO_PEEK, .cost = 1};
	struct algo_state with_others;
	struct algo_decision ignored;

	if (!algo_op_requests(call->op)) {
		bool changed = algo_step(limit, call, time, state, out);

		struct algo_decision peeked;

		with_others = add_units_of_others(limit, time->now_ns, reserved, *state);
		algo_step(limit, &peek, time, &with_others, &peeked);
		out->remaining = peeked.remaining;
		out->reset_after_ns = peeked.reset_after_ns;
		return changed ? state->until_ns : 0;
	}
	with_others = add_units_of_others(limit, time->now_ns, reserved, *state);
	algo_step(limit, call, time, &with_others, out);
	if (!out->allowed)
		out->retry_after_ns = retry_ns_with_chunks(limit, call, time, reserved->others_units,
		                                           *state, out->retry_after_ns);
	if (!out->allowed || !algo_consumes(call))
		return 0;
	if (!algo_has_step(limit, bucket_step) && state->until_ns <= time->now_ns) {
		/* The window may be open only because units of it are held. */
		*state = (struct algo_state){reserved->ends_ns, (uint32_t)(call->cost - 1)};
		out->reset_after_ns = reserved->ends_ns - time->now_ns;
	} else if (reserved->others_units == 0) {
		*state = with_others;
	} else {
		algo_step(limit, call, time, state, &ignored);
	}
	return state->until_ns;
}
