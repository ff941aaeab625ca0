/*
 * knee.c: estimates the number of requests that a backend serves at once, beyond which they wait.
 *
 * Let n requests be in flight with a mean latency R, and let B be the mean latency without waiting
 * (the baseline). Then n B / R requests are being served, and the others wait. That number is the
 * knee, K. The limit is K + sqrt K, so that no worker is idle when requests come at random.
 *
 * The baseline must be measured when no request waits. That is so in a window with fewer than
 * K - sqrt K in flight. If there is none for long, a probe comes near to one: a window with a limit
 * of K - (sqrt K)/2, under which hardly any request waits. If B was too high, requests are faster
 * in the probe: B falls, and the next probe is twice as deep. If B was too low, they are as slow as
 * before: B rises, and K with it. A lasting overload cannot raise B, because a probe denies its
 * requests, too. The first baseline is a guess, since it is measured at the initial limit, which
 * may be far too high. So the first probe halves the limit.
 *
 * A `streak` counts windows or probes in a row with the same result. Each doubles the distance of
 * the limit from the knee: below it in a probe (depth_of), above it in other windows (limit_of).
 *
 * A latency counts as 3 B (KNEE_CLIP) at most, so that a few long ones do not move the mean. The
 * change by a window counts only as far as it exceeds the noise that the window's own variance
 * implies (significant_part); of the change by a probe, which is rare, a quarter counts anyway. The
 * first answers of a window are skipped, because their requests were admitted under the limit
 * before.
 *
 * A timeout counts as 4 B (KNEE_LOST), whatever its latency, because it shows how long its caller
 * waited, not how long the server takes. If the mean of a window exceeds 3 B, the window has
 * timeouts, and answers are hardly faster. Such a window never changes the baseline, and the knee
 * falls: requests that callers have given up may still occupy the server, but no longer count as in
 * flight.
 *
 * tests/model/models/adaptive.py has the same operations on whole numbers.
 */
#include "algo/measured/estimators.h"
#include "base/number.h"

#define ONE          KNEE_ONE
#define BASE         KNEE_BASE
#define BASE_BITS    25
#define PROBE_SOON   4
#define PROBE_SELDOM 32
#define STREAK_MAX   5

_Static_assert(UINT64_C(1) * KNEE_MOST * KNEE_LOST < 1 << 24, "a sum has 24 bits");
_Static_assert(UINT64_C(1) * KNEE_MOST * (KNEE_LOST / 4) * (KNEE_LOST / 4) <= UINT32_MAX,
               "squares have 32");

/* The measurements of one window. */
struct measured {
	int64_t mean;      /* of samples; the baseline is BASE */
	int64_t in_flight; /* in 1/ONE requests, as are the next two */
	int64_t waits;     /* requests that wait by the baseline; negative if answers were faster */
	int64_t noise;     /* the standard deviation of `waits` */
};

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : u64_min(value, most);
}

static uint64_t square_root(uint64_t value)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1)
		if ((root | bit) * (root | bit) <= value)
			root |= bit;
	return root;
}

/* Returns sqrt K in 1/ONE requests. */
static int64_t root_of(const struct knee *knee)
{
	return (int64_t)square_root((uint64_t)knee->knee * ONE);
}

/* Returns by how much a probe lowers the knee, in 1/ONE. It doubles with each probe in a streak. */
static int64_t depth_of(const struct knee *knee)
{
	return (int64_t)u64_min((uint64_t)root_of(knee) << knee->streak, knee->knee) / 2;
}

static bool is_probe(const struct knee *knee)
{
	return knee->phase == KNEE_PROBE || knee->phase == KNEE_PROBE_ALL;
}

/* Returns K + sqrt K, or less in a probe; a streak of windows without waits raises it further. */
static uint32_t limit_of(const struct knee *knee, const struct adaptive_bounds *bounds)
{
	uint64_t above_knee = u64_min((uint64_t)root_of(knee) << knee->streak, knee->knee);
	uint64_t limit = knee->knee;

	if (is_probe(knee))
		limit -= (uint64_t)depth_of(knee);
	else
		limit += above_knee;
	return (uint32_t)clamp(limit / ONE, bounds->least, bounds->most);
}

/* Returns the limit that would apply if this window were no probe. */
uint32_t knee_ordinary(const struct knee *knee, const struct adaptive_bounds *bounds)
{
	uint64_t root;

	if (!is_probe(knee)) /* saves the root */
		return knee->limit;
	root = u64_min((uint64_t)root_of(knee), knee->knee);
	return (uint32_t)clamp((knee->knee + root) / ONE, bounds->least, bounds->most);
}

void knee_begin(struct knee *knee, const struct adaptive_bounds *bounds)
{
	*knee = (struct knee){.in_flight = bounds->initial,
	                      .knee = bounds->initial * ONE,
	                      .phase = KNEE_START,
	                      .limit = bounds->initial,
	                      .probe_interval = 1};
}

/* The latency with as many bits as a cell stores. */
static uint64_t significant_bits(uint64_t latency_ns)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(latency_ns);
	unsigned shift = bits > BASE_BITS ? bits - BASE_BITS : 0;

	return latency_ns >> shift << shift;
}

/* Changes the baseline by `by` / BASE of itself. */
static void scale_baseline(struct knee *knee, int64_t by)
{
	uint64_t base_ns = knee->base_ns * (uint64_t)(BASE + by) / BASE;

	knee->base_ns = significant_bits(clamp(base_ns, 1, ADAPTIVE_LATENCY_MAX_NS));
}

static void move_knee(struct knee *knee, int64_t by)
{
	int64_t moved = (int64_t)knee->knee + by;

	knee->knee = (uint32_t)clamp(moved > 0 ? (uint64_t)moved : 0, ONE, ADAPTIVE_LIMIT_MAX * ONE);
}

/*
 * Returns the part of a change c that noise does not explain: c * c^2 / (c^2 + threshold^2). That
 * is nearly c if c is much larger than the threshold, and nearly 0 if it is much smaller.
 */
static int64_t significant_part(const struct knee *knee, int64_t change, int64_t noise)
{
	int64_t threshold = 2 * noise + root_of(knee) / 4;
	__int128 square = (__int128)change * change;

	return square == 0 ? 0
	                   : (int64_t)(change * square / (square + (__int128)threshold * threshold));
}

static uint8_t longer_streak(uint8_t streak)
{
	return streak < STREAK_MAX ? streak + 1 : STREAK_MAX;
}

static uint8_t twice_as_long(uint8_t interval)
{
	return interval < PROBE_SELDOM ? (uint8_t)(2 * interval) : PROBE_SELDOM;
}

/*
 * Repeats a probe in which too many were in flight, so that some may have waited: first for all
 * priorities, as higher ones may exceed the limit. If that does not help, the least limit that is
 * allowed (bounds->least) is too high for a probe.
 */
static void repeat_probe(struct knee *knee)
{
	knee->windows_since_probe = 0;
	if (knee->phase == KNEE_PROBE) {
		knee->phase = KNEE_PROBE_ALL;
		return;
	}
	knee->phase = KNEE_FULL;
	knee->streak = 0;
	knee->probe_interval = twice_as_long(knee->probe_interval);
}

/*
 * Ends a probe: by the latencies that it measured, the baseline and the knee move. If requests were
 * clearly faster than the baseline, the next window is a deeper probe.
 */
static void end_probe(struct knee *knee, const struct measured *measured)
{
	int64_t depth = depth_of(knee);
	int64_t significant = significant_part(knee, measured->waits, measured->noise);
	int64_t change = (measured->waits + 3 * significant) / 4;
	int64_t largest_fall = measured->in_flight - (int64_t)knee->knee;
	bool baseline_falls = 2 * significant < -depth;
	bool moved_far = 2 * change > depth || 2 * change < -depth;

	/* If `change` is all that wait, this makes the mean the baseline: then none waits. */
	scale_baseline(knee, change * measured->mean / measured->in_flight);
	/* By the new baseline none of those in flight waits, so the knee does not fall below them. */
	if (largest_fall > 0)
		largest_fall = 0;
	move_knee(knee, change < largest_fall ? largest_fall : change);
	knee->phase = baseline_falls ? knee->phase : KNEE_FULL;
	knee->streak = baseline_falls ? longer_streak(knee->streak) : 0;
	knee->windows_since_probe = 0;
	knee->probe_interval = moved_far ? PROBE_SOON : twice_as_long(knee->probe_interval);
}

/*
 * Ends a window with so few in flight that it serves as a probe. If almost the limit was in flight
 * and none waited, the knee grows.
 */
static void end_light_window(struct knee *knee, const struct measured *measured)
{
	int64_t root = root_of(knee);

	if (measured->in_flight >= (int64_t)knee->knee - 2 * root && 4 * measured->waits < root)
		move_knee(knee, root / 2);
	scale_baseline(knee, (measured->mean - BASE) / 4);
	knee->streak = 0;
	knee->windows_since_probe = 0;
	knee->probe_interval = twice_as_long(knee->probe_interval);
}

/*
 * Returns the requests in flight, none of which waited, but at most the limit: those that higher
 * priorities had over it do not count.
 */
static uint32_t served_within_limit(const struct knee *knee, const struct measured *measured)
{
	return (uint32_t)u64_min((uint64_t)measured->in_flight, (uint64_t)knee->limit * ONE);
}

/* Moves the knee towards the number of requests that were served. Returns by how much. */
static int64_t move_knee_to_served(struct knee *knee, const struct measured *measured)
{
	int64_t served = measured->in_flight - measured->waits;
	int64_t moved = significant_part(knee, served - (int64_t)knee->knee, measured->noise);

	move_knee(knee, moved);
	return moved;
}

/*
 * Lets the next probe come sooner if the knee falls, because the baseline may be too low, and later
 * if it rises.
 */
static void shift_next_probe(struct knee *knee, int64_t moved, int64_t root)
{
	int64_t since = knee->windows_since_probe - moved * PROBE_SELDOM / root;

	knee->windows_since_probe = (uint8_t)clamp(since > 0 ? (uint64_t)since : 0, 0, PROBE_SELDOM);
}

/* Ends a window with about the limit in flight. Begins a probe if it is time for one. */
static void end_full_window(struct knee *knee, const struct measured *measured)
{
	int64_t root = root_of(knee), over_knee = measured->in_flight - (int64_t)knee->knee;
	bool some_wait = 4 * measured->waits >= root, is_over_knee = 2 * over_knee >= root;

	if (some_wait) {
		shift_next_probe(knee, move_knee_to_served(knee, measured), root);
		knee->streak = 0;
	} else if (!is_over_knee) { /* none waits, but too few came to show how many can be served */
		move_knee(knee, root / 2);
		knee->streak = 0;
	} else { /* none waits: all are served, perhaps many more would be, or the baseline is wrong */
		knee->knee = served_within_limit(knee, measured);
		knee->streak = longer_streak(knee->streak);
		knee->windows_since_probe += PROBE_SELDOM / 4;
	}
	knee->windows_since_probe++;
	if (knee->windows_since_probe >= knee->probe_interval) {
		knee->phase = KNEE_PROBE;
		knee->streak = knee_baseline_is_guess(knee) ? STREAK_MAX : 0;
	}
}

/* Ends a window with many timeouts, which neither measures nor confirms the baseline. */
static void end_timed_out_window(struct knee *knee, const struct measured *measured)
{
	move_knee_to_served(knee, measured);
	if (is_probe(knee))
		knee->phase = KNEE_FULL;
	knee->streak = 0;
	knee->windows_since_probe = 0;
	if (!knee_baseline_is_guess(knee))
		knee->probe_interval = PROBE_SOON;
}

/*
 * Computes the means of a window. Of n in flight n - n B / R wait. The noise is n times the
 * standard error of R, as a fraction of R.
 */
static struct measured measure_window(const struct knee *knee)
{
	uint64_t mean = u64_max(knee->sum / knee->count, 1);
	uint64_t in_flight = u64_max((uint64_t)knee->in_flight * ONE / knee->count, 1);
	/* The squares are of fourths of samples. */
	uint64_t variance = sat_sub((uint64_t)knee->squares * 4 * 4 / knee->count, mean * mean);
	uint64_t error_in_fourths = square_root(4 * 4 * variance / knee->count);
	uint64_t noise = in_flight * error_in_fourths / (4 * mean);
	int64_t over = (int64_t)mean - BASE;

	return (struct measured){.mean = (int64_t)mean,
	                         .in_flight = (int64_t)in_flight,
	                         .waits = (int64_t)in_flight * over / (int64_t)mean,
	                         .noise = (int64_t)noise};
}

/* Whether more were in flight than half-way between the probe's limit and the knee. */
static bool is_too_full_for_probe(const struct knee *knee, const struct measured *measured)
{
	return 2 * measured->in_flight > 2 * (int64_t)knee->knee - depth_of(knee);
}

/*
 * Ends a window of the start. The baseline, at first a single sample, becomes the mean. If it was
 * far off, KNEE_CLIP may have cut many latencies: the next window measures it again.
 */
static void end_start_window(struct knee *knee, const struct measured *measured)
{
	bool was_near = BASE / 2 < measured->mean && measured->mean < 2 * BASE;

	scale_baseline(knee, measured->mean - BASE);
	if (was_near)
		knee->phase = KNEE_FULL;
}

/* Ends a window by what it measured: by many timeouts, at the start, as a probe, or as another. */
static void end_window(struct knee *knee)
{
	struct measured measured = measure_window(knee);
	bool has_many_timeouts = measured.mean > KNEE_CLIP; /* answers alone have no such mean */

	if (has_many_timeouts) {
		end_timed_out_window(knee, &measured);
	} else if (knee->phase == KNEE_START) {
		end_start_window(knee, &measured);
	} else if (is_probe(knee) && is_too_full_for_probe(knee, &measured)) {
		repeat_probe(knee);
	} else if (is_probe(knee)) {
		end_probe(knee, &measured);
	} else if (measured.in_flight < (int64_t)knee->knee - root_of(knee)) {
		end_light_window(knee, &measured);
	} else {
		end_full_window(knee, &measured);
	}
}

bool knee_is_full(const struct knee *knee)
{
	return knee->count >= clamp(knee->limit, KNEE_LEAST, KNEE_MOST);
}

/* Adds the latency of a request, as a multiple of the baseline, to the sums of the window. */
void knee_add_sample(struct knee *knee, const struct adaptive_sample *sample)
{
	uint64_t latency_ns = clamp(sample->latency_ns, 1, ADAPTIVE_LATENCY_MAX_NS);
	uint64_t relative; /* the latency in 1/BASE of the baseline */

	/*
	 * Before the first sample, in_flight counts the answers to skip, whose requests were admitted
	 * under another limit.
	 */
	if (knee->count == 0 && knee->in_flight > 0) {
		knee->in_flight--;
		return;
	}
	if (knee->base_ns == 0)
		knee->base_ns = significant_bits(latency_ns);
	relative = sample->dropped ? KNEE_LOST : u64_min(latency_ns * BASE / knee->base_ns, KNEE_CLIP);
	knee->count++;
	knee->sum += (uint32_t)relative;
	knee->squares += (uint32_t)((relative / 4) * (relative / 4));
	knee->in_flight += (uint32_t)u64_min(sample->in_flight, ADAPTIVE_LIMIT_MAX);
}

void knee_end_window(struct knee *knee, const struct adaptive_bounds *bounds)
{
	end_window(knee);
	knee->window++;
	knee->limit = limit_of(knee, bounds);
}

/* Clears the sums. The answers of the requests now in flight will be skipped. */
void knee_begin_window(struct knee *knee, uint64_t in_flight)
{
	knee->count = 0;
	knee->sum = knee->squares = 0;
	knee->in_flight = (uint32_t)sat_sub(u64_min(in_flight, ADAPTIVE_LIMIT_MAX), 1);
}

void knee_sample(struct knee *knee, const struct adaptive_bounds *bounds,
                 const struct adaptive_sample *sample, uint8_t window)
{
	if (knee_is_late(knee, window))
		return;
	knee_add_sample(knee, sample);
	if (!knee_is_full(knee))
		return;
	knee_end_window(knee, bounds);
	knee_begin_window(knee, sample->in_flight);
}
