/*
 * health.h: the health of the thing behind a limit, and what a breaker makes of it.
 *
 * A limit that judges by outcomes gives each request a permit, whose report says how the request
 * ended. All that such a limit decides is decided here, on a meaning; src/rows keeps it in cells. The
 * meaning has three parts, each of which changes by itself:
 *
 *     struct health_state    the phase, and in half-open how its probes fared
 *     struct health_tally    the calls in the window, and how many of them failed or were slow
 *     flights                permits that are not reported yet, by when their time is over
 *
 * since_ns, when the phase began, is all that tells permits of one phase from those of another: a
 * result counts if its permit was given no earlier. So a permit needs to know nothing but its
 * start, and there is no epoch to count.
 */
#ifndef ALGO_OUTCOMES_HEALTH_H
#define ALGO_OUTCOMES_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/algo.h"

enum health_phase {
	HEALTH_CLOSED, /* without a beginning, that is no state */
	HEALTH_RAMP,   /* closed, but calls come back bit by bit */
	HEALTH_OPEN,
	HEALTH_HALF_OPEN,
	HEALTH_FORCED_OPEN,
	HEALTH_FORCED_CLOSED,
	HEALTH_PHASE_COUNT,
};

/** The names of both for people, static. */
const char *health_phase_text(enum health_phase phase);
const char *health_cause_text(enum algo_cause cause);

/* As an end. */
#define HEALTH_FOR_EVER UINT64_MAX

/*
 * A probe whose result is ignored takes nothing with it but `flying`, and the next probe would bring
 * back the state that was before. Whoever has seen that state must not take it for the same one:
 * since then others flew. So the state counts how often probes ended.
 */
#define HEALTH_ENDED 8

struct health_state {
	enum health_phase phase;
	uint64_t since_ns; /* when it began; of a forced phase when it ends, or HEALTH_FOR_EVER */
	unsigned flying, good, bad, slow; /* half-open: probes; slow ones are good or bad as well */
	unsigned doublings; /* open or half-open: how many probes in a row have failed, ... */
	unsigned spread;    /* and open: where the sleep lies in its range, see health_sleep_ns */
	unsigned ended; /* half-open: steps by which probes ended, modulo HEALTH_ENDED */
};

#define HEALTH_DOUBLINGS_MAX 63
#define HEALTH_SPREADS       128

struct health_tally {
	uint64_t calls, failures, slow;
};

/* A caller's report of a permit. */
struct health_report {
	uint64_t until_ns, permit;
	uint64_t latency_ns; /* or 0 for the time that it was held */
	enum weir_outcome outcome;
};

/* How a call ended. */
struct health_result {
	bool ignored;
	bool failed;
	bool slow;
};

/** The meaning of a report about a call that took so long. */
struct health_result health_result_of(const struct health_params *params, enum weir_outcome outcome,
                                      uint64_t latency_ns);

/** Brings it to `now`, as time alone does. */
struct health_state health_at(const struct health_params *params, const struct health_state *health,
                        uint64_t now_ns);

/* How a request asks. */
struct health_request {
	const uint64_t *draw;   /* 64 fair bits, or NULL if the request only asks */
	struct algo_notification *notification; /* if a quorum group decides, here and below, or NULL */
	uint64_t in_flight;     /* others, where max_concurrent counts */
};

/**
 * Whether a request passes; `health` is of now, and is then as it is with the request. All of `out`
 * is set but reset_after_ns.
 */
bool health_decide(const struct algo_limit *limit, struct health_state *health, uint64_t now_ns,
                   const struct health_request *request, struct algo_decision *out);

/** Whether ask would look at a draw. */
static inline bool health_needs_draw(const struct health_state *health)
{
	return health->phase == HEALTH_RAMP;
}

/** When a permit that is given in this phase was given: a clock that lags gives none before it. */
static inline uint64_t health_start(const struct health_state *health, uint64_t now_ns)
{
	return health->phase < HEALTH_FORCED_OPEN && health->since_ns > now_ns ? health->since_ns : now_ns;
}

/** Whether the result of a permit that was given at start_ns counts. */
static inline bool health_counts(const struct health_state *health, uint64_t start_ns)
{
	return start_ns >= health->since_ns &&
	       (health->phase <= HEALTH_RAMP || health->phase == HEALTH_HALF_OPEN);
}

/** When the time of a permit that ends so is over, if it is a probe's. */
static inline uint64_t health_probe_end_ns(const struct health_params *params, uint64_t until_ns)
{
	return until_ns - params->timeout_ns + params->probe_ns;
}

/**
 * When a breaker opens whose probes were lost at these two times, of which 0 is none: at the later one
 * where all probes are judged together, and at the earlier one elsewhere.
 */
static inline uint64_t health_lost_ns(const struct health_params *params, uint64_t one_ns,
                                      uint64_t other_ns)
{
	if (one_ns == 0 || other_ns == 0)
		return one_ns | other_ns;
	return params->together ? u64_max(one_ns, other_ns) : u64_min(one_ns, other_ns);
}

/**
 * Half-open: ends `count` of the probes in flight. Probes that a quorum group gave are spent, and the
 * notification has their results.
 */
void health_end_probes(const struct health_params *params, struct health_state *health,
                 struct health_result result, unsigned count, uint64_t now_ns,
                 struct algo_notification *notification);

/**
 * Does what a quorum group has decided (ALGO_GROUP_OPEN and on). Returns false if nothing changes or
 * an operator has forced the key.
 */
bool health_apply_group(const struct health_params *params, struct health_state *health,
                        const struct algo_call *call, uint64_t now_ns);

/** Why such a window opens a closed breaker, or ALGO_BY_NOTHING. */
enum algo_cause health_trip_cause(const struct health_params *params,
                                  const struct health_tally *tally);

/** It opens now. */
void health_open(struct health_state *health, uint64_t now_ns);

/** A spread that follows from a time or another number, so that all who know it find the same. */
unsigned health_spread(uint64_t number);

/**
 * How long it stays open: the first sleep, or that doubled up to the greatest one, and a tenth less
 * or more, so that breakers that opened together do not probe together.
 */
uint64_t health_sleep_ns(const struct health_params *params, unsigned doublings, unsigned spread);

/** Whether a window of time in `now_part` counts a part. */
static inline bool health_has_part(const struct health_params *params, uint64_t part,
                                   uint64_t now_part)
{
	if (params->finished_only)
		return part < now_part && part + params->parts >= now_part;
	return part <= now_part && part + params->parts > now_part;
}

/** How many more may be in flight. */
uint64_t health_capacity(const struct health_params *params, const struct health_state *health,
                         uint64_t in_flight);

/** When a part counts no longer. */
static inline uint64_t health_part_end_ns(const struct health_params *params, uint64_t part)
{
	return (part + params->parts + params->finished_only) * params->part_ns;
}

/* A cell holds so many outcomes of a window of calls. */
#define HEALTH_BLOCK 16

/** How many cells a stripe needs: for the window with room for one more, and for flights. */
static inline unsigned health_flight_cells(const struct health_params *params)
{
	return params->max_concurrent ? params->max_concurrent : HEALTH_FLIGHT_PARTS;
}

static inline unsigned health_window_cells(const struct health_params *params)
{
	return 1 + (params->part_ns ? params->parts : (params->calls + HEALTH_BLOCK - 1) / HEALTH_BLOCK);
}

/**
 * What can be added up stands in stripes: all but the places of max_concurrent, and calls in their
 * order.
 */
static inline unsigned health_stripes(const struct health_params *params)
{
	return params->max_concurrent || params->part_ns == 0 ? 1 : ALGO_STRIPES;
}

/* Cells of two lines, since processors fetch lines in pairs. */
#define HEALTH_LINES 8

/* Before the stripes, what threads only read. */
#define HEALTH_FIRST_STRIPE HEALTH_LINES

/** Cells from one stripe to the next. */
static inline unsigned health_stride(const struct health_params *params)
{
	unsigned cells = health_flight_cells(params) + health_window_cells(params);

	return (cells + HEALTH_LINES - 1) / HEALTH_LINES * HEALTH_LINES;
}

/** How many cells a row needs. */
static inline unsigned health_cells(const struct health_params *params)
{
	unsigned more = health_stripes(params) - 1;

	return HEALTH_FIRST_STRIPE + more * health_stride(params) + health_flight_cells(params) +
	       health_window_cells(params);
}

/** How long the phase says something yet; 0 when it is as good as none. */
uint64_t health_ttl_ns(const struct health_params *params, const struct health_state *health,
                       uint64_t now_ns);

/** How long permits given together without a bound are counted together. */
static inline uint64_t health_flight_ns(const struct health_params *params)
{
	return params->timeout_ns / (HEALTH_FLIGHT_PARTS - 2) + 1;
}

/** The part of the window that a time is in, ... */
static inline uint64_t health_part(const struct health_params *params, uint64_t ns)
{
	return divide_by(ns, params->part_ns, params->part_inverse);
}

/** and the part of those in which permits are counted. */
static inline uint64_t health_flight(const struct health_params *params, uint64_t ns)
{
	return divide_by(ns, health_flight_ns(params), params->flight_inverse);
}

#endif
