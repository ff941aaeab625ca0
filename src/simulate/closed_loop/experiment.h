/*
 * experiment.h: what becomes of clients that retry when the backend is slow for a while: before,
 * in the overload, and after it.
 *
 * The backend takes `slow_factor` times as long for `overload_ns`, then it is as fast as before.
 * If the clients' retries alone keep it overloaded from then on (a metastable failure), the
 * configuration does not recover.
 */
#ifndef SIMULATE_EXPERIMENT_H
#define SIMULATE_EXPERIMENT_H

#include "simulate/closed_loop/backend.h"
#include "simulate/scenario.h"
#include "stats/histogram.h"

#define EXPERIMENT_ATTEMPTS_MAX UINT64_C(5000000) /* of all clients, in one configuration */
#define EXPERIMENT_BINS_MAX     512

struct experiment {
	unsigned clients, attempts, workers;
	uint64_t timeout_ns, think_ns, backoff_ns, service_ns;
	double strain; /* see backend.h */
	double slow_factor;
	uint64_t overload_ns; /* 0 for the default; set by experiment_plan */
	uint64_t seed;

	/* Set by experiment_plan. The parts are whole numbers of bins. */
	uint64_t bin_ns;
	size_t bins[3]; /* of each part */
};

enum experiment_part { PART_BEFORE, PART_OVERLOAD, PART_AFTER, PARTS };

extern const char *const experiment_parts[PARTS];

/* In a part, or a bin. */
struct experiment_part_result {
	struct backend_work work;
	struct histogram latencies; /* of answered requests, with their retries */
};

struct experiment_bin {
	struct backend_work work;
	unsigned inside; /* calls in the backend at its end */
};

struct experiment_result {
	struct experiment_part_result parts[PARTS];
	struct experiment_bin bins[EXPERIMENT_BINS_MAX];
	size_t bin_count;
	double before_share; /* useful work just before the overload, of what was asked or possible */
	double end_share;    /* answered requests in the last part, of those before the overload */
	bool was_healthy;    /* before the overload */
	bool recovers;
	uint64_t recovered_ns; /* after the overload, at most; if it recovers */
};

/** Sets how long the parts are. */
void experiment_plan(struct experiment *experiment);

/** When a part begins, from the start; PARTS is the end. */
uint64_t experiment_begin_ns(const struct experiment *experiment, size_t part);

/** The requests that the idle backend can answer in a second. */
double experiment_capacity(const struct experiment *experiment);

/* The limits to try: a scenario whose fields are bound, and the values of its requests. */
struct experiment_gate {
	struct scenario *scenario; /* NULL for no limits */
	const struct fields *fields;
	const struct slice *values;
	void (*progress)(void *context, uint64_t attempts); /* may be NULL */
	void *progress_context;
};

/** Runs it. Errors: ELONG (more attempts than EXPERIMENT_ATTEMPTS_MAX, or calls at once), ENOMEM.
 */
int experiment_run(const struct experiment *experiment, const struct experiment_gate *gate,
                   struct experiment_result *result, struct weir_error *error);

#endif
