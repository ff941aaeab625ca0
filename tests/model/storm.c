/*
 * storm: clients that retry, a limit of the library, and a server that a fault overloads, in
 * virtual time (src/simulate/closed_loop/backend.h).
 *
 *     arguments   limit (none, fixed, adaptive), workers, the first seed, the number of seeds
 *     stdout      for each seed its scenario and its goodputs, as a line of JSON; `calm` is the
 *                 last of them if nothing happens
 *
 * From 5 s on half of the workers are away, each request takes three times as long, or five times
 * as many arrive; some seconds later all is as before.
 *
 * A seed decides all of the scenario. Goodput is the work that was answered in time, as a part of
 * what the server can do, or of what is asked for if that is less.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/limiter.h>

#include "simulate/closed_loop/backend.h"
#include "simulate/closed_loop/draw.h"

#define MS        UINT64_C(1000000)
#define SECOND_NS (1000 * MS)
#define NOW_NS    (1700000000 * SECOND_NS)

#define MEAN_NS    (10 * MS)
#define STRAIN     0.1
#define ATTEMPTS   3
#define TRIGGER_NS (5 * SECOND_NS)
#define LATER_NS   (30 * SECOND_NS) /* after the end of the trigger, ... */
#define LAST_NS    (10 * SECOND_NS) /* ... and for so long */
#define LOW        9                /* the lowest priority */

enum trigger { HALVES, SLOWER, SPIKE, TRIGGERS };

static const char *const trigger_names[] = {"halves", "slower", "spike"};
static const char *const service_names[] = {"exponential", "constant", "bimodal"};

struct scenario {
	uint64_t seed;
	enum trigger trigger;
	uint64_t lasts_ns;
	const char *service;
	double load; /* first attempts, as a part of the capacity */
	uint64_t patience_ns, backoff_ns;
	bool notifies;
	double low; /* this part of requests has a low priority */
};

struct storm {
	struct scenario scenario;
	unsigned workers;
	weir_limiter *limiter;
	struct backend *backend;
};

static bool allows(void *context, struct backend_attempt *attempt)
{
	struct weir_decision decision;

	if (weir_limiter_ask(context,
	                     &(struct weir_ask){.priority = attempt->priority,
	                                        .now_ns = NOW_NS + attempt->now_ns,
	                                        .permit = &attempt->permit},
	                     &decision) != 0)
		abort();
	return decision.allowed;
}

static void report(void *context, const struct weir_permit *permit, enum weir_outcome outcome,
                   uint64_t now_ns)
{
	if (weir_limiter_report(context, permit,
	                        &(struct weir_report){.outcome = outcome, .now_ns = NOW_NS + now_ns}) !=
	    0)
		abort();
}

static void change(const struct storm *storm, bool begins)
{
	const struct scenario *s = &storm->scenario;
	unsigned workers = begins && s->trigger == HALVES ? storm->workers / 2 : storm->workers;
	double mean_ns = begins && s->trigger == SLOWER ? 3.0 * MEAN_NS : 1.0 * MEAN_NS;
	double load = begins && s->trigger == SPIKE ? 5 * s->load : s->load;

	backend_set_server(storm->backend, workers, mean_ns);
	backend_set_demand(storm->backend, (struct backend_demand){load, s->low, {0, LOW}});
}

static struct scenario scenario_of(uint64_t seed)
{
	static const double loads[] = {0.8, 0.95, 1.5, 3};
	static const unsigned backoffs_ms[] = {0, 0, 20, 100};
	uint64_t n = 0;
#define CHOOSE(count) ((unsigned)(draw(~seed, n++) * (count)))
	return (struct scenario){.seed = seed,
	                         .trigger = (enum trigger)CHOOSE(TRIGGERS),
	                         .lasts_ns = (1 + CHOOSE(6)) * SECOND_NS,
	                         .service = service_names[CHOOSE(3)],
	                         .load = loads[CHOOSE(4)],
	                         .patience_ns = (100 + CHOOSE(400)) * MS,
	                         .backoff_ns = backoffs_ms[CHOOSE(4)] * MS,
	                         .notifies = CHOOSE(2),
	                         .low = CHOOSE(2) / 2.0};
#undef CHOOSE
}

static void print_scenario(const struct scenario *s)
{
	printf("{\"seed\": %llu, \"trigger\": \"%s\", \"seconds\": %llu, \"service\": \"%s\", "
	       "\"load\": %g, "
	       "\"patience_ms\": %llu, \"backoff_ms\": %llu, \"notifies\": %d, \"low\": %g",
	       (unsigned long long)s->seed, trigger_names[s->trigger],
	       (unsigned long long)(s->lasts_ns / SECOND_NS), s->service, s->load,
	       (unsigned long long)(s->patience_ns / MS), (unsigned long long)(s->backoff_ns / MS),
	       s->notifies, s->low);
}

static weir_limiter *open_limit(const char *name, unsigned workers, uint64_t seed)
{
	unsigned root = 1;
	struct weir_limit_options fixed = {.algorithm = WEIR_ALGORITHM_CONCURRENCY,
	                                   .lease_ns = 3600 * SECOND_NS},
	                          adaptive = {.algorithm = WEIR_ALGORITHM_ADAPTIVE,
	                                      .adaptive = &(struct weir_adaptive_options){.max = 1000}};
	weir_limiter *limiter = NULL;

	while ((root + 1) * (root + 1) <= workers)
		root++;
	fixed.max = workers + root;
	weir_seed(seed);
	if (strcmp(name, "none") != 0 &&
	    weir_limiter_open(strcmp(name, "fixed") == 0 ? &fixed : &adaptive, &limiter, NULL) != 0)
		abort();
	return limiter;
}

static void open_storm(struct storm *storm, const char *limit)
{
	const struct scenario *s = &storm->scenario;

	storm->limiter = open_limit(limit, storm->workers, s->seed);
	storm->backend = backend_open(
	    &(struct backend_options){.seed = s->seed,
	                              .workers = storm->workers,
	                              .service = service_named(s->service),
	                              .mean_ns = MEAN_NS,
	                              .strain = STRAIN,
	                              .attempts = ATTEMPTS,
	                              .patience_ns = s->patience_ns,
	                              .backoff_ns = s->backoff_ns,
	                              .notifies = s->notifies},
	    (struct backend_limit){storm->limiter, storm->limiter ? allows : NULL, report, NULL});
	if (!storm->backend)
		abort();
	backend_set_demand(storm->backend, (struct backend_demand){s->load, s->low, {0, LOW}});
}

static void play_until(const struct storm *storm, uint64_t until_ns)
{
	if (backend_run_until(storm->backend, until_ns) != BACKEND_OK)
		abort();
}

/* The goodput between two times. */
static double goodput(const struct storm *storm, uint64_t from_ns, uint64_t to_ns)
{
	double can = storm->workers * (double)(to_ns - from_ns) / MEAN_NS;
	struct backend_work first, last;

	play_until(storm, from_ns);
	first = backend_work(storm->backend);
	play_until(storm, to_ns);
	last = backend_work(storm->backend);
	return (last.done - first.done) / fmin(can, last.asked - first.asked);
}

static void run(const char *limit, unsigned workers, struct scenario scenario, bool is_calm)
{
	struct storm storm = {.scenario = scenario, .workers = workers};
	uint64_t ends_ns = TRIGGER_NS + scenario.lasts_ns, later_ns = ends_ns + LATER_NS;
	double before, fault, back, last;

	open_storm(&storm, limit);
	before = goodput(&storm, TRIGGER_NS - 2 * SECOND_NS, TRIGGER_NS);
	if (!is_calm)
		change(&storm, true);
	fault = goodput(&storm, TRIGGER_NS, TRIGGER_NS + SECOND_NS);
	play_until(&storm, ends_ns);
	if (!is_calm)
		change(&storm, false);
	back = goodput(&storm, ends_ns, ends_ns + SECOND_NS);
	last = goodput(&storm, later_ns, later_ns + LAST_NS);
	if (is_calm)
		printf(", \"calm\": %.4f}\n", last);
	else
		printf(", \"before\": %.4f, \"fault\": %.4f, \"back\": %.4f, \"last\": %.4f", before, fault,
		       back, last);
	weir_limiter_close(storm.limiter);
	backend_close(storm.backend);
}

int main(int argc, char **argv)
{
	uint64_t first;

	if (argc != 5)
		return 2;
	first = strtoull(argv[3], NULL, 10);
	for (uint64_t seed = first; seed < first + strtoull(argv[4], NULL, 10); seed++) {
		struct scenario scenario = scenario_of(seed);

		print_scenario(&scenario);
		for (int is_calm = 0; is_calm < 2; is_calm++)
			run(argv[1], (unsigned)atoi(argv[2]), scenario, is_calm);
	}
	return 0;
}
