/*
 * breaker_state.h: the state of the thing behind a limit, and what a breaker makes of it.
 *
 * A limit that judges by outcomes gives each request a permit, whose report says how the request
 * ended. All that such a limit decides is decided here, on a meaning; src/records keeps it in
 * cells. The meaning has three parts, each of which changes by itself:
 *
 *     struct breaker_state    the phase, and in half-open how its probes fared
 *     struct breaker_tally    the calls in the window, and how many of them failed or were slow
 *     flights                permits that are not reported yet, by when their time is over
 *
 * since_ns, when the phase began, is all that tells permits of one phase from those of another: a
 * result counts if its permit was given no earlier. So a permit needs to know nothing but its
 * start, and there is no epoch to count.
 */
#ifndef ALGO_OUTCOMES_BREAKER_STATE_H
#define ALGO_OUTCOMES_BREAKER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/algo.h"

enum breaker_phase {
	BREAKER_CLOSED, /* without a beginning, that is no state */
	BREAKER_RAMP,   /* closed, but calls come back bit by bit */
	BREAKER_OPEN,
	BREAKER_HALF_OPEN,
	BREAKER_FORCED_OPEN,
	BREAKER_FORCED_CLOSED,
	BREAKER_PHASE_COUNT,
};

/** The names of both for people, static. */
const char *breaker_phase_text(enum breaker_phase phase);
const char *breaker_cause_text(enum algo_cause cause);

/* As an end. */
#define BREAKER_FOREVER UINT64_MAX

/*
 * A probe whose result is ignored takes nothing with it but `flying`, and the next probe would
 * bring back the state that was before. Whoever has seen that state must not take it for the same
 * one: since then others flew. So the state counts how often probes ended.
 */
#define BREAKER_ENDED 8

struct breaker_state {
	enum breaker_phase phase;
	uint64_t since_ns; /* when it began; of a forced phase when it ends, or BREAKER_FOREVER */
	unsigned in_flight, good, bad, slow; /* half-open: probes; slow ones are good or bad as well */
	unsigned doublings; /* open or half-open: how many probes in a record have failed, ... */
	unsigned spread;    /* and open: where the sleep lies in its range, see breaker_sleep_ns */
	unsigned ended;     /* half-open: steps by which probes ended, modulo BREAKER_ENDED */
};

#define BREAKER_DOUBLINGS_MAX 63
#define BREAKER_SPREADS       128

struct breaker_tally {
	uint64_t calls, failures, slow;
};

/* A caller's report of a permit. */
struct breaker_report {
	uint64_t until_ns, permit;
	uint64_t latency_ns; /* or 0 for the time that it was held */
	enum weir_outcome outcome;
};

/* How a call ended. */
struct breaker_result {
	bool ignored;
	bool failed;
	bool slow;
};

/** The meaning of a report about a call that took so long. */
struct breaker_result breaker_result_of(const struct breaker_params *params,
                                        enum weir_outcome outcome, uint64_t latency_ns);

/** Brings it to `now`, as time alone does. */
struct breaker_state breaker_at(const struct breaker_params *params,
                                const struct breaker_state *state, uint64_t now_ns);

/* How a request asks. */
struct breaker_request {
	const uint64_t *draw;                   /* 64 fair bits, or NULL if the request only asks */
	struct algo_notification *notification; /* if a quorum group decides, here and below, or NULL */
	uint64_t in_flight;                     /* others, where max_concurrent counts */
};

/**
 * Whether a request passes; `state` is of now, and is then as it is with the request. All of `out`
 * is set but reset_after_ns.
 */
bool breaker_decide(const struct algo_limit *limit, struct breaker_state *state, uint64_t now_ns,
                    const struct breaker_request *request, struct algo_decision *out);

/** Whether ask would look at a draw. */
static inline bool breaker_needs_draw(const struct breaker_state *state)
{
	return state->phase == BREAKER_RAMP;
}

/** When a permit that is given in this phase was given: a clock that lags gives none before it. */
static inline uint64_t breaker_start(const struct breaker_state *state, uint64_t now_ns)
{
	return state->phase < BREAKER_FORCED_OPEN && state->since_ns > now_ns ? state->since_ns
	                                                                      : now_ns;
}

/** Whether the result of a permit that was given at start_ns counts. */
static inline bool breaker_counts(const struct breaker_state *state, uint64_t start_ns)
{
	return start_ns >= state->since_ns &&
	       (state->phase <= BREAKER_RAMP || state->phase == BREAKER_HALF_OPEN);
}

/** When the time of a permit that ends so is over, if it is a probe's. */
static inline uint64_t breaker_probe_end_ns(const struct breaker_params *params, uint64_t until_ns)
{
	return until_ns - params->timeout_ns + params->probe_ns;
}

/**
 * When a breaker opens whose probes were lost at these two times, of which 0 is none: at the later
 * one where all probes are judged together, and at the earlier one elsewhere.
 */
static inline uint64_t breaker_probes_lost_ns(const struct breaker_params *params, uint64_t one_ns,
                                              uint64_t other_ns)
{
	if (one_ns == 0 || other_ns == 0)
		return one_ns | other_ns;
	return params->together ? u64_max(one_ns, other_ns) : u64_min(one_ns, other_ns);
}

/**
 * Half-open: ends `count` of the probes in flight. Probes that a quorum group gave are spent, and
 * the notification has their results.
 */
void breaker_end_probes(const struct breaker_params *params, struct breaker_state *state,
                        struct breaker_result result, unsigned count, uint64_t now_ns,
                        struct algo_notification *notification);

/**
 * Does what a quorum group has decided (ALGO_GROUP_OPEN and on). Returns false if nothing changes
 * or an operator has forced the key.
 */
bool breaker_apply_group(const struct breaker_params *params, struct breaker_state *state,
                         const struct algo_call *call, uint64_t now_ns);

/** Why such a window opens a closed breaker, or ALGO_BY_NOTHING. */
enum algo_cause breaker_trip_cause(const struct breaker_params *params,
                                   const struct breaker_tally *tally);

/** It opens now. */
void breaker_open(struct breaker_state *state, uint64_t now_ns);

/** A spread that follows from a time or another number, so that all who know it find the same. */
unsigned breaker_spread(uint64_t number);

/**
 * How long it stays open: the first sleep, or that doubled up to the greatest one, and a tenth less
 * or more, so that breakers that opened together do not probe together.
 */
uint64_t breaker_sleep_ns(const struct breaker_params *params, unsigned doublings, unsigned spread);

/** Whether a window of time in `now_part` counts a part. */
static inline bool breaker_has_part(const struct breaker_params *params, uint64_t part,
                                    uint64_t now_part)
{
	if (params->finished_only)
		return part < now_part && part + params->parts >= now_part;
	return part <= now_part && part + params->parts > now_part;
}

/** How many more may be in flight. */
uint64_t breaker_capacity(const struct breaker_params *params, const struct breaker_state *state,
                          uint64_t in_flight);

/** When a part counts no longer. */
static inline uint64_t breaker_part_end_ns(const struct breaker_params *params, uint64_t part)
{
	return (part + params->parts + params->finished_only) * params->part_ns;
}

/* A cell holds so many outcomes of a window of calls. */
#define BREAKER_BLOCK 16

/** How many cells a stripe needs: for the window with room for one more, and for flights. */
static inline unsigned breaker_in_flight_cells(const struct breaker_params *params)
{
	return params->max_concurrent ? params->max_concurrent : BREAKER_IN_FLIGHT_PARTS;
}

static inline unsigned breaker_window_cells(const struct breaker_params *params)
{
	return 1 +
	       (params->part_ns ? params->parts : (params->calls + BREAKER_BLOCK - 1) / BREAKER_BLOCK);
}

/**
 * What can be added up stands in stripes: all but the places of max_concurrent, and calls in their
 * order.
 */
static inline unsigned breaker_stripes(const struct breaker_params *params)
{
	return params->max_concurrent || params->part_ns == 0 ? 1 : ALGO_STRIPES;
}

/* Cells of two lines, since processors fetch lines in pairs. */
#define BREAKER_LINES 8

/* Before the stripes, what threads only read. */
#define BREAKER_FIRST_STRIPE BREAKER_LINES

/** Cells from one stripe to the next. */
static inline unsigned breaker_stride(const struct breaker_params *params)
{
	unsigned cells = breaker_in_flight_cells(params) + breaker_window_cells(params);

	return (cells + BREAKER_LINES - 1) / BREAKER_LINES * BREAKER_LINES;
}

/** How many cells a record needs. */
static inline unsigned breaker_cells(const struct breaker_params *params)
{
	unsigned more = breaker_stripes(params) - 1;

	return BREAKER_FIRST_STRIPE + more * breaker_stride(params) + breaker_in_flight_cells(params) +
	       breaker_window_cells(params);
}

/** How long the phase says something yet; 0 when it is as good as none. */
uint64_t breaker_ttl_ns(const struct breaker_params *params, const struct breaker_state *state,
                        uint64_t now_ns);

/** How long permits given together without a bound are counted together. */
static inline uint64_t breaker_in_flight_part_ns(const struct breaker_params *params)
{
	return params->timeout_ns / (BREAKER_IN_FLIGHT_PARTS - 2) + 1;
}

/** The part of the window that a time is in, ... */
static inline uint64_t breaker_part(const struct breaker_params *params, uint64_t ns)
{
	return divide_by(ns, params->part_ns, params->part_inverse);
}

/** and the part of those in which permits are counted. */
static inline uint64_t breaker_in_flight_part(const struct breaker_params *params, uint64_t ns)
{
	return divide_by(ns, breaker_in_flight_part_ns(params), params->in_flight_inverse);
}

#endif
