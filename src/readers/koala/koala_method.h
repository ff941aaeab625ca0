/* koala_method.h: maps the methods of Koala's rule language that count requests to Weir's limits.
 */
#ifndef READERS_KOALA_KOALA_METHOD_H
#define READERS_KOALA_KOALA_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/parameter.h"
#include "base/number.h"
#include "base/slice.h"

struct koala_method {
	const char *name;
	enum weir_algorithm algorithm;
	bool has_base; /* the threshold `base` */
	bool
	    has_erase; /* the thresholds `erase1` and `erase2`, which feedback may take off the count */
	bool day_is_calendar_day; /* a `time` of a day means the day of the calendar */
	uint64_t exact_count_max; /* larger counts use the slots of a sliding window */
};

/** Returns NULL if no method that counts has that name. */
const struct koala_method *koala_method_find(struct slice name);

/* For messages. */
#define KOALA_METHOD_NAMES "count, base, leak"

/* The thresholds of a rule. */
struct koala_thresholds {
	uint64_t base, time_s, count;
	const char *timezone; /* of days */
};

/** The longest time that a limit with this count may have. */
uint64_t koala_method_time_max_s(const struct koala_method *method, uint64_t count);
/** The largest count. */
uint64_t koala_method_count_max(const struct koala_method *method);

/**
 * Sets the options, except the name, of a limit by that method; `timezone` is not copied. With a
 * count above `exact_count_max` still no more than the count pass in any `time`, but a request
 * stops counting up to a hundredth of the time later.
 */
void koala_method_options(const struct koala_method *method,
                          const struct koala_thresholds *thresholds,
                          struct weir_limit_options *out);

#endif
