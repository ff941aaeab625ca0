/*
 * koala_method.c: maps the methods of Koala's rule language, such as `count`, to the algorithms of
 * Weir's limits that decide like them.
 */
#include "readers/koala/koala_method.h"

#include "algo/algorithm.h"
#include "algo/record_kinds.h"
#include "base/number.h"

static const struct koala_method methods[] = {
    {"count", WEIR_ALGORITHM_FIXED_WINDOW, .day_is_calendar_day = true,
     .exact_count_max = UINT64_MAX},
    {"base", WEIR_ALGORITHM_BASE, .has_base = true, .exact_count_max = UINT64_MAX},
    {"leak", WEIR_ALGORITHM_SLIDING_LOG, .has_erase = true, .exact_count_max = ALGO_LOG_MAX},
};

/*
 * Beyond exact_count_max a sliding window of slots replaces an exact method. It has one slot more
 * than the rule's time has, so that any span of that time lies within the window.
 */
#define SLOTS_PER_TIME  100
#define SLOT_MS(time_s) ((time_s)*1000 / SLOTS_PER_TIME)

const struct koala_method *koala_method_find(struct slice name)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (slice_equal(name, slice_of(methods[i].name)))
			return &methods[i];
	return NULL;
}

/* Rounded down so that the slots of a sliding window still fit in the longest period. */
uint64_t koala_method_time_max_s(const struct koala_method *method, uint64_t count)
{
	uint64_t max_s = ALGO_PERIOD_MAX_NS / NS_PER_S;

	return count > method->exact_count_max ? max_s / (SLOTS_PER_TIME + 1) * SLOTS_PER_TIME : max_s;
}

/* The largest rate of the algorithm that takes the largest counts of the method. */
uint64_t koala_method_count_max(const struct koala_method *method)
{
	enum weir_algorithm algorithm =
	    method->exact_count_max < UINT64_MAX ? WEIR_ALGORITHM_SLIDING_WINDOW : method->algorithm;
	const struct algo_parameter *parameter = algorithm_of(algorithm)->parameters;

	while (parameter->type != ALGO_RATE && parameter->type != ALGO_CALENDAR_RATE)
		parameter++;
	return parameter->max;
}

void koala_method_options(const struct koala_method *method,
                          const struct koala_thresholds *thresholds, struct weir_limit_options *out)
{
	bool is_calendar_day =
	    method->day_is_calendar_day && thresholds->time_s == NS_PER_DAY / NS_PER_S;

	*out = (struct weir_limit_options){
	    .algorithm = method->algorithm,
	    .rate = {thresholds->count, is_calendar_day ? 1 : thresholds->time_s,
	             is_calendar_day ? WEIR_UNIT_DAY : WEIR_UNIT_SECOND},
	};
	if (thresholds->count > method->exact_count_max) {
		out->algorithm = WEIR_ALGORITHM_SLIDING_WINDOW;
		out->rate.period = SLOT_MS(thresholds->time_s) * (SLOTS_PER_TIME + 1);
		out->rate.unit = WEIR_UNIT_MILLISECOND;
		out->slots = SLOTS_PER_TIME + 1;
	}
	/* In Koala other times begin with the first request. */
	if (method->day_is_calendar_day && !is_calendar_day)
		out->align = WEIR_ALIGN_FIRST_REQUEST;
	if (method->has_base)
		out->base = thresholds->base;
	if (method->has_base || is_calendar_day) /* a base counts the requests of a calendar day */
		out->timezone = thresholds->timezone;
}
