/*
 * health.h: the health of the thing behind a limit, and what a breaker makes of it.
 *
 * A limit that judges by outcomes gives each request a permit, and is told how the request ended.
 * All that such a limit decides is decided here, on a meaning; src/rows keeps it in cells. The
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
#ifndef ALGO_HEALTH_H
#define ALGO_HEALTH_H

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
};

/* As an end. */
#define HEALTH_FOR_EVER UINT64_MAX

struct health_state {
	enum health_phase phase;
	uint64_t since_ns; /* when it began; of a forced phase when it ends, or HEALTH_FOR_EVER */
	unsigned flying, good, bad, slow; /* half-open: probes; slow ones are good or bad as well */
};

struct health_tally {
	uint64_t calls, failures, slow;
};

/* How a call ended. */
struct health_result {
	bool ignored;
	bool failed;
	bool slow;
};

/** What a report says, of a call that took so long. */
struct health_result health_result_of(const struct health_params *params, enum weir_outcome outcome,
                                      uint64_t latency_ns);

/** What time alone has made of it by now. */
struct health_state health_at(const struct health_params *params, const struct health_state *health,
                        uint64_t now_ns);

/**
 * Whether a request passes; `health` is of now, and is then as it is with the request. `draw` is 64
 * fair bits, or NULL for what only asks. `in_flight` counts where max_concurrent does. All of `out`
 * is set but reset_after_ns.
 */
bool health_ask(const struct algo_limit *limit, struct health_state *health, uint64_t now_ns,
                const uint64_t *draw, uint64_t in_flight, struct algo_outcome *out);

/** Whether ask would look at a draw. */
static inline bool health_draws(const struct health_state *health)
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

/** Half-open: `count` of the probes that fly have ended so. */
void health_tell(const struct health_params *params, struct health_state *health,
                 struct health_result result, unsigned count, uint64_t now_ns);

/** Closed: whether such a window opens it. */
bool health_trips(const struct health_params *params, const struct health_tally *tally);

/** It opens now. */
void health_open(struct health_state *health, uint64_t now_ns);

/** Whether a window of time in `now_part` counts a part. */
static inline bool health_has_part(const struct health_params *params, uint64_t part,
                                   uint64_t now_part)
{
	if (params->finished_only)
		return part < now_part && part + params->parts >= now_part;
	return part <= now_part && part + params->parts > now_part;
}

/** What may be in flight beside that. */
uint64_t health_room(const struct health_params *params, const struct health_state *health,
                     uint64_t in_flight);

/** When a part counts no longer. */
static inline uint64_t health_part_end_ns(const struct health_params *params, uint64_t part)
{
	return (part + params->parts + params->finished_only) * params->part_ns;
}

/* Of a window of calls so many outcomes stand together in a cell. */
#define HEALTH_BLOCK 16

/** How many cells a row needs: for the phase, flights, and the window with room for one more. */
static inline unsigned health_flight_cells(const struct health_params *params)
{
	return params->max_concurrent ? params->max_concurrent : HEALTH_FLIGHT_PARTS;
}

static inline unsigned health_window_cells(const struct health_params *params)
{
	return 1 + (params->part_ns ? params->parts : (params->calls + HEALTH_BLOCK - 1) / HEALTH_BLOCK);
}

/** How long the phase says something yet; 0 when it is as good as none. */
uint64_t health_ahead_ns(const struct health_params *params, const struct health_state *health,
                         uint64_t now_ns);

/** How long permits given together without a bound are counted together. */
static inline uint64_t health_flight_ns(const struct health_params *params)
{
	return params->timeout_ns / (HEALTH_FLIGHT_PARTS - 2) + 1;
}

#endif
