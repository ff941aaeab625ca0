/*
 * records.h: how a state of more than one word is kept, as the parameters of its records.
 *
 * Such a state is a header and a record of cells. An algorithm says which operations on records it
 * needs, and with which parameters; src/records carries them out without locks.
 */
#ifndef ALGO_RECORD_KINDS_H
#define ALGO_RECORD_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/measured/estimators.h"
#include "base/number.h"

/* Cells of the narrowest records and of the widest. */
#define ALGO_WIDTH_LEAST 12
#define ALGO_WIDTH_MOST  10240

#define ALGO_SLOTS_MAX   1000
#define ALGO_LOG_MAX     10000
#define ALGO_PERMITS_MAX 10000

enum algo_record {
	ALGO_RECORD_NONE,      /* a state is one word, or there is none */
	ALGO_RECORD_SLOTS,     /* add to the slot of now; slots leave as time goes on */
	ALGO_RECORD_LOG,       /* append; entries leave as time goes on */
	ALGO_RECORD_DAY,       /* a day's first units are free, all others count in a window */
	ALGO_RECORD_LEASES,    /* take a place and give it back */
	ALGO_RECORD_BREAKER,   /* permits whose outcomes count; see outcomes/breaker_state.h */
	ALGO_RECORD_SUCCESS,   /* requests, and how many of them were accepted; see
	                          outcomes/success_ratio.h */
	ALGO_RECORD_IN_FLIGHT, /* permits in flight, at most as many as their reports let; see
	                          measured/estimate.h */
};

struct slots_params {
	uint64_t count;
	uint64_t period_ns;
	uint64_t slot_ns; /* rounded down, unless `whole` */
	uint32_t slots;
	bool whole;
	bool weighted; /* two slots, of which the older one counts by what is left of it */
};

struct log_params {
	uint64_t count;
	uint64_t period_ns;
};

struct day_params {
	uint64_t free;  /* units a day that no window counts */
	uint64_t count; /* of all others in a period */
	uint64_t period_ns;
};

/**
 * Whether a refund that names a time, or none (0), may take from the units of a day. A permit names
 * the end of the day or of the window that its units counted in; which units are free and which the
 * window's may have changed since then. So any time of this day will do that has not passed. A
 * clock that lags behind a midnight, whose own day ends first, must not accept yesterday's.
 */
static inline bool day_covers(uint64_t named_ns, uint64_t day_end_ns, uint64_t now_ns,
                              uint64_t own_end_ns)
{
	uint64_t past_ns = own_end_ns < day_end_ns ? own_end_ns : now_ns;

	return named_ns == 0 || (named_ns > past_ns && named_ns <= day_end_ns);
}

struct leases_params {
	uint64_t max;
	uint64_t lease_ns;
};

#define BREAKER_PARTS_MAX  20   /* of a window of time */
#define BREAKER_CALLS_MAX  1000 /* of a window of calls */
#define BREAKER_PROBES_MAX 100

/*
 * Permits whose number has no bound are counted together by when they were given, in parts of an
 * eighth of their time; a part's permits are over with the last of them.
 */
#define BREAKER_IN_FLIGHT_PARTS 10

struct breaker_params {
	uint64_t part_ns; /* of the window, or 0 if it counts calls */
	uint64_t part_inverse, in_flight_inverse, entry_inverse; /* of divide_by */
	uint64_t slow_ns;                                        /* from which a call is slow, or 0 */
	uint64_t sleep_ns;     /* the first; each failed probe doubles it, ... */
	uint64_t sleep_max_ns; /* up to this, which is no less */
	uint64_t ramp_ns;
	uint64_t timeout_ns;   /* of permits, ... */
	uint64_t probe_ns;     /* and of probes, at most as long */
	uint32_t parts, calls; /* of the window, one of them 0 */
	uint32_t minimum;
	uint32_t failures; /* so many are too many, whatever their share; or 0 if the share counts */
	uint32_t failure_percent, slow_percent;
	uint32_t probes;
	uint32_t max_concurrent; /* or 0 for any number */
	uint32_t
	    layout; /* tells records with another max_concurrent or judge_only from the limit's own */
	uint32_t quorum;        /* of servers that say that it is to open, or 0 if it is not shared */
	uint32_t seal;          /* tells parameters by which a window is judged from others */
	uint8_t in_flight_mark; /* the same of when permits end, 0 to 15; odd: each has its own cell */
	bool finished_only;     /* the part of now does not count yet */
	bool together;          /* probes are judged when all are back, as a window is */
	bool refusals_fail;     /* a request that max_concurrent refuses counts as failed */
	bool judge_only;        /* a request that would be denied passes, by a permit in no record */
};

#define SUCCESS_PARTS_MAX 40 /* of a window */
#define SUCCESS_UNIT      1000000

struct success_params {
	uint64_t part_ns;    /* of the window */
	uint64_t timeout_ns; /* of permits */
	uint32_t parts;
	uint32_t minimum; /* with fewer requests in the window nothing is shed */
	uint32_t spared;  /* so many requests are not held against anybody */
	uint32_t k; /* how many requests are fine for one that was accepted, in SUCCESS_UNIT, ... */
	uint32_t k_least;      /* and how many when all parts fail */
	bool recovers;         /* the more of the last parts work, the less is shed */
	uint32_t demand_parts; /* demand by priority is counted together in so many parts, ... */
	uint32_t demand_slots; /* and the last so many of these are the demand of late */
};

/*
 * Permits in flight are counted together by when they were given, in parts of a fifth of their
 * time. A part is over when as many later ones have begun.
 */
#define IN_FLIGHT_PARTS 6

/* Cells of a record beside those of the estimator. */
#define IN_FLIGHT_CELLS 3

/* A permit says to this when it was given, so that its time has room for a window. */
#define IN_FLIGHT_START_NS UINT64_C(256)

struct in_flight_params {
	struct adaptive_bounds bounds;
	enum weir_method method;
	uint64_t timeout_ns;   /* of permits, ... */
	uint64_t part_ns;      /* and a fifth of it, rounded up */
	uint64_t part_inverse; /* of divide_by */
};

/*
 * The generation of a limit's slots tells the form of a header's word, and two numbers of slots
 * that follow one another apart.
 */
enum { SLOTS_BARE = 1, SLOTS_OTHER = 2, SLOTS_GENERATIONS = 4 };

/** The generation of so many slots and such a count, where nobody says otherwise. */
static inline unsigned slots_generation(uint32_t slots, uint64_t count)
{
	return (slots * UINT32_C(0x9e3779b1) >> 30 & SLOTS_OTHER) | (count > 0xffff ? SLOTS_BARE : 0);
}

/** The slot that a time is in, counted from the epoch, and when a slot starts: rounded up. */
static inline uint64_t slots_number(const struct slots_params *params, uint64_t ns)
{
	if (params->whole)
		return ns / params->slot_ns;
	return (uint64_t)((u128)ns * params->slots / params->period_ns);
}

static inline uint64_t slots_start(const struct slots_params *params, uint64_t slot)
{
	if (params->whole)
		return slot * params->slot_ns;
	return (uint64_t)(((u128)slot * params->period_ns + params->slots - 1) / params->slots);
}

/** The weight of units that fade within `fade_ns`, of which `left_ns` is left; rounded up. */
static inline uint64_t slots_fading(uint64_t units, uint64_t left_ns, uint64_t fade_ns)
{
	return (uint64_t)(((u128)units * left_ns + fade_ns - 1) / fade_ns);
}

/** The part of a permit's id that a place carries; 0 without a permit. */
static inline uint32_t leases_word(uint64_t permit)
{
	return permit == 0 ? 0 : (uint32_t)permit ? (uint32_t)permit : 1;
}

#endif
