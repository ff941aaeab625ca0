/*
 * breaker_state.h: decides for circuit breakers, by their phases and the outcomes of requests.
 *
 * A breaker gives each request a permit, whose report says how the request ended. All decisions of
 * breakers are made here, on structs; src/records stores these in cells. The state of a key has
 * three parts, which change independently:
 *
 *     struct breaker_state    the phase, and in half-open the results of its probes
 *     struct breaker_tally    the requests in the window, and how many failed or were slow
 *     requests in flight      permits that are not reported yet, counted by the end of their time
 *
 * A result counts in a phase if its permit was given no earlier than since_ns, the start of the
 * phase. So a permit needs no other mark of its phase than its own start.
 */
#ifndef ALGO_OUTCOMES_BREAKER_STATE_H
#define ALGO_OUTCOMES_BREAKER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/algo.h"

enum breaker_phase {
	BREAKER_CLOSED, /* with a since_ns of 0 this equals no state */
	BREAKER_RAMP,   /* closed, but a growing share of requests passes */
	BREAKER_OPEN,
	BREAKER_HALF_OPEN,
	BREAKER_FORCED_OPEN,
	BREAKER_FORCED_CLOSED,
	BREAKER_PHASE_COUNT,
};

/** The names of phases and causes in logs and answers: static strings. */
const char *breaker_phase_text(enum breaker_phase phase);
const char *breaker_cause_text(enum algo_cause cause);

/* The end of a force without end. */
#define BREAKER_FOREVER UINT64_MAX

/*
 * A probe whose result is ignored changes nothing but `probes_in_flight`, and the next probe would
 * restore the former state. A thread that has read that state must not take it for the same one,
 * because other probes are in flight by now. So the state counts how often probes ended.
 */
#define BREAKER_ENDED 8

struct breaker_state {
	enum breaker_phase phase;
	uint64_t since_ns; /* start of the phase; of a forced phase its end, or BREAKER_FOREVER */
	unsigned probes_in_flight, good, bad, slow; /* half-open: probes without and by result; slow
	                                               ones are good or bad as well */
	unsigned doublings; /* open, half-open: the number of probes in a row that failed */
	unsigned spread;    /* open: the position of the sleep in its range, see breaker_sleep_ns */
	unsigned ended;     /* half-open: the number of calls that ended probes, modulo BREAKER_ENDED */
};

#define BREAKER_DOUBLINGS_MAX 63
#define BREAKER_SPREADS       128

struct breaker_tally {
	uint64_t calls, failures, slow;
};

/* A caller's report of a permit. */
struct breaker_report {
	uint64_t until_ns, permit;
	uint64_t latency_ns; /* of the request, or 0 for the age of the permit */
	enum weir_outcome outcome;
};

/* The result of a request, as a breaker counts it. */
struct breaker_result {
	bool ignored;
	bool failed;
	bool slow;
};

/** The result that a report means, if the request took latency_ns. */
struct breaker_result breaker_result_of(const struct breaker_params *params,
                                        enum weir_outcome outcome, uint64_t latency_ns);

/** The state at now_ns, if no call has changed it since. */
struct breaker_state breaker_at(const struct breaker_params *params,
                                const struct breaker_state *state, uint64_t now_ns);

/* A request for a decision. */
struct breaker_request {
	const uint64_t *draw;                   /* 64 fair random bits, or NULL: it passes a ramp */
	struct algo_notification *notification; /* out, or NULL if no quorum group decides the limit */
	uint64_t in_flight;                     /* other requests, if the limit has max_concurrent */
	bool is_peek;
	bool counts_denial;                     /* whether a denial asks the group for a probe */
};

/**
 * Decides a request. `state` is the state at now (breaker_at), and becomes the state with the
 * request. Sets all of `out` but reset_after_ns. Returns whether the request passes.
 */
bool breaker_decide(const struct algo_limit *limit, struct breaker_state *state, uint64_t now_ns,
                    const struct breaker_request *request, struct algo_decision *out);

/** Whether the breaker is closed, or closes by a ramp: then results count in its window. */
static inline bool breaker_is_closed(const struct breaker_state *state)
{
	return state->phase <= BREAKER_RAMP;
}

/** Whether an operator has forced the phase. */
static inline bool breaker_is_forced(const struct breaker_state *state)
{
	return state->phase >= BREAKER_FORCED_OPEN;
}

/** Whether breaker_decide needs a draw in this phase. */
static inline bool breaker_needs_draw(const struct breaker_state *state)
{
	return state->phase == BREAKER_RAMP;
}

/** The start of a permit that is given now: no earlier than the phase, even if this clock lags. */
static inline uint64_t breaker_start(const struct breaker_state *state, uint64_t now_ns)
{
	return !breaker_is_forced(state) && state->since_ns > now_ns ? state->since_ns : now_ns;
}

/** Whether the result of a permit that was given at start_ns counts in this phase. */
static inline bool breaker_counts(const struct breaker_state *state, uint64_t start_ns)
{
	return start_ns >= state->since_ns &&
	       (breaker_is_closed(state) || state->phase == BREAKER_HALF_OPEN);
}

/** The end of a probe's time, for a permit that ends at until_ns. */
static inline uint64_t breaker_probe_end_ns(const struct breaker_params *params, uint64_t until_ns)
{
	return until_ns - params->timeout_ns + params->probe_ns;
}

/**
 * The time at which a breaker opens because its probes were lost at one_ns and other_ns (0 for no
 * probe): the later time if all probes are judged together, or else the earlier one.
 */
static inline uint64_t breaker_probes_lost_ns(const struct breaker_params *params, uint64_t one_ns,
                                              uint64_t other_ns)
{
	if (one_ns == 0 || other_ns == 0)
		return one_ns | other_ns;
	return params->judges_probes_together ? u64_max(one_ns, other_ns) : u64_min(one_ns, other_ns);
}

/**
 * Ends `count` of the probes in flight in a half-open breaker, and changes the phase by their
 * result. If a quorum group decides, writes the result to `notification` instead.
 */
void breaker_end_probes(const struct breaker_params *params, struct breaker_state *state,
                        struct breaker_result result, unsigned count, uint64_t now_ns,
                        struct algo_notification *notification);

/**
 * Applies a decision of a quorum group (ALGO_GROUP_OPEN and the next three). Returns false if that
 * changes nothing, or an operator has forced the key.
 */
bool breaker_apply_group(const struct breaker_params *params, struct breaker_state *state,
                         const struct algo_call *call, uint64_t now_ns);

/**
 * The reason for which a closed breaker opens by its window, or ALGO_BY_NOTHING if it stays closed.
 */
enum algo_cause breaker_trip_cause(const struct breaker_params *params,
                                   const struct breaker_tally *tally);

/** Opens the breaker now. */
void breaker_open(struct breaker_state *state, uint64_t now_ns);

/**
 * The spread that follows from a number, so that all servers that know the number find the same.
 */
unsigned breaker_spread(uint64_t number);

/**
 * How long a breaker stays open: the first sleep, doubled for each failed probe up to the longest
 * one. `spread` then moves it by up to a tenth, so that breakers that opened together do not probe
 * together.
 */
uint64_t breaker_sleep_ns(const struct breaker_params *params, unsigned doublings, unsigned spread);

/** Whether `part` counts in a window of time that is read in `now_part`. */
static inline bool breaker_has_part(const struct breaker_params *params, uint64_t part,
                                    uint64_t now_part)
{
	if (params->finished_only)
		return part < now_part && part + params->parts >= now_part;
	return part <= now_part && part + params->parts > now_part;
}

/** How many more requests may pass: for `remaining`. */
uint64_t breaker_capacity(const struct breaker_params *params, const struct breaker_state *state,
                          uint64_t in_flight);

/** The time from which a part of the window no longer counts. */
static inline uint64_t breaker_part_counts_until_ns(const struct breaker_params *params,
                                                    uint64_t part)
{
	return (part + params->parts + params->finished_only) * params->part_ns;
}

/* The number of outcomes in a cell of a window of calls. */
#define BREAKER_BLOCK 16

/** The number of cells of a stripe for in-flight entries. */
static inline unsigned breaker_in_flight_cells(const struct breaker_params *params)
{
	return params->max_concurrent ? params->max_concurrent : BREAKER_IN_FLIGHT_PARTS;
}

/** The number of cells of a stripe for the window, and one part more. */
static inline unsigned breaker_window_cells(const struct breaker_params *params)
{
	return 1 +
	       (params->part_ns ? params->parts : (params->calls + BREAKER_BLOCK - 1) / BREAKER_BLOCK);
}

/**
 * The number of stripes (ALGO_STRIPES). Counts are split into stripes, since they can be added up;
 * not so the places of max_concurrent, nor a window of calls, whose order counts.
 */
static inline unsigned breaker_stripes(const struct breaker_params *params)
{
	return params->max_concurrent || params->part_ns == 0 ? 1 : ALGO_STRIPES;
}

/* The cells of two cache lines, since processors fetch lines in pairs. */
#define BREAKER_LINES 8

/* Cells before the stripes, which threads mostly read. */
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

/** How long the phase still has an effect, or 0 if it equals no state. */
uint64_t breaker_ttl_ns(const struct breaker_params *params, const struct breaker_state *state,
                        uint64_t now_ns);

/** The time over which permits are counted together if max_concurrent does not bound them. */
static inline uint64_t breaker_in_flight_part_ns(const struct breaker_params *params)
{
	return params->timeout_ns / (BREAKER_IN_FLIGHT_PARTS - 2) + 1;
}

/** The number of the part of the window that contains a time. */
static inline uint64_t breaker_part(const struct breaker_params *params, uint64_t ns)
{
	return divide_by(ns, params->part_ns, params->part_inverse);
}

/** The number of the part, of those by which permits are counted, that contains a time. */
static inline uint64_t breaker_in_flight_part(const struct breaker_params *params, uint64_t ns)
{
	return divide_by(ns, breaker_in_flight_part_ns(params), params->in_flight_inverse);
}

#endif
