/* tally.h: counts the decisions of one limit over a trace. */
#ifndef SIMULATE_TALLY_H
#define SIMULATE_TALLY_H

#include "engine/engine.h"
#include "rules/model.h"
#include "simulate/report/burst.h"
#include "simulate/report/hits.h"
#include "simulate/report/phase_times.h"
#include "simulate/report/timeline.h"
#include "stats/histogram.h"
#include "stats/top_denied.h"

/* The most that one key was granted in a period of its limit. */
struct tally_worst {
	uint64_t granted;
	uint64_t at_ns; /* when it was reached */
	char key[TOP_KEY_MAX];
	size_t key_len; /* of the whole key, which may be longer than `key` */
};

/* Waits of allowed requests, of limits that make requests wait. */
struct tally_waits {
	uint64_t waited;        /* requests with a wait above 0 */
	double sum_ns;          /* may exceed 64 bits */
	struct histogram waits; /* of all allowed requests, in ns; empty for other limits */
};

/* How a limit that judges outcomes rates the end of a request in the log. */
enum tally_end {
	TALLY_GOOD,
	TALLY_BAD,     /* failed, or slow if the limit counts slow requests */
	TALLY_NEITHER, /* ignored, or not in the log */
	TALLY_ENDS,
};

struct tally {
	const struct weir_limit *limit;
	const struct rules_limit *declared;
	uint64_t allowed, denied; /* requests */
	uint64_t refused;         /* requests that cost more than the limit ever allows */
	struct tally_worst worst_period;
	struct burst *burst;
	struct hits hits;             /* requests and denials of each key */
	struct top *top;              /* denials of the most denied keys; use TALLY_TOP_TIME_NS */
	struct histogram retry_after; /* of denied requests, in ns */
	struct tally_waits waits;
	uint64_t ends_of_denied[TALLY_ENDS], ends_of_passed[TALLY_ENDS]; /* if the limit judges ends */
	struct phases *phases;    /* NULL for a limit without phases */
	struct timeline timeline; /* of requests; a request that waits passes after its wait */
};

/* The time of all calls for tally->top: one and the same, so that its counts do not fade. */
#define TALLY_TOP_TIME_NS 0

/** The mean over all allowed requests; NAN if the limit makes no request wait. */
static inline double tally_wait_mean_ns(const struct tally_waits *waits)
{
	return waits->sum_ns / (double)waits->waits.count;
}

/** 0 or ENOMEM; free with tally_close in any case. */
int tally_open(struct tally *tally, const struct weir_limit *limit,
               const struct rules_limit *declared, uint64_t keys_max);
void tally_close(struct tally *tally);

/** Counts a request of `cost` and its decision. Times must not decrease. */
void tally_count(struct tally *tally, const struct plan_step *step, uint64_t cost, uint64_t now_ns,
                 const struct weir_decision *decision);

/** Counts a request that costs more than the limit ever allows. */
void tally_refuse(struct tally *tally, const struct plan_step *step);

/** Counts the end of a request that the limit has passed or denied; for limits that judge. */
void tally_count_end(struct tally *tally, bool passed, unsigned outcome, uint64_t latency_ns);

#endif
