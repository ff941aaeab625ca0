/*
 * warm_up.c: decides `warm_up` limits: a pacer whose keys get cold at rest, and then start slowly.
 *
 * The rate gives one permit each T. While a key rests it stores up to M permits, at M per W
 * (`warm_up`). A request starts at max(now, end), where `end` is the end of the request before it,
 * and ends when its permits have been taken. Each permit takes T, but one that was stored above a
 * threshold takes longer, up to f T (`cold`) for the last of M. These intervals lie on a rising
 * line, so the time of a request is the trapezoid under its part of the line. The line is such
 * that a cold key takes W to use up the permits above the threshold, which is W/2 long at T.
 *
 * Let z = s T be the time that s stored permits take at T. Then the formulas need T no more:
 *
 *     M = W H / (G T),  where G = 2 (1 + f), H = 5 + f
 *     z is at most M T = W H/G, and grows by H/G for each ns of rest
 *     to take all of z takes z + excess(z),  excess(z) = (f^2 - 1)/4 max(z - W/2, 0)^2 / W
 *
 * Let even = end + excess(z): the end of the last request, had all permits been taken at T. A
 * request of cost c that comes before the end moves `even` by c T, as in any bucket, and z by
 * -c T, to 0 at least. Only a request that comes after a rest needs the trapezoid.
 *
 * Units. T = p/q ns in lowest terms. Permits are counted in parts of 1/D, where D is as large as a
 * state has room for, 2^20 at most. Times are counted in grains of 1/(q D) ns: T is p D grains, a
 * stored part takes p. Grains are too coarse for z, which is counted in 1/(b G) of them, where
 * f = a/b in lowest terms.
 *
 * A request that takes more than is stored makes the parts negative: at -n parts nothing is stored,
 * and the requests since the last rest took n parts more than were stored. A refund of the newest
 * cost c moves `even` by -c T and the parts by c, whatever the request took from the stored
 * permits, so it undoes a cold turn exactly.
 *
 * A state is `even` and the parts. `even` is rounded up to whole nanoseconds, even_ns, and the word
 * tells the parts or, if these are unknown, the 1/q ns that were added by rounding:
 *
 *     word < q:         nothing is stored; how negative the parts are is unknown.
 *                       even = even_ns - word/q
 *     word < q + full:  word - q + 1 parts; full = M D, or fewer if the words end there
 *     other words:      q + full - word parts, 0 or negative, above -deep
 *                       even = even_ns - what the parts take at T, down to 1/q ns
 *     until_ns        = even_ns + cooling_ns(parts)
 *
 * For example, 100/s has T = 10^7/1 ns and D = 2^20. The word 0 says that nothing is stored, and
 * 2^20 that one permit is; q + full + 2^20 that one permit more was taken than had been stored.
 *
 * cooling_ns is the time from even_ns until the key is cold again, rounded up. So a state whose
 * until_ns is at or before now equals none.
 *
 * Negative parts are unknown after `deep` of them, after a change of parameters, and where M is
 * 4096 or more, which leaves no words for them. Then a refund moves the end by c T, as if the
 * request had taken no stored permits, and stores again the most that it can have taken.
 *
 * Rounding. Requests without a rest between them move `even` by whole 1/q ns, and even_ns not at
 * all while the parts are known. So nothing is rounded, and no rate drifts. After a rest both are
 * rounded up: `even` by less than a nanosecond, the stored permits by less than a part. So the key
 * ends later and has more stored. Since the line rises, each request takes no less time, and none
 * starts sooner until the next rest. The later end shortens that rest by less than 1 ns, which
 * stores H/G less. So a request after it may start f H/G ns sooner than by the formula, at most.
 */
#include "algo/algo.h"
#include "algo/rates/warm_up_params.h"
#include "base/error.h"
#include "base/u256.h"

typedef __int128 i128;

#define WAITING_MAX ((UINT64_C(1) << 53) - 1) /* as in a pacer: any reader of JSON can count it */

_Static_assert(sizeof(struct warm_up) <= sizeof((struct algo_limit *)0)->own,
               "a limit has room for them");

/* A state unpacked. Times are counted from now. */
struct use {
	i128 even;     /* grains */
	i128 parts;    /* stored, or negative: taken beyond those that were stored */
	i128 end;      /* of the last request, rounded up to a grain */
	bool is_known; /* false if it is unknown how negative the parts are: then they are 0 */
};

static const struct warm_up *params_of(const struct algo_limit *limit)
{
	return (const struct warm_up *)limit->own;
}

/* Grains in whole nanoseconds, rounded up. */
static i128 ns_of(const struct warm_up *warm, i128 grains)
{
	u128 n = warm->grains;

	return grains > 0 ? (i128)u128_divide((u128)grains + n - 1, n)
	                  : -(i128)u128_divide((u128)-grains, n);
}

static uint64_t stored_parts(const struct use *use)
{
	return use->parts > 0 ? (uint64_t)use->parts : 0;
}

static u128 interval(const struct warm_up *warm)
{
	return (u128)warm->p * warm->parts;
}

static u128 warm_up_grains(const struct warm_up *warm)
{
	return (u128)warm->warm_up_ns * warm->grains;
}

static u128 cold_z(const struct warm_up *warm)
{
	return warm_up_grains(warm) * z_gain(warm);
}

static u128 max_wait(const struct warm_up *warm)
{
	u128 wait = (u128)warm->max_wait_ns * warm->grains, turns = WAITING_MAX * interval(warm);

	return wait < turns ? wait : turns;
}

static u128 above_threshold(const struct warm_up *warm, u128 stored)
{
	u128 threshold = warm_up_grains(warm) * (z_per_grain(warm) / 2);

	return stored > threshold ? stored - threshold : 0;
}

/* `times` the excess of a z whose square above the threshold is `squares`, in grains. */
static u128 excess_of(const struct warm_up *warm, struct u256 squares, uint64_t times, bool up)
{
	uint64_t b = warm->b;
	bool has_rest;

	squares = u256_times(u256_times(squares, warm->a - b), times); /* of 247 bits at most */
	has_rest = u256_divide(&squares, 8 * b * b * z_per_grain(warm)) > 0;
	has_rest |= u256_divide(&squares, warm->warm_up_ns) > 0;
	has_rest |= u256_divide(&squares, warm->grains) > 0;
	return ((u128)squares.limb[1] << 64 | squares.limb[0]) + (up && has_rest);
}

/* Returns `times` the excess of so many stored parts, in grains, rounded up or down. */
static inline u128 excess(const struct warm_up *warm, uint64_t parts, uint64_t times, bool up)
{
	u128 y = parts == 0 ? 0 : above_threshold(warm, parts * part_z(warm));

	return y == 0 ? 0 : excess_of(warm, u256_product(y, y), times, up);
}

/* The time that parts take at T, in grains, rounded down to 1/q ns. */
static inline i128 time_at_rate(const struct warm_up *warm, i128 parts)
{
	u128 d = warm->parts;

	if (parts < 0)
		return -(i128)(u128_divide((u128)-parts * warm->p + d - 1, d) * d);
	return (i128)(u128_divide((u128)parts * warm->p, d) * d);
}

/* The time from even_ns until the key is cold; `parts_time` is what its parts take at T. */
static i128 cooling_ns(const struct warm_up *warm, uint64_t stored, i128 parts_time, u128 excess)
{
	u128 rest; /* the rest in which `stored` was stored */

	if (stored == 0)
		return warm->warm_up_ns + ns_of(warm, -parts_time);
	rest = u128_divide(stored * part_z(warm), z_gain(warm));
	return ns_of(warm, (i128)(warm_up_grains(warm) - excess - rest) - parts_time);
}

/* Unpacks a state that ends after now; see the words in the head of this file. */
static struct use use_of(const struct warm_up *warm, const struct algo_state *state,
                         uint64_t now_ns)
{
	uint64_t word = state->word, word_of_none = warm->q + warm->full; /* 0 parts are stored */
	struct use use = {.is_known = word >= warm->q};
	uint64_t rounding = use.is_known ? 0 : word * warm->parts, stored; /* grains */
	i128 parts_time, excess_grains, even_ns;

	if (use.is_known)
		use.parts = word < word_of_none ? (i128)(word - warm->q + 1) : -(i128)(word - word_of_none);
	stored = stored_parts(&use);
	parts_time = time_at_rate(warm, use.parts);
	excess_grains = (i128)excess(warm, stored, 1, false);
	even_ns = (int64_t)(state->until_ns - now_ns) -
	          cooling_ns(warm, stored, parts_time, (u128)excess_grains);
	use.even = even_ns * (i128)warm->grains - parts_time - (i128)rounding;
	use.end = use.even - excess_grains;
	return use;
}

static i128 word_of_parts(const struct warm_up *warm, i128 parts)
{
	return (i128)warm->q + (parts > 0 ? parts - 1 : warm->full - parts);
}

/*
 * Packs `use`, whose `even` it rounds up to what a state can say, and sets the end. Returns no
 * state if the key is cold.
 */
static struct algo_state state_of(const struct warm_up *warm, struct use *use, uint64_t now_ns)
{
	i128 parts_time, excess_grains, rounded_even, even_ns, until_ns, word;

	use->is_known &= use->parts + warm->deep > 0; /* no word says a more negative number */
	if (!use->is_known)
		use->parts = 0;
	excess_grains = (i128)excess(warm, stored_parts(use), 1, false);
	parts_time = time_at_rate(warm, use->parts);
	even_ns = ns_of(warm, use->even + parts_time);
	until_ns = even_ns + cooling_ns(warm, stored_parts(use), parts_time, (u128)excess_grains);
	rounded_even = even_ns * (i128)warm->grains - parts_time;
	if (use->is_known) {
		word = word_of_parts(warm, use->parts);
	} else {
		word = (uint64_t)(rounded_even - use->even) / warm->parts; /* in 1/q ns */
		rounded_even -= word * warm->parts;
	}
	use->even = rounded_even;
	use->end = rounded_even - excess_grains;
	if (until_ns <= 0)
		return (struct algo_state){0, 0};
	return (struct algo_state){now_ns + (uint64_t)until_ns, (uint32_t)word};
}

/* The z at now, after a rest. */
static u128 stored_by_now(const struct warm_up *warm, const struct use *use)
{
	uint64_t parts = stored_parts(use);
	u128 stored = parts * part_z(warm) + (u128)-use->even * z_gain(warm) +
	              excess(warm, parts, z_gain(warm), true);

	return stored < cold_z(warm) ? stored : cold_z(warm);
}

/* The use after a request that starts now with a z of `stored`. */
static struct use start_after_rest(const struct warm_up *warm, u128 stored, uint64_t cost)
{
	u128 part = part_z(warm), taken = stored, before, after, after_rounded_up;
	struct use use = {.is_known = true};
	struct u256 squares;
	bool can_be_stored =
	    (u128)cost * warm->parts < 2 * WARM_UP_WORDS; /* more would overflow as a z */

	if (can_be_stored && cost * warm->parts * part < stored)
		taken = cost * warm->parts * part;
	use.parts = (i128)u128_divide(stored + part - 1, part) - (i128)cost * warm->parts;
	before = above_threshold(warm, stored);
	after = above_threshold(warm, stored - taken);
	after_rounded_up = above_threshold(warm, stored_parts(&use) * part);
	/* The end is c T + excess(before) - excess(after), and `even` adds the excess of the parts. */
	squares = u256_sum(u256_product(before - after, before + after),
	                   u256_product(after_rounded_up, after_rounded_up));
	use.even = (i128)(cost * interval(warm) + excess_of(warm, squares, 1, true));
	return use;
}

static struct algo_state charge_request(const struct warm_up *warm, uint64_t cost, bool live,
                                        uint64_t now_ns, struct use *use)
{
	if (live && use->end > 0) {
		use->even += (i128)(cost * interval(warm));
		use->parts -= (i128)cost * warm->parts;
	} else {
		*use = start_after_rest(warm, live ? stored_by_now(warm, use) : cold_z(warm), cost);
	}
	return state_of(warm, use, now_ns);
}

/*
 * Undoes a request if it is unknown how many permits it took from the stored ones: stores the most
 * that it can have taken. Returns false if that leaves the key as new.
 */
static bool undo_unknown_request(const struct warm_up *warm, uint64_t cost, struct use *use)
{
	i128 parts = (i128)cost * warm->parts;
	bool follows_a_request = use->even > 0; /* which had not ended: the key was not cold */

	if (parts > warm->between && !follows_a_request)
		return false;
	parts = parts < warm->between ? parts : warm->between;
	use->even += (i128)excess(warm, (uint64_t)parts, 1, true);
	use->parts = parts;
	use->is_known = parts > 0;
	return true;
}

/*
 * Undoes the newest request: its time goes to the next one, and its permits are stored again.
 * Returns false if that leaves the key as new: cold, or with more stored than a word can say.
 */
static bool undo_request(const struct warm_up *warm, uint64_t cost, struct use *use)
{
	use->even -= (i128)(cost * interval(warm));
	if (!use->is_known)
		return undo_unknown_request(warm, cost, use);
	use->parts += (i128)cost * warm->parts;
	return use->parts <= warm->full && stored_parts(use) * part_z(warm) < cold_z(warm);
}

static bool refund_warm_up(const struct warm_up *warm, const struct algo_call *call,
                           uint64_t now_ns, struct algo_state *state, struct use *use)
{
	if (call->cost == 0 || (call->until_ns != 0 && call->until_ns != state->until_ns))
		return false;
	*state = undo_request(warm, call->cost, use) ? state_of(warm, use, now_ns)
	                                             : (struct algo_state){0, 0};
	return true;
}

static bool admit_by_end(const struct warm_up *warm, const struct algo_call *call, i128 end,
                         struct algo_decision *out)
{
	bool by_turns = max_wait(warm) < (u128)warm->max_wait_ns * warm->grains;
	uint64_t too_late_ns = 0;

	if (end > (i128)max_wait(warm))
		too_late_ns = (uint64_t)ns_of(warm, end - (i128)max_wait(warm));
	return algo_decision_wait(out, call, end > 0 ? (uint64_t)ns_of(warm, end) : 0, too_late_ns,
	                          by_turns ? WEIR_REASON_QUEUE_FULL : WEIR_REASON_WAIT_TOO_LONG);
}

/* The requests of cost 1 that could come now, each of which takes T as if none were stored. */
static uint64_t requests_left(const struct warm_up *warm, i128 end)
{
	if (end > (i128)max_wait(warm))
		return 0;
	return (uint64_t)u128_divide(max_wait(warm) - (u128)(end > 0 ? end : 0), interval(warm)) + 1;
}

/*
 * Charges `use` with the units that the peek's own request takes before, which the state lacks.
 * `live` is false as long as the key is cold.
 */
static void charge_earlier(const struct warm_up *warm, const struct algo_call *call,
                           uint64_t now_ns, bool *live, struct use *use)
{
	uint64_t cost = u64_max(call->cost, 1);

	for (uint64_t charged = 0; charged < call->earlier; charged += cost) {
		charge_request(warm, cost, *live, now_ns, use);
		*live = true;
	}
}

static bool step_warm_up(const struct algo_limit *limit, const struct algo_call *call,
                         const struct algo_time *time, struct algo_state *state,
                         struct algo_decision *out)
{
	const struct warm_up *warm = params_of(limit);
	uint64_t now_ns = time->now_ns;
	bool live = state->until_ns > now_ns, changed = false;
	struct use use = live ? use_of(warm, state, now_ns) : (struct use){0};

	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		charge_earlier(warm, call, now_ns, &live, &use);
		if (!admit_by_end(warm, call, use.end, out) || call->op == ALGO_PEEK || call->cost == 0)
			break;
		*state = charge_request(warm, call->cost, live, now_ns, &use);
		changed = true;
		break;
	case ALGO_REFUND:
		changed = live && refund_warm_up(warm, call, now_ns, state, &use);
		algo_decision_refund(out, call, changed);
		break;
	default:
		changed = call->op == ALGO_RESET && state->until_ns != 0;
		if (changed)
			*state = (struct algo_state){0, 0};
	}
	if (call->op != ALGO_PEEK) /* a peek shows what is left after the earlier units */
		live = state->until_ns > now_ns;
	out->remaining = requests_left(warm, live ? use.end : 0);
	out->reset_after_ns = sat_sub(state->until_ns, now_ns);
	return changed;
}

/* The state of a key whose last request was admitted just now, as late as the limit allows. */
static struct algo_state newest_state(const struct warm_up *warm, uint64_t parts, uint64_t now_ns)
{
	struct use use = {.even =
	                      (i128)(max_wait(warm) + interval(warm) + excess(warm, parts, 1, true)),
	                  .parts = parts,
	                  .is_known = parts > 0};

	return state_of(warm, &use, now_ns);
}

static void cut_warm_up(const struct algo_limit *limit, struct algo_state *state)
{
	uint64_t now_ns = state->until_ns - limit->window_ns;
	struct use use = use_of(params_of(limit), state, now_ns);

	*state = newest_state(params_of(limit), stored_parts(&use), now_ns);
}

static int init_warm_up(struct algo_limit *limit, const struct weir_limit_options *options,
                        struct weir_error *error)
{
	struct warm_up *warm = (struct warm_up *)limit->own;
	uint64_t longest_ns, interval_ns;

	if (!warm_up_derive(warm, options->rate.count, limit->period_ns, options->warm_up_ns,
	                    (uint64_t)(options->cold * WARM_UP_MILLI + 0.5)))
		return error_set(error, WEIR_ERANGE,
		                 "warm_up: expected at most 2^32 permits to be stored, found more");
	warm->max_wait_ns = options->max_wait_ns;
	longest_ns = (uint64_t)ns_of(warm, (i128)max_wait(warm));
	interval_ns = (uint64_t)ns_of(warm, (i128)interval(warm));
	limit->quota = requests_left(warm, 0);
	limit->window_ns = (uint64_t)u128_ceil((u128)limit->quota * warm->p, warm->q);
	/*
	 * A request waits longest_ns at most, takes all of the quota (longest_ns + interval_ns at T,
	 * and less than W more if the key was cold), and then the key gets cold again within W.
	 */
	limit->farthest_ns = 2 * longest_ns + interval_ns + 2 * warm->warm_up_ns;
	return WEIR_OK;
}

static struct algo_layout layout_of_warm_up(const struct algo_limit *limit)
{
	return warm_up_layout(params_of(limit));
}

/* Scales `end` (grains) from the interval of `was` to that of `to`, rounded up. */
static i128 scaled_end(const struct warm_up *was, const struct warm_up *to, i128 end)
{
	struct u256 grains;
	bool rest;

	if (end <= 0)
		return 0;
	grains = u256_product((u128)end, interval(to));
	rest = u256_divide(&grains, was->p) > 0;
	rest |= u256_divide(&grains, was->parts) > 0;
	if (grains.limb[2] || grains.limb[3] || grains.limb[1] >> 62)
		return (i128)1 << 126; /* longer than any limit allows */
	return (i128)(((u128)grains.limb[1] << 64 | grains.limb[0]) + rest);
}

static bool is_same_line(const struct warm_up *was, const struct warm_up *to)
{
	return was->count == to->count && was->warm_up_ns == to->warm_up_ns && was->a == to->a &&
	       was->b == to->b;
}

/*
 * Returns the parts that a key of `to` has stored if as many permits were used since it was cold.
 */
static uint64_t convert_stored_parts(const struct warm_up *was, const struct use *use,
                                     const struct warm_up *to)
{
	u128 stored = use->end > 0 ? stored_parts(use) * part_z(was) : stored_by_now(was, use);
	u128 used = (cold_z(was) - stored) / part_z(was) * to->parts / was->parts; /* parts of `to` */
	u128 all = u128_ceil(cold_z(to), part_z(to));

	return all > used ? (uint64_t)(all - used) : 0;
}

/*
 * Converts a state, of the parameters `from` until since_ns. Keeps the number of permits used since
 * the key was cold, and of intervals until the end. Without a layout, as late as the limit allows.
 */
static struct algo_converted convert_warm_up(const struct algo_limit *limit,
                                             const struct algo_layout *from, uint64_t since_ns,
                                             uint64_t now_ns, struct algo_state state)
{
	const struct warm_up *to = params_of(limit);
	struct algo_converted converted = {{0, 0}, {0, 0}};
	struct warm_up was;
	struct use use;
	uint64_t parts;
	i128 end;

	if (!from || !warm_up_read_layout(to, limit->period_ns, from, &was)) {
		converted.whole = converted.cut = newest_state(to, to->between, now_ns);
		return converted;
	}
	if (state.until_ns <= since_ns)
		return converted;
	use = use_of(&was, &state, since_ns);
	parts = convert_stored_parts(&was, &use, to);
	if (parts > to->between && use.end <= 0) /* as good as cold: no state */
		return converted;
	parts = u64_min(parts, to->full);
	end = scaled_end(&was, to, use.end);
	/* Negative parts mean the same for the same line only. */
	if (parts > 0 || !is_same_line(&was, to))
		use = (struct use){.parts = parts, .is_known = parts > 0};
	use.even = end + (i128)excess(to, parts, 1, true);
	if (ns_of(to, end) > (i128)limit->farthest_ns)
		converted.whole.until_ns = UINT64_MAX; /* later than any state can say */
	else
		converted.whole = state_of(to, &use, since_ns);
	converted.cut = end > (i128)(max_wait(to) + interval(to)) ? newest_state(to, parts, since_ns)
	                                                          : converted.whole;
	return converted;
}

static bool restore_warm_up(const struct algo_limit *limit, const struct algo_layout *layout,
                            struct algo_limit *then)
{
	then->farthest_ns = ALGO_HORIZON_NS;
	return warm_up_read_layout(params_of(limit), limit->period_ns, layout,
	                           (struct warm_up *)then->own);
}

const struct algorithm algorithm_warm_up = {
    .name = "warm_up",
    .id = WEIR_ALGORITHM_WARM_UP,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX),
                   {"warm_up", ALGO_TIME, ALGO_FIELD(warm_up_ns), .min = NS_PER_MS,
                    .max = ALGO_PERIOD_MAX_NS, .default_value = 10 * NS_PER_S},
                   {"cold", ALGO_DECIMAL, ALGO_FIELD(cold), .min = 1, .max = 10000,
                    .default_value = 3},
                   ALGO_MAX_WAIT_ROW(ALGO_WAIT_DEFAULT_NS)},
    .unordered = true, /* it warms up by its own rate */
    .sample = "rate: 100/m",
    .paced = true,
    .init = init_warm_up,
    .step = step_warm_up,
    .word = "word",
    .cut = cut_warm_up,
    .layout = layout_of_warm_up,
    .convert = convert_warm_up,
    .restore = restore_warm_up,
    .pays_later = true,
};
