/* tally.h: what a limit did to a trace. */
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
	uint64_t at_ns; /* when it came to that much */
	char key[TOP_KEY_MAX];
	size_t key_len; /* of the whole key */
};

/* How long what was allowed waited for its turn, where the limit makes requests wait. */
struct tally_waits {
	uint64_t waited;        /* longer than 0 */
	double sum_ns;          /* a year each may be more than 64 bits hold */
	struct histogram waits; /* also those of 0, in nanoseconds; empty of any other limit */
};

/* How requests ended, or would have ended, by the log, in the eyes of a limit that judges. */
enum tally_end {
	TALLY_GOOD,
	TALLY_BAD,     /* failed, or slow where the limit minds */
	TALLY_NEITHER, /* ignored, or the log does not tell */
	TALLY_ENDS,
};

struct tally {
	const struct weir_limit *limit;
	const struct rules_limit *declared;
	uint64_t allowed, denied; /* requests */
	uint64_t refused;         /* not decided: they cost more than the limit ever allows */
	struct tally_worst worst;
	struct burst *burst;
	struct hits hits;             /* requests and denials of each key */
	struct top *top;              /* never fades: all at one time, TALLY_TIME */
	struct histogram retry_after; /* of the denied, in nanoseconds */
	struct tally_waits waits;
	uint64_t ends[2][TALLY_ENDS]; /* of the denied, of the passed; of a limit that judges */
	struct phases *phases;        /* of a limit that has some; else NULL */
	struct timeline timeline;     /* of requests; what waits passes when its turn comes */
};

#define TALLY_TIME 0

/** The mean over all allowed requests; NAN if the limit makes no request wait. */
static inline double tally_wait_mean_ns(const struct tally_waits *waits)
{
	return waits->sum_ns / (double)waits->waits.count;
}

/** 0 or ENOMEM; free with tally_close in any case. */
int tally_open(struct tally *tally, const struct weir_limit *limit,
               const struct rules_limit *declared, uint64_t keys_max);
void tally_close(struct tally *tally);

/** A request of `cost` that came to `decision`. Times never go back. */
void tally_count(struct tally *tally, const struct plan_step *step, uint64_t cost, uint64_t now_ns,
                 const struct weir_decision *decision);

/** A request that costs more than the limit ever allows. */
void tally_refuse(struct tally *tally, const struct plan_step *step);

/** Counts how a request ended that the limit passed or denied; for limits that judge. */
void tally_count_end(struct tally *tally, bool passed, unsigned outcome, uint64_t latency_ns);

#endif
