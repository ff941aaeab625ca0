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

/* The word of a window's state is the number of its units, less 1. */
static struct algo_state add_to_window(const struct chunk_units_reserved *reserved, uint64_t now_ns,
                                       struct algo_state state)
{
	bool is_open = state.until_ns > now_ns;
	uint64_t units = reserved->others_units + (is_open ? (uint64_t)state.word + 1 : 0);

	return (struct algo_state){is_open ? state.until_ns : reserved->ends_ns,
	                           (uint32_t)(u64_min(units, UINT32_MAX) - 1)};
}

/*
 * A bucket counts in *parts*: a nanosecond has q of them, and a unit p. Its state ends `word` parts
 * before until_ns.
 */
static struct algo_state add_to_bucket(const struct bucket_params *params, uint64_t units,
                                       uint64_t now_ns, struct algo_state state)
{
	/* A value at Redis may have any word. */
	uint32_t parts_before_end = state.word < params->q ? state.word : 0;
	u128 parts = (u128)units * params->p;

	if (state.until_ns > now_ns)
		parts += (u128)(state.until_ns - now_ns) * params->q - parts_before_end;
	return (struct algo_state){
	    now_ns + sat_u64((parts + params->q - 1) / params->q),
	    (uint32_t)((params->q - parts % params->q) % params->q),
	};
}

/* Returns the state as if the units that other servers hold were used. */
static struct algo_state add_units_of_others(const struct algo_limit *limit, uint64_t now_ns,
                                             const struct chunk_units_reserved *reserved,
                                             struct algo_state state)
{
	if (reserved->others_units == 0)
		return state;
	return algo_has_step(limit, bucket_step)
	           ? add_to_bucket(&limit->bucket, reserved->others_units, now_ns, state)
	           : add_to_window(reserved, now_ns, state);
}

/*
 * The retry time of a denied request; `formula_ns` is that of a state in which the units of others
 * are used. But they are not used: others return them after the idle time, and some time for the
 * call, and until then they do not leak from a bucket.
 */
static uint64_t retry_ns_with_chunks(const struct algo_limit *limit, const struct algo_call *call,
                                     const struct algo_time *time, uint64_t others_units,
                                     struct algo_state state, uint64_t formula_ns)
{
	uint64_t returned_ns = chunk_units_idle_ns(limit) + chunk_units_idle_ns(limit) / 4;
	/* A bucket in which nothing is used has no space for the request beside the units of others. */
	bool must_be_returned =
	    algo_has_step(limit, bucket_step) && others_units + u64_max(call->cost, 1) > limit->quota;
	struct algo_call peek = *call;
	struct algo_decision without_others;

	peek.op = ALGO_PEEK;
	algo_step(limit, &peek, time, &state, &without_others);
	if (!without_others.allowed)
		return must_be_returned ? u64_max(returned_ns, formula_ns) : formula_ns;
	return must_be_returned ? returned_ns : u64_min(returned_ns, formula_ns);
}

/* Applies a refund or a reset. The outcome shows what remains beside the units of others. */
static uint64_t step_without_request(const struct algo_limit *limit, const struct algo_call *call,
                                     const struct algo_time *time,
                                     const struct chunk_units_reserved *reserved,
                                     struct algo_state *state, struct algo_decision *out)
{
	const struct algo_call peek = {.op = ALGO_PEEK, .cost = 1};
	bool changed = algo_step(limit, call, time, state, out);
	struct algo_state with_others = add_units_of_others(limit, time->now_ns, reserved, *state);
	struct algo_decision peeked;

	algo_step(limit, &peek, time, &with_others, &peeked);
	out->remaining = peeked.remaining;
	out->reset_after_ns = peeked.reset_after_ns;
	return changed ? state->until_ns : 0;
}

/*
 * Applies a call while others hold units. The decision counts these as used; *state does not get
 * them, but only the units that the call takes.
 */
uint64_t chunk_units_step(const struct algo_limit *limit, const struct algo_call *call,
                          const struct algo_time *time, const struct chunk_units_reserved *reserved,
                          struct algo_state *state, struct algo_decision *out)
{
	struct algo_state with_others;
	struct algo_decision ignored;

	if (!algo_op_requests(call->op))
		return step_without_request(limit, call, time, reserved, state, out);
	with_others = add_units_of_others(limit, time->now_ns, reserved, *state);
	algo_step(limit, call, time, &with_others, out);
	if (!out->allowed)
		out->retry_after_ns = retry_ns_with_chunks(limit, call, time, reserved->others_units,
		                                           *state, out->retry_after_ns);
	if (!out->allowed || !algo_consumes(call))
		return 0;
	if (!algo_has_step(limit, bucket_step) && state->until_ns <= time->now_ns) {
		/* The window has no used units. If units of it are held, it is open nevertheless. */
		*state = (struct algo_state){reserved->ends_ns, (uint32_t)(call->cost - 1)};
		out->reset_after_ns = reserved->ends_ns - time->now_ns;
	} else if (reserved->others_units == 0) {
		*state = with_others;
	} else {
		algo_step(limit, call, time, state, &ignored);
	}
	return state->until_ns;
}
