/*
 * adaptive.c: describes `adaptive` limits: the number of requests in flight is limited to what the
 * backend was measured to serve without queueing.
 *
 * Each request has a permit, whose report has the latency. From these latencies an estimator
 * (measured/estimate.h) computes the limit, between `min` and `max`. A permit counts one request,
 * whatever its cost.
 */
#include "algo/measured/estimate.h"

#include "algo/algo.h"
#include "base/error.h"
#include "base/os/cpu.h"

#define PERMITS_DEFAULT_NS (60 * NS_PER_S)
#define INITIAL_DEFAULT    20
#define METHODS_MAX        8 /* more than the highest method */

static const struct word method_words[] = {
    {"knee", WEIR_METHOD_KNEE},   {"gradient2", WEIR_METHOD_GRADIENT2},
    {"vegas", WEIR_METHOD_VEGAS}, {"aimd", WEIR_METHOD_AIMD},
    {"bbr", WEIR_METHOD_BBR},     {0}};

/*
 * Returns the bounds that the options set; the method's, widened to fit these, replace missing
 * ones.
 */
static struct adaptive_bounds bounds_of(const struct weir_limit_options *options)
{
	const struct weir_adaptive_options *own = options->adaptive;
	struct adaptive_bounds bounds = estimate_bounds(own->method);
	uint32_t min = (uint32_t)own->min, max = (uint32_t)own->max, initial = own->initial;

	if (max)
		bounds.least = (uint32_t)u64_min(bounds.least, max);
	if (initial)
		bounds.least = (uint32_t)u64_min(bounds.least, initial);
	bounds.least = min ? min : bounds.least;
	bounds.most = max ? max : (uint32_t)u64_max(bounds.most, u64_max(bounds.least, initial));
	bounds.initial =
	    initial ? initial : (uint32_t)u64_max(bounds.least, u64_min(INITIAL_DEFAULT, bounds.most));
	return bounds;
}

/* Sets the parameters of permits in flight, and checks that the bounds fit together. */
static int init_adaptive(struct algo_limit *limit, const struct weir_limit_options *options,
                         struct weir_error *error)
{
	const struct weir_adaptive_options *own = options->adaptive;
	struct adaptive_bounds bounds = bounds_of(options);
	/* A fifth of the timeout, rounded up, and the rounding of a permit's start. */
	uint64_t part_ns = own->permit_timeout_ns / (IN_FLIGHT_PARTS - 1) + 1 + IN_FLIGHT_START_NS;

	if (bounds.least > bounds.most)
		return error_set(error, WEIR_EINVAL, "min: expected at most max, which is %u, found %u",
		                 bounds.most, bounds.least);
	if (bounds.initial < bounds.least || bounds.initial > bounds.most)
		return error_set(error, WEIR_EINVAL, "initial: expected %u to %u (min to max), found %u",
		                 bounds.least, bounds.most, bounds.initial);
	limit->in_flight = (struct in_flight_params){bounds, own->method, own->permit_timeout_ns,
	                                             part_ns, inverse_of(part_ns)};
	limit->quota = bounds.most;
	limit->quota_kind = ALGO_QUOTA_DECIDED;
	limit->window_ns = own->permit_timeout_ns;
	/* The period is part of the identity: a state of another method or timeout must not be used. */
	limit->period_ns = own->permit_timeout_ns * METHODS_MAX + own->method;
	limit->width = algo_width(IN_FLIGHT_CELLS + estimate_cells(own->method));
	if (!estimate_needs_cpu(own->method))
		return WEIR_OK;
	limit->cpu = cpu_open(""); /* with the system's own files */
	return limit->cpu ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

const struct algorithm algorithm_adaptive = {
    .name = "adaptive",
    .id = WEIR_ALGORITHM_ADAPTIVE,
    ALGO_OWN(adaptive),
    .parameters =
        {{"method", ALGO_WORD, ALGO_OWN_FIELD(adaptive, method), .words = method_words},
         {"initial", ALGO_NUMBER, ALGO_OWN_FIELD(adaptive, initial), .min = 1,
          .max = ALGO_PERMITS_MAX},
         {"min", ALGO_NUMBER, ALGO_OWN_FIELD(adaptive, min), .min = 1, .max = ALGO_PERMITS_MAX},
         {"max", ALGO_NUMBER, ALGO_OWN_FIELD(adaptive, max), .min = 1, .max = ALGO_PERMITS_MAX},
         ALGO_MAX_WAIT_ROW(ALGO_WAIT_DEFAULT_NS),
         {"queue", ALGO_NUMBER, ALGO_FIELD(queue), .max = 1000000},
         {"permit_timeout", ALGO_TIME, ALGO_OWN_FIELD(adaptive, permit_timeout_ns),
          .min = NS_PER_MS, .max = ALGO_PERIOD_MAX_NS, .default_value = PERMITS_DEFAULT_NS},
         ALGO_RETRY_ROW,
         ALGO_KEYS_ROW},
    .record = ALGO_RECORD_IN_FLIGHT,
    .unreported = "it stays in flight until permit_timeout ends",
    .judges = true,
    .retry_is_estimate = true,
    .init = init_adaptive,
};
