/*
 * throttle.c: describes `throttle` limits: they shed requests that the backend would reject anyway.
 *
 * This is client-side throttling as in Google's SRE book: the requests of the window beyond `k`
 * times the accepted ones are too many, and a random draw denies the same share of new requests.
 * Denied requests count as requests. So the longer the backend accepts none, the fewer it gets,
 * down to one a second. outcomes/success_ratio.h decides.
 *
 * A request counts once, whatever its cost.
 */
#include "algo/outcomes/success_ratio.h"

#define PERMITS_DEFAULT_NS (60 * NS_PER_S)

#define K_MAX 1000

static const struct word preset_words[] = {{"none", WEIR_THROTTLE_PRESET_NONE},
                                           {"kratos", WEIR_THROTTLE_PRESET_KRATOS},
                                           {"go-zero", WEIR_THROTTLE_PRESET_GO_ZERO},
                                           {0}};

/* A preset: the options that it fills in, and other parameters. */
static const struct preset {
	struct weir_throttle_options options;
	uint32_t parts;  /* of the window */
	uint32_t spared; /* requests of the window that do not count */
	double k_least;  /* when all parts fail, or 0 for `k` */
	bool recovers;   /* after parts without a failure, fewer requests are shed */
} presets[] = {
    [WEIR_THROTTLE_PRESET_NONE] = {.parts = 40},
    [WEIR_THROTTLE_PRESET_KRATOS] = {{.window_ns = 3 * NS_PER_S, .k = 1 / 0.6, .minimum = 100},
                                     .parts = 10},
    [WEIR_THROTTLE_PRESET_GO_ZERO] = {{.window_ns = 10 * NS_PER_S, .k = 1.5},
                                      .parts = 40,
                                      .spared = 5,
                                      .k_least = 1.1,
                                      .recovers = true},
};

static const void *throttle_preset(const struct weir_limit_options *options)
{
	return &presets[options->throttle->preset].options;
}

static uint32_t k_in_units(double k)
{
	return (uint32_t)(k * SUCCESS_UNIT + 0.5);
}

static int init_throttle(struct algo_limit *limit, const struct weir_limit_options *options,
                         struct weir_error *error)
{
	const struct weir_throttle_options *own = options->throttle;
	const struct preset *named = &presets[own->preset];
	uint32_t k = k_in_units(own->k), k_least = k_in_units(named->k_least);

	(void)error;
	limit->success = (struct success_params){
	    .part_ns = own->window_ns / named->parts,
	    .timeout_ns = own->permit_timeout_ns,
	    .parts = named->parts,
	    .minimum = (uint32_t)own->minimum,
	    .spared = named->spared,
	    .k = k,
	    .k_least = k_least > 0 && k_least < k ? k_least : k,
	    .recovers = named->recovers,
	};
	success_set_demand_slots(&limit->success);
	limit->quota = ALGO_COUNT_MAX;
	limit->quota_kind = ALGO_QUOTA_NONE;
	limit->window_ns = own->window_ns;
	limit->width = algo_width(success_cells(&limit->success));
	return WEIR_OK;
}

const struct algorithm algorithm_throttle = {
    .name = "throttle",
    .id = WEIR_ALGORITHM_THROTTLE,
    ALGO_OWN(throttle),
    .parameters = {{"preset", ALGO_WORD, ALGO_OWN_FIELD(throttle, preset), .words = preset_words},
                   {"window", ALGO_TIME, ALGO_OWN_FIELD(throttle, window_ns), .min = NS_PER_MS,
                    .max = ALGO_PERIOD_MAX_NS, .default_value = 120 * NS_PER_S},
                   {"k", ALGO_DECIMAL, ALGO_OWN_FIELD(throttle, k), .min = 1, .max = K_MAX,
                    .default_value = 2},
                   {"minimum", ALGO_NUMBER, ALGO_OWN_FIELD(throttle, minimum), .min = 1,
                    .max = 1000000},
                   {"permit_timeout", ALGO_TIME, ALGO_OWN_FIELD(throttle, permit_timeout_ns),
                    .min = NS_PER_MS, .max = ALGO_PERIOD_MAX_NS,
                    .default_value = PERMITS_DEFAULT_NS},
                   ALGO_RETRY_ROW,
                   ALGO_KEYS_ROW},
    .record = ALGO_RECORD_SUCCESS,
    .unreported = "it counts as rejected",
    .judges = true,
    .retry_is_estimate = true,
    .preset = throttle_preset,
    .init = init_throttle,
};
