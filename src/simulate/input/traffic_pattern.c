/*
 * traffic_pattern.c: generates requests that show how limits behave, such as a burst at the edge of
 * a window, with a rate relative to that of the limit.
 */
#include "simulate/input/traffic_pattern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define EPOCH_NS (UINT64_C(1767225600) * NS_PER_S) /* 2026-01-01T00:00:00Z, an arbitrary time */
#define PARTS    60                                /* of a period, the unit of phases */

/* Periods from the start of edge-burst to the middle of its burst, after 60 + 55 + 5 parts. */
#define EDGE_PERIODS 2

/*
 * For so many parts of a period the rate changes linearly between two percentages of the limit's
 * rate.
 */
struct pattern_phase {
	uint64_t parts, from_percent, to_percent;
};

#define PHASES(...)                                                                                \
	(const struct pattern_phase[]){__VA_ARGS__},                                                   \
	    sizeof((const struct pattern_phase[]){__VA_ARGS__}) / sizeof(struct pattern_phase)

static const struct {
	const char *name;
	uint64_t clients; /* each sends all phases */
	const struct pattern_phase *phases;
	size_t phase_count;
} patterns[] = {
    {"steady", 1, PHASES({300, 120, 120})},
    {"edge-burst", 1, PHASES({60, 20, 20}, {55, 0, 0}, {10, 1200, 1200}, {55, 0, 0}, {60, 20, 20})},
    {"ramp", 1, PHASES({300, 0, 300})},
    {"flash-sale", 50, PHASES({120, 20, 20}, {5, 20, 2000}, {55, 2000, 100}, {120, 100, 20})},
};

void pattern_add_limits(struct buffer *yaml)
{
	const struct algorithm *algorithm;

	buffer_add_text(yaml, "limits:\n");
	for (size_t i = 0; (algorithm = algorithm_listed(i)); i++)
		if (algorithm->sample)
			buffer_printf(yaml, "  %s: { algorithm: %s, %s }\n", algorithm->name, algorithm->name,
			              algorithm->sample);
}

/*
 * Returns the end of the limit's window at EDGE_PERIODS, or without windows the next multiple of
 * its period. Asks the limit, since windows such as months differ in length.
 */
static uint64_t first_edge_ns(const struct algo_limit *limit)
{
	uint64_t at_ns = EPOCH_NS + EDGE_PERIODS * limit->period_ns;
	uint64_t window_end_ns = algo_time_at(limit, moment_given(at_ns)).window_end_ns;

	return window_end_ns != 0 ? window_end_ns : (at_ns / limit->period_ns + 1) * limit->period_ns;
}

int pattern_open(struct pattern *pattern, const char *name, const struct weir_limit *limit,
                 uint64_t quota, const struct fields *fields, struct weir_error *error)
{
	uint64_t period_ns = limit->algo.period_ns;
	size_t i = 0;

	while (i < sizeof patterns / sizeof *patterns && strcmp(patterns[i].name, name) != 0)
		i++;
	if (i == sizeof patterns / sizeof *patterns)
		return error_set(error, WEIR_ENOTFOUND,
		                 "--pattern: expected " PATTERN_NAMES ", found '%.40s'", name);
	if (quota == 0)
		return error_set(error, WEIR_EINVAL, "--pattern: expected a limit with a rate, found none");
	if (quota > PATTERN_COUNT_MAX)
		return error_set(error, WEIR_ERANGE,
		                 "--pattern: expected a limit of at most %d a period, found %llu",
		                 PATTERN_COUNT_MAX, (unsigned long long)quota);
	*pattern = (struct pattern){
	    .phase = patterns[i].phases,
	    .end = patterns[i].phases + patterns[i].phase_count,
	    .fields = fields,
	    .clients = patterns[i].clients,
	    .quota = quota,
	    .period_ns = period_ns,
	    /* such that a window ends in the burst of edge-burst */
	    .begin_ns = first_edge_ns(&limit->algo) - EDGE_PERIODS * period_ns,
	};
	return WEIR_OK;
}

/* The number of requests of all clients in the phase. */
static uint64_t phase_requests(const struct pattern *pattern)
{
	const struct pattern_phase *phase = pattern->phase;

	return pattern->clients * pattern->quota * phase->parts *
	       (phase->from_percent + phase->to_percent) / (2 * 100 * PARTS);
}

/*
 * Returns the time within the phase, from 0 to 1, at which a share of its requests has been sent.
 * At time t that is (from * t + grown * t^2 / 2) of (from + grown / 2); this solves for t.
 */
static double time_of_share(const struct pattern_phase *phase, double share)
{
	double from = (double)phase->from_percent, grown = (double)phase->to_percent - from;

	if (grown == 0)
		return share;
	return (sqrt(from * from + grown * share * (2 * from + grown)) - from) / grown;
}

static struct slice value_of(const struct pattern *pattern, struct slice name)
{
	if (slice_equal(name, SLICE("ip")))
		return slice_of(pattern->address);
	if (slice_equal(name, SLICE("path")))
		return SLICE("/");
	if (slice_equal(name, SLICE("method")))
		return SLICE("GET");
	return (struct slice){NULL, 0};
}

int pattern_next(void *source, struct record *record, struct weir_error *error)
{
	struct pattern *pattern = source;
	uint64_t client;
	double time, parts;

	(void)error;
	while (pattern->sent == phase_requests(pattern)) {
		pattern->parts += pattern->phase->parts;
		pattern->sent = 0;
		if (++pattern->phase == pattern->end)
			return 0;
	}
	time = time_of_share(pattern->phase, (double)pattern->sent++ / (double)phase_requests(pattern));
	client = pattern->number++ % pattern->clients;
	snprintf(pattern->address, sizeof pattern->address, "192.0.2.%u", (unsigned)client + 1);
	/* Round only once, so that a request after a window's end is not a nanosecond before it. */
	parts = (double)pattern->parts + time * (double)pattern->phase->parts;
	record->time_ns =
	    pattern->begin_ns + (uint64_t)(parts / PARTS * (double)pattern->period_ns + 0.5);
	record->cost = 1;
	for (size_t i = 0; i < pattern->fields->count; i++)
		record->values[i] = value_of(pattern, pattern->fields->names[i]);
	return 1;
}
