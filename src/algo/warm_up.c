/*
 * warm_up.c: a pacer whose keys are cold after a rest, and start slowly.
 *
 * A key stores permits while it rests, up to M, at M per W (`warm_up`). A request starts at
 * max(now, end), where `end` is where the request before it ended, and ends when its permits have
 * been taken. That takes T for each, but longer for those stored above a threshold, up to f T
 * (`cold`) for the last of M. These intervals lie on a line, so a request takes what lies under its
 * part of the line: a trapezoid.
 *
 * Say how long stored permits take at T, z = s T, and T is in the formulas no more:
 *
 *     the threshold is W/2;  z reaches W H/G, by H/G for each ns of rest;  G = 2 (1 + f), H = 5 + f
 *     to take all of z takes z + excess(z),  excess(z) = (f^2 - 1)/4 max(z - W/2, 0)^2 / W
 *
 * Let even = end + excess(z): where the last request would have ended, had all been taken at T.
 * A request of cost c that comes before the end moves `even` by c T, as in any bucket, and z
 * by -c T, to 0 at least. Only a request that comes after a rest needs the trapezoid.
 *
 * Units. T = p/q ns in lowest terms. Permits are counted in parts of 1/D, D being as large as a
 * state can tell, 2^20 at most. Times are counted in grains of 1/(q D) ns: T is p D of them, a
 * stored part takes p. Grains are too coarse for z, which is counted in 1/G of them.
 *
 * A state is `even` and the stored parts:
 *
 *     word < q:   no parts.  even = even_ns - word/q
 *     else:       word - q + 1 parts.  even = even_ns - what these take at T, down to 1/q ns
 *     until_ns  = even_ns + cooling_ns(parts)
 *
 * cooling_ns tells how long after even_ns the key is cold again, rounded up. So at or before now,
 * a state says nothing.
 *
 * The effect of rounding. Requests without a rest between them move `even` by whole 1/q ns, and
 * even_ns not at all while something is stored: nothing is rounded however many come, and no rate
 * drifts. After a rest both are rounded up, `even` by less than a nanosecond and what is stored by
 * less than a part. So a key ends later and has more stored, and as the line rises, each request
 * takes it no less time: no start comes sooner until the next rest. The later end cuts that rest by
 * less than a nanosecond, which stores less by H/G for each: a start after it may come sooner than
 * the formula's by f H/G nanoseconds at most, unless what was rounded up in parts outweighs that.
 */
#include "algo/algo.h"
#include "base/error.h"
#include "base/u256.h"

typedef __int128 i128;

#define PARTS_MAX   (UINT64_C(1) << 20)
#define WORDS       (UINT64_C(1) << 32)
#define MILLI       1000                      /* `cold` is exact in thousandths */
#define WAITING_MAX ((UINT64_C(1) << 53) - 1) /* as of a pacer */

struct warm_up {
	uint64_t count;       /* of the rate */
	uint64_t p, q;        /* T = p/q ns */
	uint64_t grains;      /* so many are a nanosecond: q D */
	uint64_t warm_up_ns;  /* W */
	uint64_t max_wait_ns; /* as given; see longest() */
	uint32_t parts;       /* so many are a permit: D */
	uint32_t parts_most;  /* stored between two requests, which took one permit at least */
	uint32_t a, b;        /* f = a/b in lowest terms */
};

_Static_assert(sizeof(struct warm_up) <= sizeof((struct algo_limit *)0)->own,
               "a limit has room for them");

/* The meaning of a state, from now. */
struct use {
	i128 even;      /* grains */
	uint64_t parts; /* stored */
	i128 end;       /* of the last turn, rounded up to a grain */
};

static const struct warm_up *params_of(const struct algo_limit *limit)
{
	return (const struct warm_up *)limit->own;
}

/* The whole nanoseconds of so many grains, rounded up. */
static int64_t ns_of(const struct warm_up *warm, i128 grains)
{
	i128 n = warm->grains;

	return (int64_t)(grains > 0 ? (grains + n - 1) / n : -(-grains / n));
}

/* b G, where f = a/b: so many times finer than grains is z counted. */
static uint64_t finer(const struct warm_up *warm)
{
	return 2 * ((uint64_t)warm->a + warm->b);
}

/* b H: so much is stored in a grain of rest, counted like that. */
static uint64_t gain(const struct warm_up *warm)
{
	return warm->a + 5 * (uint64_t)warm->b;
}

static u128 interval(const struct warm_up *warm)
{
	return (u128)warm->p * warm->parts;
}

static u128 warm_up_grains(const struct warm_up *warm)
{
	return (u128)warm->warm_up_ns * warm->grains;
}

static u128 part(const struct warm_up *warm)
{
	return (u128)warm->p * finer(warm);
}

/* z of a cold key. */
static u128 full(const struct warm_up *warm)
{
	return warm_up_grains(warm) * gain(warm);
}

/* How long after now a request may start. */
static u128 longest(const struct warm_up *warm)
{
	u128 wait = (u128)warm->max_wait_ns * warm->grains, turns = WAITING_MAX * interval(warm);

	return wait < turns ? wait : turns;
}

static u128 above_threshold(const struct warm_up *warm, u128 stored)
{
	u128 threshold = warm_up_grains(warm) * (finer(warm) / 2);

	return stored > threshold ? stored - threshold : 0;
}

/* `times` the excess of what has these squares above the threshold, in grains. */
static u128 excess_of(const struct warm_up *warm, struct u256 squares, uint64_t times, bool up)
{
	uint64_t b = warm->b;
	bool rest;

	squares = u256_times(u256_times(squares, warm->a - b), times); /* of 247 bits at most */
	rest = u256_divide(&squares, 8 * b * b * finer(warm)) > 0;
	rest |= u256_divide(&squares, warm->warm_up_ns) > 0;
	rest |= u256_divide(&squares, warm->grains) > 0;
	return ((u128)squares.limb[1] << 64 | squares.limb[0]) + (up && rest);
}

static u128 excess(const struct warm_up *warm, uint64_t parts, uint64_t times, bool up)
{
	u128 y = above_threshold(warm, parts * part(warm));

	return y == 0 ? 0 : excess_of(warm, u256_product(y, y), times, up);
}

/* The time that parts take at T, rounded down to 1/q ns. */
static u128 at_rate(const struct warm_up *warm, uint64_t parts)
{
	return (u128)parts * warm->p / warm->parts * warm->parts;
}

/* From even_ns on, where `taken` is what the parts take at T. */
static int64_t cooling_ns(const struct warm_up *warm, uint64_t parts, u128 taken, u128 excess)
{
	u128 rest = parts * part(warm) / gain(warm); /* that has stored them */

	if (parts == 0)
		return (int64_t)warm->warm_up_ns;
	return ns_of(warm, (i128)(warm_up_grains(warm) - taken - excess - rest));
}

/* The use that a state with a meaning has. */
static struct use use_of(const struct warm_up *warm, const struct algo_state *state,
                         uint64_t now_ns)
{
	bool stored = state->word >= warm->q;
	uint64_t parts = stored ? u64_min(state->word - warm->q + 1, warm->parts_most) : 0;
	uint64_t under = stored ? 0 : (uint64_t)state->word * warm->parts;
	u128 taken = at_rate(warm, parts), longer = excess(warm, parts, 1, false);
	int64_t even_ns = (int64_t)(state->until_ns - now_ns) - cooling_ns(warm, parts, taken, longer);
	i128 even = (i128)even_ns * warm->grains - (i128)(taken + under);

	return (struct use){even, parts, even - (i128)longer};
}

/* Rounds `even` up to what a state tells, and sets the end. */
static struct algo_state state_of(const struct warm_up *warm, struct use *use, uint64_t now_ns)
{
	u128 taken = at_rate(warm, use->parts), longer = excess(warm, use->parts, 1, false);
	int64_t even_ns = ns_of(warm, use->even + (i128)taken);
	int64_t until_ns = even_ns + cooling_ns(warm, use->parts, taken, longer);
	i128 even = (i128)even_ns * warm->grains - (i128)taken;
	uint64_t word = warm->q - 1 + use->parts;

	if (use->parts == 0) {
		word = (uint64_t)(even - use->even) / warm->parts;
		even -= (i128)(word * warm->parts);
	}
	use->even = even;
	use->end = even - (i128)longer;
	if (until_ns <= 0)
		return (struct algo_state){0, 0};
	return (struct algo_state){now_ns + (uint64_t)until_ns, (uint32_t)word};
}

/* z by now, after a rest. */
static u128 stored_by_now(const struct warm_up *warm, const struct use *use)
{
	u128 stored = use->parts * part(warm) + (u128)-use->even * gain(warm) +
	              excess(warm, use->parts, gain(warm), true);

	return stored < full(warm) ? stored : full(warm);
}

/* A request that starts now, when so much is stored. */
static struct use start(const struct warm_up *warm, u128 stored, uint64_t cost)
{
	u128 taken = stored, y = above_threshold(warm, stored), left, kept;
	uint64_t parts;
	struct u256 squares;

	if ((u128)cost * warm->parts < 2 * WORDS && cost * warm->parts * part(warm) < stored)
		taken = cost * warm->parts * part(warm);
	parts = (uint64_t)((stored - taken + part(warm) - 1) / part(warm));
	left = above_threshold(warm, stored - taken);
	kept = above_threshold(warm, parts * part(warm)); /* which is rounded up */
	squares = u256_sum(u256_product(y - left, y + left), u256_product(kept, kept));
	return (struct use){(i128)(cost * interval(warm) + excess_of(warm, squares, 1, true)), parts,
	                    0};
}

static void take(const struct warm_up *warm, uint64_t cost, bool live, struct use *use)
{
	u128 parts = (u128)cost * warm->parts;

	if (live && use->end > 0) {
		use->even += (i128)(cost * interval(warm));
		use->parts = use->parts > parts ? use->parts - (uint64_t)parts : 0;
	} else {
		*use = start(warm, live ? stored_by_now(warm, use) : full(warm), cost);
	}
}

/*
 * Gives the newest permits to the next request. Those taken from the stored ones are stored
 * again; if they took the last of these, as many as they can have taken, which is colder.
 * False: more would be stored than is between requests, so it is as if none had come.
 */
static bool give_back(const struct warm_up *warm, uint64_t cost, struct use *use)
{
	u128 parts = (u128)cost * warm->parts + use->parts;
	i128 even = use->even - (i128)(cost * interval(warm));

	if (parts > warm->parts_most) {
		if (use->parts > 0 || even <= 0)
			return false;
		parts = warm->parts_most;
	}
	if (use->parts == 0)
		even += (i128)excess(warm, (uint64_t)parts, 1, true);
	*use = (struct use){even, (uint64_t)parts, 0};
	return true;
}

static bool refund(const struct warm_up *warm, const struct algo_call *call, uint64_t now_ns,
                   struct algo_state *state, struct use *use)
{
	if (call->cost == 0 || (call->until_ns != 0 && call->until_ns != state->until_ns))
		return false;
	*state =
	    give_back(warm, call->cost, use) ? state_of(warm, use, now_ns) : (struct algo_state){0, 0};
	return true;
}

static bool admit(const struct warm_up *warm, const struct algo_call *call, i128 end,
                  struct algo_outcome *out)
{
	bool by_turns = longest(warm) < (u128)warm->max_wait_ns * warm->grains;
	uint64_t too_late_ns = 0;

	if (end > (i128)longest(warm))
		too_late_ns = (uint64_t)ns_of(warm, end - (i128)longest(warm));
	return algo_outcome_wait(out, call, end > 0 ? (uint64_t)ns_of(warm, end) : 0, too_late_ns,
	                         by_turns ? WEIR_REASON_QUEUE_FULL : WEIR_REASON_WAIT_TOO_LONG);
}

/* Requests of one each that could come now if none were stored: each takes T. */
static uint64_t remaining(const struct warm_up *warm, i128 end)
{
	if (end > (i128)longest(warm))
		return 0;
	return (uint64_t)((longest(warm) - (u128)(end > 0 ? end : 0)) / interval(warm)) + 1;
}

static bool step(const struct algo_limit *limit, const struct algo_call *call,
                 const struct algo_time *time, struct algo_state *state, struct algo_outcome *out)
{
	const struct warm_up *warm = params_of(limit);
	uint64_t now_ns = time->now_ns;
	bool live = state->until_ns > now_ns, changed = false;
	struct use use = live ? use_of(warm, state, now_ns) : (struct use){0};

	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (!admit(warm, call, use.end, out) || call->op == ALGO_PEEK || call->cost == 0)
			break;
		take(warm, call->cost, live, &use);
		*state = state_of(warm, &use, now_ns);
		changed = true;
		break;
	case ALGO_REFUND:
		changed = live && refund(warm, call, now_ns, state, &use);
		break;
	case ALGO_RESET:
		changed = state->until_ns != 0;
		*state = (struct algo_state){0, 0};
		break;
	}
	live = state->until_ns > now_ns;
	out->remaining = remaining(warm, live ? use.end : 0);
	out->reset_after_ns = live ? state->until_ns - now_ns : 0;
	return changed;
}

/* As if the last request had just been let in. */
static struct algo_state latest(const struct warm_up *warm, uint64_t parts, uint64_t now_ns)
{
	struct use use = {(i128)(longest(warm) + interval(warm) + excess(warm, parts, 1, true)), parts,
	                  0};

	return state_of(warm, &use, now_ns);
}

static void cut(const struct algo_limit *limit, struct algo_state *state)
{
	uint64_t now_ns = state->until_ns - limit->window_ns;

	*state = latest(params_of(limit), use_of(params_of(limit), state, now_ns).parts, now_ns);
}

static u128 ceil_u128(u128 a, u128 b)
{
	return a / b + (a % b != 0);
}

static void set_interval(struct warm_up *warm, u128 p, uint64_t q)
{
	uint64_t divisor = gcd_u64(q, (uint64_t)(p % q));

	warm->p = (uint64_t)(p / divisor);
	warm->q = q / divisor;
}

/*
 * Chooses D, so that one word tells all parts and all q-ths. Where more than 2^31 permits can be
 * stored that takes a smaller q, which makes T longer. False: more than 2^32 can be stored.
 */
static bool count_parts(struct warm_up *warm)
{
	/* M = most/one */
	u128 one = part(warm), most = (u128)warm->warm_up_ns * gain(warm) * warm->q;
	uint64_t words = WORDS; /* for q-ths */

	if (most > one * WORDS)
		return false;
	if (most > one)
		words = WORDS + 1 - (uint64_t)ceil_u128(most, one);
	if (warm->q > words) {
		set_interval(warm, ceil_u128((u128)warm->p * words, warm->q), words);
		return count_parts(warm);
	}
	warm->parts = PARTS_MAX;
	if (most > one) {
		warm->parts = (uint32_t)u64_min(PARTS_MAX, sat_u64((WORDS - warm->q) * one / (most - one)));
		warm->parts_most = (uint32_t)ceil_u128((most - one) * warm->parts, one);
	}
	warm->grains = warm->q * warm->parts;
	return true;
}

static bool derive(struct warm_up *warm, uint64_t count, uint64_t period_ns, uint64_t warm_up_ns,
                   uint64_t cold_milli)
{
	uint64_t divisor = gcd_u64(cold_milli, MILLI);

	*warm = (struct warm_up){.count = count,
	                         .warm_up_ns = warm_up_ns,
	                         .a = (uint32_t)(cold_milli / divisor),
	                         .b = (uint32_t)(MILLI / divisor)};
	set_interval(warm, period_ns, count);
	return count_parts(warm);
}

static int init(struct algo_limit *limit, const struct weir_limit_options *options,
                struct weir_error *error)
{
	struct warm_up *warm = (struct warm_up *)limit->own;
	uint64_t longest_ns, interval_ns;

	if (!derive(warm, options->rate.count, limit->period_ns, options->warm_up_ns,
	            (uint64_t)(options->cold * MILLI + 0.5)))
		return error_set(error, WEIR_ERANGE,
		                 "warm_up: expected at most 2^32 permits to be stored, found more");
	warm->max_wait_ns = options->max_wait_ns;
	longest_ns = (uint64_t)ns_of(warm, (i128)longest(warm));
	interval_ns = (uint64_t)ns_of(warm, (i128)interval(warm));
	limit->quota = remaining(warm, 0);
	limit->window_ns = (uint64_t)ceil_u128((u128)limit->quota * warm->p, warm->q);
	/* The last request ends after all of the quota, cold, and then the key gets cold again. */
	limit->farthest_ns = 2 * longest_ns + interval_ns + 2 * warm->warm_up_ns;
	return WEIR_OK;
}

/*
 * In a note's second number, W is digits times a power of ten, and f counted in tenths. What is too
 * long for that is told apart from others, but can't be read again: then COLD_OTHER stands for f.
 */
#define DIGITS_BITS 19
#define ZEROS_BITS  4
#define COLD_SHIFT  (DIGITS_BITS + ZEROS_BITS)
#define COLD_OTHER  511U

static uint32_t write_note(uint64_t warm_up_ns, uint64_t cold_milli)
{
	uint64_t digits = warm_up_ns, zeros = 0, tenths = cold_milli / (MILLI / 10);

	for (; digits % 10 == 0 && zeros < (1U << ZEROS_BITS) - 1; zeros++)
		digits /= 10;
	if (digits >> DIGITS_BITS == 0 && cold_milli % (MILLI / 10) == 0 && tenths < COLD_OTHER)
		return (uint32_t)(tenths << COLD_SHIFT | zeros << DIGITS_BITS | digits);
	return COLD_OTHER << COLD_SHIFT |
	       (uint32_t)((warm_up_ns * MILLI + cold_milli) * UINT64_C(0x9e3779b97f4a7c15) >>
	                  (64 - COLD_SHIFT));
}

static struct algo_note note(const struct algo_limit *limit)
{
	const struct warm_up *warm = params_of(limit);

	return (struct algo_note){(uint32_t)(warm->count - 1),
	                          write_note(warm->warm_up_ns, (uint64_t)warm->a * (MILLI / warm->b))};
}

static bool read_note(const struct algo_limit *limit, const struct algo_note *from,
                      struct warm_up *warm)
{
	uint64_t tenths = from->second >> COLD_SHIFT;
	uint64_t zeros = from->second >> DIGITS_BITS & ((1U << ZEROS_BITS) - 1);
	u128 warm_up_ns = from->second & ((1U << DIGITS_BITS) - 1);

	*warm = *params_of(limit);
	if (from->second == note(limit).second)
		return derive(warm, (uint64_t)from->first + 1, limit->period_ns, warm->warm_up_ns,
		              (uint64_t)warm->a * (MILLI / warm->b));
	for (; zeros > 0; zeros--)
		warm_up_ns *= 10;
	return tenths >= 10 && tenths != COLD_OTHER && warm_up_ns > 0 &&
	       warm_up_ns <= ALGO_PERIOD_MAX_NS &&
	       derive(warm, (uint64_t)from->first + 1, limit->period_ns, (uint64_t)warm_up_ns,
	              tenths * (MILLI / 10));
}

/* The same number of permits used since the key was cold, and the same end. */
static void convert(const struct algo_limit *limit, const struct algo_note *from, uint64_t now_ns,
                    struct algo_state *state)
{
	const struct warm_up *to = params_of(limit);
	struct warm_up was;
	struct use use;
	u128 stored, used, all = ceil_u128(full(to), part(to));
	uint64_t parts;
	i128 end;

	if (!from || !read_note(limit, from, &was)) {
		*state = latest(to, to->parts_most, now_ns);
		return;
	}
	use = use_of(&was, state, now_ns);
	end = use.end;
	stored = end > 0 ? use.parts * part(&was) : stored_by_now(&was, &use);
	used = (full(&was) - stored) / part(&was) * to->parts / was.parts;
	parts = all > used ? (uint64_t)(all - used) : 0;
	if (parts > to->parts_most && end <= 0) {
		*state = (struct algo_state){0, 0};
		return;
	}
	parts = u64_min(parts, to->parts_most);
	end = end > 0 ? (i128)ns_of(&was, end) * to->grains : 0;
	use = (struct use){end + (i128)excess(to, parts, 1, true), parts, 0};
	if (end > (i128)(longest(to) + interval(to)))
		*state = latest(to, parts, now_ns);
	else
		*state = state_of(to, &use, now_ns);
}

const struct algorithm algorithm_warm_up = {
    .name = "warm_up",
    .id = WEIR_WARM_UP,
    .parameters = {ALGO_RATE_ROW(ALGO_COUNT_MAX),
                   {"warm_up", ALGO_TIME, ALGO_FIELD(warm_up_ns), .min = NS_PER_MS,
                    .max = ALGO_PERIOD_MAX_NS, .otherwise = 10 * NS_PER_S},
                   {"cold", ALGO_DECIMAL, ALGO_FIELD(cold), .min = 1, .max = 10000, .otherwise = 3},
                   ALGO_MAX_WAIT_ROW(ALGO_WAIT_DEFAULT_NS)},
    .unordered = true, /* it warms up by its own rate */
    .sample = "rate: 100/m",
    .paced = true,
    .init = init,
    .step = step,
    .word = "word",
    .cut = cut,
    .note = note,
    .convert = convert,
};
