#include "algo/method.h"

#include "algo/algorithm.h"
#include "base/number.h"

static const struct algo_method methods[] = {
    {"count", WEIR_FIXED_WINDOW, .has_days = true},
    {"base", WEIR_BASE, .has_base = true},
    {"leak", WEIR_SLIDING_LOG, .gives_back = true},
};

const struct algo_method *algo_method_find(struct slice name)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (slice_equal(name, slice_of(methods[i].name)))
			return &methods[i];
	return NULL;
}

uint64_t algo_method_count_max(const struct algo_method *method)
{
	const struct algo_parameter *row = algorithm_of(method->algorithm)->parameters;

	while (row->type != ALGO_RATE && row->type != ALGO_CALENDAR_RATE)
		row++;
	return row->max;
}

void algo_method_options(const struct algo_method *method, const struct algo_thresholds *thresholds,
                         struct weir_limit_options *out)
{
	bool is_day = method->has_days && thresholds->time_s == NS_PER_DAY / NS_PER_S;

	*out = (struct weir_limit_options){
	    .algorithm = method->algorithm,
	    .rate = {thresholds->count, is_day ? 1 : thresholds->time_s,
	             is_day ? WEIR_DAY : WEIR_SECOND},
	};
	if (method->has_days && !is_day)
		out->align = WEIR_ALIGN_FIRST_REQUEST;
	if (method->has_base)
		out->base = thresholds->base;
	if (method->has_base || is_day)
		out->timezone = thresholds->timezone;
}
