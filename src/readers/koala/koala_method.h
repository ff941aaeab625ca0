/* koala_method.h: turns the methods of Koala's language that count into limits. */
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
	bool has_base;   /* the threshold `base` */
	bool gives_back; /* the thresholds `erase1` and `erase2` */
	bool has_days;   /* a `time` of a day means the day of the calendar */
	uint64_t exact_max; /* past this count its limit is counted in parts of the time */
};

/** NULL if none that counts has that name. */
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
 * Options, without a name, of a limit by that method; `timezone` is not copied. Past `exact_max` no
 * more than the count pass in any `time`, and each of them comes back up to a hundredth of it
 * later.
 */
void koala_method_options(const struct koala_method *method, const struct koala_thresholds *thresholds,
                         struct weir_limit_options *out);

#endif
