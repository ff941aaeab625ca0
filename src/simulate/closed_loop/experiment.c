#include "simulate/closed_loop/experiment.h"

#include <math.h>

#include "base/error.h"
#include "base/number.h"
#include "base/prng.h"
#include "base/time/timestamp.h"
#include "simulate/closed_loop/gate.h"

#define UNIT_BINS    20 /* of the part before the overload */
#define AFTER_UNITS  6  /* the part after it is so many times as long */
#define UNIT_TIMES   10 /* a part is so many times as long as what takes longest */
#define UNIT_MIN_NS  (10 * NS_PER_S)
#define UNIT_ANSWERS 1000 /* in a part, at least, so that chance does not decide the verdict */
#define HEALTHY      0.5  /* of what is possible */
#define RECOVERED    0.9  /* of what was answered before */
#define CHANCE       2    /* standard errors by which the verdict may be off */

const char *const experiment_parts[PARTS] = {"before", "overload", "after"};

/* How long UNIT_ANSWERS take all clients, or the idle backend; in whole seconds. */
static uint64_t many_answers_ns(const struct experiment *experiment)
{
	uint64_t cycle_ns = experiment->think_ns + experiment->service_ns + BACKEND_ROUND_TRIP_NS;
	uint64_t interval_ns =
	    u64_max(cycle_ns / experiment->clients, experiment->service_ns / experiment->workers);

	return ceil_div(UNIT_ANSWERS * interval_ns, NS_PER_S) * NS_PER_S;
}

void experiment_plan(struct experiment *experiment)
{
	uint64_t pause_ns = u64_max(experiment->think_ns, experiment->backoff_ns);
	uint64_t longest_ns =
	    u64_max(u64_max(experiment->timeout_ns, pause_ns), experiment->service_ns);
	uint64_t shortest_ns = u64_max(UNIT_MIN_NS, many_answers_ns(experiment));
	uint64_t unit_ns =
	    u64_max(u64_max(UNIT_TIMES * longest_ns, shortest_ns), experiment->overload_ns);
	uint64_t overload_ns = experiment->overload_ns ? experiment->overload_ns : unit_ns;

	experiment->bin_ns = unit_ns / UNIT_BINS;
	experiment->bins[PART_BEFORE] = UNIT_BINS;
	experiment->bins[PART_OVERLOAD] = (size_t)ceil_div(overload_ns, experiment->bin_ns);
	experiment->bins[PART_AFTER] = AFTER_UNITS * UNIT_BINS;
	experiment->overload_ns = experiment->bins[PART_OVERLOAD] * experiment->bin_ns;
}

uint64_t experiment_begin_ns(const struct experiment *experiment, size_t part)
{
	uint64_t bins = 0;

	for (size_t i = 0; i < part; i++)
		bins += experiment->bins[i];
	return bins * experiment->bin_ns;
}

double experiment_capacity(const struct experiment *experiment)
{
	return experiment->workers * (double)NS_PER_S / (double)experiment->service_ns;
}

/* The context of the model's callbacks. */
struct observer {
	struct gate *gate;
	struct histogram *latencies; /* of the current part */
};

static bool ask_gate(void *context, struct backend_attempt *attempt)
{
	return gate_allows(((struct observer *)context)->gate, attempt);
}

static void report_end(void *context, const struct weir_permit *permit, enum weir_outcome outcome,
                       uint64_t now_ns)
{
	gate_report(((struct observer *)context)->gate, permit, outcome, now_ns);
}

static void answered(void *context, uint64_t latency_ns)
{
	histogram_count(((struct observer *)context)->latencies, latency_ns, 1);
}

static struct backend_work difference(struct backend_work a, struct backend_work b)
{
	return (struct backend_work){.asked = a.asked - b.asked,
	                             .done = a.done - b.done,
	                             .requests = a.requests - b.requests,
	                             .attempts = a.attempts - b.attempts,
	                             .answered = a.answered - b.answered,
	                             .denied = a.denied - b.denied,
	                             .refused = a.refused - b.refused,
	                             .abandoned = a.abandoned - b.abandoned,
	                             .worked_ns = a.worked_ns - b.worked_ns,
	                             .wasted_ns = a.wasted_ns - b.wasted_ns};
}

/* Sums the bins from `first` to before `end`. */
static struct backend_work sum_bins(const struct experiment_result *result, size_t first,
                                    size_t end)
{
	struct backend_work sum = {0};

	for (size_t i = first; i < end; i++) { /* only the members that the verdict needs */
		sum.asked += result->bins[i].work.asked;
		sum.done += result->bins[i].work.done;
		sum.answered += result->bins[i].work.answered;
	}
	return sum;
}

/*
 * Says whether the configuration recovers: whether the last quarter of the part after the overload
 * answers nearly as many requests as the second half of the part before it, but for what chance
 * takes. It has recovered from the first bin on that does so, as do all after it.
 */
static void judge(const struct experiment *experiment, struct experiment_result *result)
{
	size_t half = experiment->bins[PART_BEFORE] / 2, quarter = experiment->bins[PART_AFTER] / 4;
	size_t back = experiment->bins[PART_BEFORE] + experiment->bins[PART_OVERLOAD];
	struct backend_work before = sum_bins(result, half, 2 * half);
	struct backend_work last = sum_bins(result, result->bin_count - quarter, result->bin_count);
	double possible = (double)half * (double)experiment->bin_ns * experiment->workers /
	                  (double)experiment->service_ns;
	double usual = (double)before.answered / (double)half; /* in a bin */
	double enough = RECOVERED * usual -
	                CHANCE * sqrt(usual / (double)half + usual / (double)quarter); /* in a bin */

	result->before_share = before.asked > 0 ? before.done / fmin(before.asked, possible) : 0;
	result->was_healthy = result->before_share >= HEALTHY;
	result->end_share = usual > 0 ? (double)last.answered / (double)quarter / usual : 0;
	result->recovers = result->was_healthy && (double)last.answered >= enough * (double)quarter;
	for (size_t i = back; result->recovers && i < result->bin_count; i++) {
		double mean = (double)sum_bins(result, i, result->bin_count).answered /
		              (double)(result->bin_count - i);

		if (mean >= enough &&
		    (double)result->bins[i].work.answered >= enough - CHANCE * sqrt(usual)) {
			result->recovered_ns = (i - back + 1) * experiment->bin_ns;
			break;
		}
	}
}

static int explain_stop(enum backend_status status, struct weir_error *error)
{
	if (status == BACKEND_TOO_MANY_ATTEMPTS)
		return error_set(error, WEIR_ELONG,
		                 "expected clients that make at most %llu attempts, found more: have fewer "
		                 "clients, or let them think or pause for longer",
		                 (unsigned long long)EXPERIMENT_ATTEMPTS_MAX);
	if (status == BACKEND_TOO_MANY_CALLS)
		return error_set(
		    error, WEIR_ELONG,
		    "expected at most 1,048,576 calls at once, found more: have fewer clients");
	return error_set(error, WEIR_ENOMEM, "out of memory");
}

/* Plays all bins. Returns the status of the backend. */
static enum backend_status play(const struct experiment *experiment, struct backend *backend,
                                struct observer *observer, const struct experiment_gate *gate,
                                struct experiment_result *result)
{
	struct backend_work earlier = {0};
	uint64_t now_ns = 0;

	for (size_t part = 0; part < PARTS; part++) {
		struct backend_work begin = earlier;
		double factor = part == PART_OVERLOAD ? experiment->slow_factor : 1;

		observer->latencies = &result->parts[part].latencies;
		backend_set_server(backend, experiment->workers, factor * (double)experiment->service_ns);
		for (size_t i = 0; i < experiment->bins[part]; i++) {
			struct experiment_bin *bin = &result->bins[result->bin_count++];
			enum backend_status status = backend_run_until(backend, now_ns += experiment->bin_ns);
			struct backend_work work = backend_work(backend);

			if (status != BACKEND_OK)
				return status;
			*bin = (struct experiment_bin){difference(work, earlier), backend_inside(backend)};
			earlier = work;
			if (gate->progress)
				gate->progress(gate->progress_context, work.attempts);
		}
		result->parts[part].work = difference(earlier, begin);
	}
	return BACKEND_OK;
}

int experiment_run(const struct experiment *experiment, const struct experiment_gate *gate,
                   struct experiment_result *result, struct weir_error *error)
{
	struct observer observer = {
	    .gate = gate->scenario ? gate_open(gate->scenario, gate->fields, gate->values) : NULL};
	struct backend *backend = backend_open(
	    &(struct backend_options){.seed = experiment->seed,
	                              .workers = experiment->workers,
	                              .service = service_named("exponential"),
	                              .mean_ns = (double)experiment->service_ns,
	                              .strain = experiment->strain,
	                              .attempts = experiment->attempts,
	                              .patience_ns = experiment->timeout_ns,
	                              .backoff_ns = experiment->backoff_ns,
	                              .notifies = true,
	                              .clients = experiment->clients,
	                              .think_ns = (double)experiment->think_ns,
	                              .attempts_max = EXPERIMENT_ATTEMPTS_MAX},
	    (struct backend_limit){&observer, gate->scenario ? ask_gate : NULL, report_end, answered});
	enum backend_status status = BACKEND_NO_MEMORY;

	prng_seed(experiment->seed); /* so that random limits decide the same in each run */
	if (backend && (observer.gate || !gate->scenario))
		status = play(experiment, backend, &observer, gate, result);
	if (observer.gate && !gate_end(observer.gate, experiment_begin_ns(experiment, PARTS)))
		status = BACKEND_NO_MEMORY;
	backend_close(backend);
	gate_close(observer.gate);
	if (status != BACKEND_OK)
		return explain_stop(status, error);
	judge(experiment, result);
	return WEIR_OK;
}
