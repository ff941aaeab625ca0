/*
 * record_kinds.h: declares the kinds of states of more than one word, with their parameters.
 *
 * Such a state is a header, the cell of the key itself, and a record: a row of more cells. An
 * algorithm chooses a kind of record, and sets its parameters; src/records performs the operations
 * on it, without locks.
 */
#ifndef ALGO_RECORD_KINDS_H
#define ALGO_RECORD_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/measured/estimators.h"
#include "base/number.h"

/* The cells of the narrowest and of the widest record. */
#define ALGO_WIDTH_LEAST 12
#define ALGO_WIDTH_MOST  10240

#define ALGO_SLOTS_MAX   1000
#define ALGO_LOG_MAX     10000
#define ALGO_PERMITS_MAX 10000

enum algo_record {
	ALGO_RECORD_NONE,    /* a state is one time and one word (algo.h), or there is none */
	ALGO_RECORD_SLOTS,   /* requests add to the slot of now; old slots expire */
	ALGO_RECORD_LOG,     /* requests append an entry; old entries expire */
	ALGO_RECORD_DAY,     /* a day's first units are free, all others count in a window */
	ALGO_RECORD_LEASES,  /* requests in flight, each with an entry that it releases */
	ALGO_RECORD_BREAKER, /* permits, and outcomes of requests; see outcomes/breaker_state.h */
	ALGO_RECORD_SUCCESS, /* counts of requests and of accepted ones; see outcomes/success_ratio.h */
	ALGO_RECORD_IN_FLIGHT, /* permits in flight, with a measured limit; see measured/estimate.h */
};

struct slots_params {
	uint64_t count;
	uint64_t period_ns;
	uint64_t slot_ns; /* period_ns / slots, rounded down */
	uint32_t slots;
	bool slot_is_exact; /* slot_ns is not rounded */
	bool weighted; /* there are two slots, of which the older counts less the older it gets */
};

struct log_params {
	uint64_t count;
	uint64_t period_ns;
};

struct day_params {
	uint64_t free;  /* units of a day that count in no window */
	uint64_t count; /* the most of all other units, in a window of a period */
	uint64_t period_ns;
};

/**
 * Whether a refund that names a time, or none (0), may release units of a day. A permit names the
 * end of the day or of the window in which its units counted, but free units and those of a window
 * may have changed places since then. So any future time of this day is accepted. If this server's
 * clock still shows the day before (own_end_ns), a time of that day must not be accepted.
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
#define BREAKER_CALLS_MAX  1000 /* in a window of a number of requests */
#define BREAKER_PROBES_MAX 100

/*
 * Without max_concurrent, permits are counted together by the time at which they were given, in
 * parts of an eighth of their timeout. The permits of a part end together, with the last of them.
 */
#define BREAKER_IN_FLIGHT_PARTS 10

struct breaker_params {
	uint64_t part_ns; /* of the window, or 0 if that is a number of requests */
	uint64_t part_inverse, in_flight_inverse, entry_inverse; /* of divide_by */
	uint64_t slow_ns;      /* longer latencies are slow, or 0 if none is */
	uint64_t sleep_ns;     /* the first sleep; each failed probe doubles it, ... */
	uint64_t sleep_max_ns; /* up to this */
	uint64_t ramp_ns;
	uint64_t timeout_ns;   /* of permits, ... */
	uint64_t probe_ns;     /* and of probes, at most as long */
	uint32_t parts, calls; /* size of the window in parts or in requests; the other is 0 */
	uint32_t minimum;
	uint32_t failures; /* the number of failures that opens, or 0 if failure_percent does */
	uint32_t failure_percent, slow_percent;
	uint32_t probes;
	uint32_t max_concurrent; /* most requests in flight, or 0 for any number */
	uint32_t layout;         /* differs between records of different max_concurrent or judge_only */
	uint32_t quorum; /* servers whose windows must trip to open it, or 0 if it is not shared */
	uint32_t seal;   /* hash of the parameters by which a window is judged */
	uint8_t in_flight_mark; /* 0 to 15: hash of the timeout, odd if each permit has a cell */
	bool finished_only; /* the current part of the window does not count yet */
	bool judges_probes_together; /* probes are judged when all have ended, as a window is */
	bool refusals_fail; /* a request that max_concurrent denies counts as failed */
	bool judge_only;        /* a request that would be denied passes, by a permit in no record */
};

#define SUCCESS_PARTS_MAX 40 /* of a window */
#define SUCCESS_UNIT      1000000

struct success_params {
	uint64_t part_ns;    /* of the window */
	uint64_t timeout_ns; /* of permits */
	uint32_t parts;
	uint32_t minimum;      /* with fewer requests in the window none is shed */
	uint32_t spared;       /* requests that are subtracted from those of the window */
	uint32_t k;            /* requests allowed for each accepted one, in 1/SUCCESS_UNIT, ... */
	uint32_t k_least;      /* and if all parts of the window failed */
	bool recovers;         /* the more of the newest parts had no failure, the less is shed */
	uint32_t demand_parts; /* parts in a slot, over which demand by priority is counted, ... */
	uint32_t demand_slots; /* and slots in the recent demand */
};

/*
 * Permits in flight are counted together by the time at which they were given, in parts of a fifth
 * of their timeout. A part ends when this number of later parts has begun.
 */
#define IN_FLIGHT_PARTS 6

/* The cells of a record beside those of the estimator. */
#define IN_FLIGHT_CELLS 3

/* A permit has its start rounded to this, so that its end has bits for the number of a window. */
#define IN_FLIGHT_START_NS UINT64_C(256)

struct in_flight_params {
	struct adaptive_bounds bounds;
	enum weir_method method;
	uint64_t timeout_ns;   /* of permits, ... */
	uint64_t part_ns;      /* and a fifth of it, rounded up */
	uint64_t part_inverse; /* of divide_by */
};

/*
 * The generation of a limit with slots. One bit is the form of a header's word; the other differs
 * between two numbers of slots of which one takes over from the other.
 */
enum { SLOTS_BARE = 1, SLOTS_OTHER = 2, SLOTS_GENERATIONS = 4 };

/** The generation of a limit that has taken over from none. */
static inline unsigned slots_generation(uint32_t slots, uint64_t count)
{
	return (slots * UINT32_C(0x9e3779b1) >> 30 & SLOTS_OTHER) | (count > 0xffff ? SLOTS_BARE : 0);
}

/**
 * The number of the slot that contains a time, since the epoch, and the start of a slot, rounded
 * up.
 */
static inline uint64_t slots_number(const struct slots_params *params, uint64_t ns)
{
	if (params->slot_is_exact)
		return ns / params->slot_ns;
	return (uint64_t)((u128)ns * params->slots / params->period_ns);
}

static inline uint64_t slots_start(const struct slots_params *params, uint64_t slot)
{
	if (params->slot_is_exact)
		return slot * params->slot_ns;
	return (uint64_t)(((u128)slot * params->period_ns + params->slots - 1) / params->slots);
}

/** The weight of units that fade over fade_ns, of which left_ns is left; rounded up. */
static inline uint64_t slots_fading(uint64_t units, uint64_t left_ns, uint64_t fade_ns)
{
	return (uint64_t)(((u128)units * left_ns + fade_ns - 1) / fade_ns);
}

/** The part of a permit's id that its entry stores; 0 without a permit. */
static inline uint32_t leases_word(uint64_t permit)
{
	return permit == 0 ? 0 : (uint32_t)permit ? (uint32_t)permit : 1;
}

#endif
