#include "readers/koala/koala_method.h"

#include "algo/algorithm.h"
#include "algo/record_kinds.h"
#include "base/number.h"

static const struct koala_method methods[] = {
    {"count", WEIR_ALGORITHM_FIXED_WINDOW, .has_days = true, .exact_max = UINT64_MAX},
    {"base", WEIR_ALGORITHM_BASE, .has_base = true, .exact_max = UINT64_MAX},
    {"leak", WEIR_ALGORITHM_SLIDING_LOG, .gives_back = true, .exact_max = ALGO_LOG_MAX},
};

/* A sliding window of one part more than the time has: any `time` lies within its parts. */
#define PARTS           100
#define PART_MS(time_s) ((time_s)*1000 / PARTS)

const struct koala_method *koala_method_find(struct slice name)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (slice_equal(name, slice_of(methods[i].name)))
			return &methods[i];
	return NULL;
}

uint64_t koala_method_time_max_s(const struct koala_method *method, uint64_t count)
{
	uint64_t max_s = ALGO_PERIOD_MAX_NS / NS_PER_S;

	return count > method->exact_max ? max_s / (PARTS + 1) * PARTS : max_s;
}

uint64_t koala_method_count_max(const struct koala_method *method)
{
	enum weir_algorithm id =
	    method->exact_max < UINT64_MAX ? WEIR_ALGORITHM_SLIDING_WINDOW : method->algorithm;
	const struct algo_parameter *row = algorithm_of(id)->parameters;

	while (row->type != ALGO_RATE && row->type != ALGO_CALENDAR_RATE)
		row++;
	return row->max;
}

void koala_method_options(const struct koala_method *method, const struct koala_thresholds *thresholds,
                         struct weir_limit_options *out)
{
	bool is_day = method->has_days && thresholds->time_s == NS_PER_DAY / NS_PER_S;

	*out = (struct weir_limit_options){
	    .algorithm = method->algorithm,
	    .rate = {thresholds->count, is_day ? 1 : thresholds->time_s,
	             is_day ? WEIR_UNIT_DAY : WEIR_UNIT_SECOND},
	};
	if (thresholds->count > method->exact_max) {
		out->algorithm = WEIR_ALGORITHM_SLIDING_WINDOW;
		out->rate.period = PART_MS(thresholds->time_s) * (PARTS + 1);
		out->rate.unit = WEIR_UNIT_MILLISECOND;
		out->slots = PARTS + 1;
	}
	if (method->has_days && !is_day)
		out->align = WEIR_ALIGN_FIRST_REQUEST;
	if (method->has_base)
		out->base = thresholds->base;
	if (method->has_base || is_day)
		out->timezone = thresholds->timezone;
}
