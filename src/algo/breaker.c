/*
 * breaker.c: describes `breaker` limits: circuit breakers, which keep requests from a backend that
 * fails. outcomes/breaker_state.h decides.
 *
 * While the breaker is closed, all requests pass, and their outcomes are counted over a window. If
 * too many of at least `minimum` requests fail or are slow, it opens for `sleep` and denies all.
 * Then it is half-open: the next requests, `probes` at most, pass as probes. If all succeed, it
 * closes, and over `ramp` lets 10% to 100% of requests pass. If one fails, it opens again.
 *
 * A permit counts one request, whatever its cost.
 */
#include "algo/outcomes/breaker_state.h"
#include "base/error.h"

#define PERMITS_DEFAULT_NS (60 * NS_PER_S)
#define QUORUM_MAX         1000 /* servers */
#define FAILURES_MAX       1000000

static const struct word preset_words[] = {{"none", WEIR_BREAKER_PRESET_NONE},
                                           {"hystrix", WEIR_BREAKER_PRESET_HYSTRIX},
                                           {"resilience4j", WEIR_BREAKER_PRESET_RESILIENCE4J},
                                           {0}};

static const struct word judge_words[] = {{"no", 0}, {"yes", 1}, {0}};

/* A preset: the options that it fills in, and other parameters. */
static const struct preset {
	struct weir_breaker_options options;
	uint32_t parts;     /* of the window of time */
	bool finished_only; /* the window's current part does not count yet */
	bool judges_probes_together;
	bool refusals_fail; /* a request that max_concurrent denies counts as failed */
} presets[] = {
    [WEIR_BREAKER_PRESET_NONE] = {.parts = 10},
    [WEIR_BREAKER_PRESET_HYSTRIX] = {{.ramp_ns = WEIR_ZERO, .max_concurrent = 10},
                                     .parts = BREAKER_PARTS_MAX,
                                     .finished_only = true,
                                     .refusals_fail = true},
    [WEIR_BREAKER_PRESET_RESILIENCE4J] = {{.calls = 100,
                                           .minimum = 100,
                                           .slow_ns = 60 * NS_PER_S,
                                           .sleep_ns = 60 * NS_PER_S,
                                           .probes = 10,
                                           .ramp_ns = WEIR_ZERO},
                                          .parts = 10,
                                          .judges_probes_together = true},
};

static const void *breaker_preset(const struct weir_limit_options *options)
{
	return &presets[options->breaker->preset].options;
}

/* A window counts a time or a number of calls, not both. */
static enum parameter_effect unless_calls(const struct weir_limit_options *options)
{
	return options->breaker && options->breaker->calls ? ALGO_REFUSED : ALGO_USED;
}

static enum parameter_effect unless_window(const struct weir_limit_options *options)
{
	return options->breaker && options->breaker->window_ns ? ALGO_REFUSED : ALGO_USED;
}

/* A breaker opens by a number of failures or by a share of calls, not both. */
static enum parameter_effect unless_failures(const struct weir_limit_options *options)
{
	return options->breaker && options->breaker->failures ? ALGO_REFUSED : ALGO_USED;
}

static uint64_t default_as_sleep(const struct weir_limit_options *options)
{
	return options->breaker->sleep_ns;
}

/* Long enough to see that a probe is slow. The libraries that presets are named after have none. */
static uint64_t default_probe_timeout(const struct weir_limit_options *options)
{
	const struct weir_breaker_options *own = options->breaker;
	uint64_t wanted_ns = u64_max(own->sleep_ns, 2 * own->slow_ns);

	return own->preset == WEIR_BREAKER_PRESET_NONE ? u64_min(wanted_ns, own->permit_timeout_ns)
	                                               : own->permit_timeout_ns;
}

/* Adds a value to a hash. */
static uint32_t mix_seal(uint64_t seal, uint64_t value)
{
	return (uint32_t)(((seal ^ value) * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/*
 * Returns a hash of four bits that marks the in-flight entries of these parameters, so that entries
 * of other ones do not count. Its lowest bit tells whether each permit has an entry of its own.
 */
static uint8_t in_flight_mark_of(const struct breaker_params *params)
{
	uint32_t hash = mix_seal(params->timeout_ns, breaker_window_cells(params));
	bool is_single = params->max_concurrent != 0;

	return (uint8_t)((hash >> 28 & ~1u) | is_single);
}

/*
 * Computes the parameters that follow from others. `seal` is the hash of those by which a window is
 * judged, so that a window of other parameters is not used. An inverse makes divisions by its
 * number fast (divide_by).
 */
static void derive_breaker_params(struct breaker_params *params)
{
	const uint64_t judged_by[] = {
	    params->part_ns,    params->parts,           params->calls,        params->minimum,
	    params->failures,   params->failure_percent, params->slow_ns,      params->slow_percent,
	    params->timeout_ns, params->max_concurrent,  params->finished_only};

	for (size_t i = 0; i < sizeof judged_by / sizeof *judged_by; i++)
		params->seal = mix_seal(params->seal, judged_by[i]);
	params->in_flight_mark = in_flight_mark_of(params);
	if (params->part_ns)
		params->part_inverse = inverse_of(params->part_ns);
	params->in_flight_inverse = inverse_of(breaker_in_flight_part_ns(params));
	params->entry_inverse = inverse_of(breaker_window_cells(params));
}

/*
 * The percentage that `failures` of `probes` reach and one less does not: probes that are judged
 * together are judged by a percentage.
 */
static uint32_t probe_share(uint32_t failures, uint32_t probes)
{
	return (uint32_t)u64_min(failures, probes) * 100 / probes;
}

/*
 * A window has either parts of time or a number of calls. Counts that a window can't reach are cut.
 */
static int init_breaker(struct algo_limit *limit, const struct weir_limit_options *options,
                        struct weir_error *error)
{
	const struct weir_breaker_options *own = options->breaker;
	const struct preset *named = &presets[own->preset];
	uint32_t parts = own->calls ? 0 : named->parts;
	uint64_t window_calls_max = own->calls ? own->calls : UINT32_MAX;
	uint32_t failures = (uint32_t)u64_min(own->failures, window_calls_max);

	(void)error;
	limit->breaker = (struct breaker_params){
	    .part_ns = parts ? own->window_ns / parts : 0,
	    .slow_ns = own->slow_ns,
	    .sleep_ns = own->sleep_ns,
	    .sleep_max_ns = u64_max(own->sleep_ns, own->sleep_max_ns),
	    .ramp_ns = own->ramp_ns,
	    .timeout_ns = own->permit_timeout_ns,
	    .probe_ns = u64_min(own->probe_timeout_ns, own->permit_timeout_ns),
	    .parts = parts,
	    .calls = (uint32_t)own->calls,
	    .minimum = failures ? failures : (uint32_t)u64_min(own->minimum, window_calls_max),
	    .failures = failures,
	    /* With a number of `failures`, only probes that are judged together need a percentage. */
	    .failure_percent = failures ? probe_share(failures, own->probes) : own->failure_percent,
	    .slow_percent = own->slow_percent,
	    .probes = own->probes,
	    .max_concurrent = (uint32_t)own->max_concurrent,
	    /* It tells apart the records that store permits in different ways. */
	    .layout = (uint32_t)own->max_concurrent | own->judge_only << 31,
	    .quorum = (uint32_t)own->quorum,
	    .finished_only = parts && named->finished_only,
	    .judges_probes_together = named->judges_probes_together,
	    .refusals_fail = named->refusals_fail,
	    .judge_only = own->judge_only,
	};
	derive_breaker_params(&limit->breaker);
	limit->quota = own->max_concurrent ? own->max_concurrent : ALGO_COUNT_MAX;
	limit->quota_kind = own->max_concurrent ? ALGO_QUOTA_FIXED : ALGO_QUOTA_NONE;
	limit->window_ns = own->calls ? 0 : own->window_ns;
	limit->width = algo_width(breaker_cells(&limit->breaker));
	return WEIR_OK;
}

const struct algorithm algorithm_breaker = {
    .name = "breaker",
    .id = WEIR_ALGORITHM_BREAKER,
    ALGO_OWN(breaker),
    .parameters =
        {{"preset", ALGO_WORD, ALGO_OWN_FIELD(breaker, preset), .words = preset_words},
         {"window", ALGO_TIME, ALGO_OWN_FIELD(breaker, window_ns), .min = NS_PER_MS,
          .max = ALGO_PERIOD_MAX_NS, .default_value = 10 * NS_PER_S, .effect = unless_calls,
          .rival = "calls"},
         {"calls", ALGO_NUMBER, ALGO_OWN_FIELD(breaker, calls), .min = 1, .max = BREAKER_CALLS_MAX,
          .effect = unless_window, .rival = "window"},
         {"minimum", ALGO_NUMBER, ALGO_OWN_FIELD(breaker, minimum), .min = 1, .max = FAILURES_MAX,
          .default_value = 20, .effect = unless_failures, .rival = "failures"},
         {"failure_rate", ALGO_PERCENT, ALGO_OWN_FIELD(breaker, failure_percent), .min = 1,
          .max = 100, .default_value = 50, .effect = unless_failures, .rival = "failures"},
         {"failures", ALGO_NUMBER, ALGO_OWN_FIELD(breaker, failures), .min = 1,
          .max = FAILURES_MAX},
         {"slow", ALGO_TIME, ALGO_OWN_FIELD(breaker, slow_ns), .min = 1, .max = ALGO_PERIOD_MAX_NS},
         {"slow_rate", ALGO_PERCENT, ALGO_OWN_FIELD(breaker, slow_percent), .min = 1, .max = 100,
          .default_value = 100},
         {"sleep", ALGO_TIME, ALGO_OWN_FIELD(breaker, sleep_ns), .min = NS_PER_MS,
          .max = ALGO_PERIOD_MAX_NS, .default_value = 5 * NS_PER_S},
         {"sleep_max", ALGO_TIME, ALGO_OWN_FIELD(breaker, sleep_max_ns), .min = NS_PER_MS,
          .max = ALGO_PERIOD_MAX_NS, .default_value = ALGO_DEFAULT_DERIVED,
          .derive = default_as_sleep, .text = "as `sleep`"},
         {"probes", ALGO_NUMBER, ALGO_OWN_FIELD(breaker, probes), .min = 1,
          .max = BREAKER_PROBES_MAX, .default_value = 1},
         {"probe_timeout", ALGO_TIME, ALGO_OWN_FIELD(breaker, probe_timeout_ns), .min = NS_PER_MS,
          .max = ALGO_PERIOD_MAX_NS, .default_value = ALGO_DEFAULT_DERIVED,
          .derive = default_probe_timeout, .text = "as `sleep`, see [breakers](breaker.md)"},
         {"ramp", ALGO_TIME, ALGO_OWN_FIELD(breaker, ramp_ns), .max = ALGO_PERIOD_MAX_NS,
          .default_value = ALGO_DEFAULT_DERIVED, .derive = default_as_sleep, .text = "as `sleep`"},
         {"max_concurrent", ALGO_NUMBER, ALGO_OWN_FIELD(breaker, max_concurrent), .min = 1,
          .max = ALGO_PERMITS_MAX},
         {"permit_timeout", ALGO_TIME, ALGO_OWN_FIELD(breaker, permit_timeout_ns), .min = NS_PER_MS,
          .max = ALGO_PERIOD_MAX_NS, .default_value = PERMITS_DEFAULT_NS},
         {"quorum", ALGO_NUMBER, ALGO_OWN_FIELD(breaker, quorum), .max = QUORUM_MAX},
         {"judge_only", ALGO_WORD, ALGO_OWN_FIELD(breaker, judge_only), .words = judge_words},
         ALGO_RETRY_ROW,
         ALGO_KEYS_ROW},
    .record = ALGO_RECORD_BREAKER,
    .unreported = "it counts as a failure when permit_timeout ends",
    .judges = true,
    .retry_is_estimate = true,
    .preset = breaker_preset,
    .init = init_breaker,
};
