/*
 * published.c: computes limits by the published estimators: gradient2, vegas, aimd and bbr.
 *
 * They serve comparisons, and users who move to Weir with their settings. docs/design/adaptive.md
 * has measurements of each.
 */
#include "algo/measured/estimators.h"

#include "base/number.h"
#include "base/os/cpu.h"

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : u64_min(value, most);
}

static uint64_t latency_of(const struct adaptive_sample *sample)
{
	return clamp(sample->latency_ns, 1, ADAPTIVE_LATENCY_MAX_NS);
}

/*
 * gradient2 (Netflix concurrency-limits) wants the limit times 3/2 x the long average / this
 * latency, a factor from 1/2 to 1, and QUEUE_ALLOWED requests more, by which it can grow. The limit
 * moves a fifth of the way there. Averages and limits are counted in fractions, *parts*.
 */

#define QUEUE_ALLOWED 4
#define LONG_WARM     10
#define LONG_AGE      600
#define LONG_PARTS    256

void gradient2_begin(struct gradient2 *gradient, const struct adaptive_bounds *bounds)
{
	*gradient = (struct gradient2){.limit_parts = (uint64_t)bounds->initial * GRADIENT2_LIMIT_ONE};
}

void gradient2_sample(struct gradient2 *gradient, const struct adaptive_bounds *bounds,
                      const struct adaptive_sample *sample)
{
	const uint64_t one = GRADIENT2_LIMIT_ONE;
	uint64_t latency_parts = latency_of(sample) * LONG_PARTS, limit = gradient->limit_parts;
	uint64_t factor, wanted;

	if (gradient->count < LONG_WARM) {
		gradient->long_parts =
		    (gradient->long_parts * gradient->count + latency_parts) / (gradient->count + 1);
		gradient->count++;
	} else {
		gradient->long_parts +=
		    (uint64_t)(((int64_t)latency_parts - (int64_t)gradient->long_parts) * 2 /
		               (LONG_AGE + 1));
	}
	if (gradient->long_parts > 2 * latency_parts) /* falls faster after an overload */
		gradient->long_parts = gradient->long_parts * 95 / 100;
	if (sample->in_flight < ceil_div(limit / one, 2))
		return;
	factor =
	    clamp(sat_u64((u128)3 * gradient->long_parts * one / (2 * latency_parts)), one / 2, one);
	wanted = limit * factor / one + QUEUE_ALLOWED * one;
	limit = (4 * limit + wanted) / 5;
	gradient->limit_parts = clamp(limit, bounds->least * one, bounds->most * one);
}

/* vegas: the queue is the number that would not be in flight if all had the least latency. */

void vegas_begin(struct vegas *vegas, const struct adaptive_bounds *bounds)
{
	*vegas = (struct vegas){.limit = bounds->initial, .jitter = UINT16_MAX};
}

/* log10, rounded down, at least 1. */
static uint64_t log10_of(uint64_t limit)
{
	uint64_t log = 1;

	for (limit /= 100; limit > 0; limit /= 10)
		log++;
	return log;
}

/* Restarts the search for the least latency after 15 to 30 samples for each 1 of the limit. */
static bool restarts_least_latency(struct vegas *vegas, const struct adaptive_sample *sample)
{
	vegas->count++;
	if ((u128)vegas->count << 17 <= (u128)30 * vegas->limit * (65536 + (uint64_t)vegas->jitter))
		return false;
	vegas->count = 0;
	vegas->jitter = sample->draw;
	vegas->least_ns = latency_of(sample);
	return true;
}

void vegas_sample(struct vegas *vegas, const struct adaptive_bounds *bounds,
                  const struct adaptive_sample *sample)
{
	uint64_t latency_ns = latency_of(sample), limit = vegas->limit, step = log10_of(limit), queue;

	if (restarts_least_latency(vegas, sample))
		return;
	if (vegas->least_ns == 0 || latency_ns < vegas->least_ns) {
		vegas->least_ns = latency_ns;
		if (!sample->dropped)
			return;
	}
	queue = ceil_div(limit * (latency_ns - vegas->least_ns), latency_ns);
	if (sample->dropped)
		limit = sat_sub(limit, step);
	else if (sample->in_flight < ceil_div(limit, 2))
		return;
	else if (queue <= step)
		limit += 6 * step;
	else if (queue < 3 * step)
		limit += step;
	else if (queue > 6 * step)
		limit = sat_sub(limit, step);
	vegas->limit = (uint32_t)clamp(limit, bounds->least, bounds->most);
}

/* aimd: additive increase, multiplicative decrease */

#define LATE_NS (5 * NS_PER_S)

void aimd_begin(struct aimd *aimd, const struct adaptive_bounds *bounds)
{
	aimd->limit = bounds->initial;
}

void aimd_sample(struct aimd *aimd, const struct adaptive_bounds *bounds,
                 const struct adaptive_sample *sample)
{
	uint64_t limit = aimd->limit;

	if (sample->dropped || latency_of(sample) > LATE_NS)
		limit = limit * 9 / 10;
	else if (sample->in_flight >= ceil_div(limit, 2))
		limit++;
	aimd->limit = (uint32_t)clamp(limit, bounds->least, bounds->most);
}

/* bbr: the most answers in a finished part of time x the least mean latency of one. */

#define HOT          800000 /* the load of the processors, in millionths */
#define COOL_NS      NS_PER_S
#define CPU_EVERY_NS (500 * NS_PER_MS)

void bbr_begin(struct bbr *bbr)
{
	*bbr = (struct bbr){0};
}

void bbr_sample(struct bbr *bbr, const struct adaptive_sample *sample, uint64_t now_ns)
{
	uint64_t number = now_ns / BBR_PART_NS;
	struct bbr_part *part = &bbr->parts[number % BBR_PARTS];

	if (part->number != number)
		*part = (struct bbr_part){.number = number};
	part->passes++;
	part->sum_ns += latency_of(sample);
}

/* Records how busy the processors are, smoothed, at most each CPU_EVERY_NS. */
void bbr_busy(struct bbr *bbr, unsigned thousandths, uint64_t now_ns)
{
	if (now_ns - bbr->cpu_at_ns < CPU_EVERY_NS)
		return;
	bbr->cpu = cpu_smooth(bbr->cpu, thousandths);
	bbr->cpu_at_ns = now_ns;
}

/*
 * By Little's law: the highest throughput x the least latency, at least 1 ms, rounded to nearest.
 */
uint64_t bbr_limit(const struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t now_ns)
{
	uint64_t now = now_ns / BBR_PART_NS, most = 0, least_ns = ADAPTIVE_LATENCY_MAX_NS, in_flight_ns;

	for (unsigned i = 0; i < BBR_PARTS; i++) {
		const struct bbr_part *part = &bbr->parts[i];

		if (part->passes == 0 || part->number >= now || now - part->number >= BBR_PARTS)
			continue;
		most = u64_max(most, part->passes);
		least_ns = u64_min(least_ns, part->sum_ns / part->passes);
	}
	if (most == 0)
		return bounds->initial;
	in_flight_ns = sat_u64((u128)most * u64_max(least_ns, NS_PER_MS) * (NS_PER_S / BBR_PART_NS));
	return clamp(sat_add(in_flight_ns, NS_PER_S / 2) / NS_PER_S, bounds->least, bounds->most);
}

/* Limits only while the processors are busy, and for a second after the first denial. */
uint64_t bbr_quota(const struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t now_ns)
{
	bool denied_lately = bbr->first_denied_ns != 0 && now_ns - bbr->first_denied_ns <= COOL_NS;

	if (bbr->cpu < HOT && !denied_lately)
		return bounds->most;
	return u64_min(u64_max(bbr_limit(bbr, bounds, now_ns), 1) + 1, bounds->most);
}

/*
 * Whether a request may pass: all do unless the processors are busy, or the first denial since they
 * became busy was less than COOL_NS ago. Sets the time of that denial, or clears it.
 */
bool bbr_allows(struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t in_flight,
                uint64_t now_ns)
{
	bool over = in_flight > 1 && in_flight > bbr_limit(bbr, bounds, now_ns);

	if (bbr->cpu >= HOT) {
		if (over && bbr->first_denied_ns == 0)
			bbr->first_denied_ns = now_ns;
		return !over;
	}
	if (bbr->first_denied_ns != 0 && now_ns - bbr->first_denied_ns > COOL_NS)
		bbr->first_denied_ns = 0;
	return bbr->first_denied_ns == 0 || !over;
}
