/*
 * parameter.c: reads, checks and completes the options of limits. A parameter describes one option:
 * its type, range, default, and where in the options its value is. 0 stands for a missing value,
 * and WEIR_ZERO for an explicit 0.
 */
#include "algo/parameter.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"

static const uint64_t unit_ns[] = {
    [WEIR_UNIT_SECOND] = NS_PER_S,
    [WEIR_UNIT_NANOSECOND] = 1,
    [WEIR_UNIT_MILLISECOND] = NS_PER_MS,
    [WEIR_UNIT_MINUTE] = 60 * NS_PER_S,
    [WEIR_UNIT_HOUR] = 3600 * NS_PER_S,
    [WEIR_UNIT_DAY] = NS_PER_DAY,
    [WEIR_UNIT_WEEK] = 7 * NS_PER_DAY,
    [WEIR_UNIT_MONTH] = 31 * NS_PER_DAY, /* the longest; only the calendar has these */
    [WEIR_UNIT_YEAR] = 366 * NS_PER_DAY,
};

/* Returns the algorithm's own options, to which the field at this offset points, or NULL. */
const void *parameter_own(uint16_t own, const struct weir_limit_options *options)
{
	const void *value;

	memcpy(&value, (const char *)options + own, sizeof value);
	return value;
}

void parameter_set_own(uint16_t own, const void *value, struct weir_limit_options *options)
{
	memcpy((char *)options + own, &value, sizeof value);
}

const void *parameter_field(const struct algo_parameter *parameter,
                            const struct weir_limit_options *options)
{
	static const union algo_own none;
	const void *base = parameter->own ? parameter_own(parameter->own, options) : options;

	return (const char *)(base ? base : &none) + parameter->offset;
}

void *parameter_writable(const struct algo_parameter *parameter, struct weir_limit_options *options)
{
	return (void *)parameter_field(parameter, options);
}

uint64_t parameter_number(const struct algo_parameter *parameter,
                          const struct weir_limit_options *options)
{
	const void *field = parameter_field(parameter, options);

	return parameter->size == sizeof(uint32_t) ? *(const uint32_t *)field
	                                           : *(const uint64_t *)field;
}

static void set_number(const struct algo_parameter *parameter, uint64_t value,
                       struct weir_limit_options *options)
{
	void *field = parameter_writable(parameter, options);

	if (parameter->size == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;
}

/*
 * Whether 0 is an allowed value that differs from the default, so that WEIR_ZERO must stand for it.
 */
static bool needs_explicit_zero(const struct algo_parameter *parameter)
{
	return parameter->min == 0 && parameter->default_value != 0;
}

void parameter_set(const struct algo_parameter *parameter, uint64_t value,
                   struct weir_limit_options *options)
{
	set_number(parameter, value == 0 && needs_explicit_zero(parameter) ? WEIR_ZERO : value,
	           options);
}

bool parameter_is_given(const struct algo_parameter *parameter,
                        const struct weir_limit_options *options)
{
	const struct weir_rate *rate = &options->rate;

	switch (parameter->type) {
	case ALGO_RATE:
	case ALGO_CALENDAR_RATE:
		return rate->count || rate->period || rate->unit;
	case ALGO_DECIMAL:
		return *(const double *)parameter_field(parameter, options) != 0;
	case ALGO_TEXT:
		return *(const char *const *)parameter_field(parameter, options) != NULL;
	default:
		return parameter_number(parameter, options) != 0;
	}
}

void parameter_add_name(char names[PARAMETER_NAMES_MAX], const char *name)
{
	size_t len = strlen(names);

	snprintf(names + len, PARAMETER_NAMES_MAX - len, "%s%s", len ? ", " : "", name);
}

static int check_rate(const struct algo_parameter *parameter, const struct weir_rate *rate,
                      struct weir_error *error)
{
	uint64_t units = rate->period ? rate->period : 1;

	if (rate->count < parameter->min || rate->count > parameter->max)
		return error_set(error, WEIR_ERANGE, "rate: expected a count of 1 to %llu, found %llu",
		                 (unsigned long long)parameter->max, (unsigned long long)rate->count);
	if ((unsigned)rate->unit > WEIR_UNIT_YEAR)
		return error_set(error, WEIR_EINVAL, "rate: expected a unit of time, found %d",
		                 (int)rate->unit);
	if (parameter->type == ALGO_RATE &&
	    (rate->unit == WEIR_UNIT_MONTH || rate->unit == WEIR_UNIT_YEAR))
		return error_set(error, WEIR_EINVAL, "rate: " ALGO_FIXED_LENGTH);
	if (units > (rate->unit == WEIR_UNIT_MONTH ? 12 : ALGO_PERIOD_MAX_NS / unit_ns[rate->unit]))
		return error_set(error, WEIR_ERANGE, "rate: expected a period of a year at most");
	return WEIR_OK;
}

uint64_t parameter_period_ns(const struct weir_rate *rate)
{
	return u64_min((rate->period ? rate->period : 1) * unit_ns[rate->unit], ALGO_PERIOD_MAX_NS);
}

static int check_number(const struct algo_parameter *parameter,
                        const struct weir_limit_options *options, struct weir_error *error)
{
	uint64_t value = parameter_number(parameter, options);

	if (value == 0 && !parameter->required)
		return WEIR_OK;
	if (value == WEIR_ZERO && needs_explicit_zero(parameter))
		return WEIR_OK;
	if (value >= parameter->min && value <= parameter->max)
		return WEIR_OK;
	if (parameter->type == ALGO_TIME)
		return error_set(error, WEIR_ERANGE, "%s: expected %s, found %llu ns", parameter->name,
		                 parameter->min > 1 ? "1 ms to a year" : "a year at most",
		                 (unsigned long long)value);
	return error_set(error, WEIR_ERANGE, "%s: expected %llu to %llu, found %llu", parameter->name,
	                 (unsigned long long)parameter->min, (unsigned long long)parameter->max,
	                 (unsigned long long)value);
}

static int check_word(const struct algo_parameter *parameter,
                      const struct weir_limit_options *options, struct weir_error *error)
{
	unsigned value = *(const unsigned *)parameter_field(parameter, options);
	char names[PARAMETER_NAMES_MAX] = "";

	for (const struct word *word = parameter->words; word->name; word++) {
		if (word->value == value)
			return WEIR_OK;
		parameter_add_name(names, word->name);
	}
	return error_set(error, WEIR_EINVAL, "%s: expected one of %s, found %d", parameter->name, names,
	                 (int)value);
}

static int refuse(const struct algo_parameter *parameter, struct weir_error *error)
{
	if (parameter->rival)
		return error_set(error, WEIR_EINVAL, "%s: expected this or %s, found both", parameter->name,
		                 parameter->rival);
	return error_set(error, WEIR_EINVAL, "%s: expected with %s only, found %s", parameter->name,
	                 parameter->with, parameter->found);
}

int parameter_check(const struct algo_parameter *parameter,
                    const struct weir_limit_options *options, struct weir_error *error)
{
	double value;

	if (parameter_effect_in(parameter, options) == ALGO_REFUSED &&
	    parameter_is_given(parameter, options))
		return refuse(parameter, error);
	switch (parameter->type) {
	case ALGO_RATE:
	case ALGO_CALENDAR_RATE:
		return check_rate(parameter, &options->rate, error);
	case ALGO_WORD:
		return check_word(parameter, options, error);
	case ALGO_DECIMAL:
		value = *(const double *)parameter_field(parameter, options);
		if ((value == 0 && !parameter->required) ||
		    (value >= (double)parameter->min && value <= (double)parameter->max))
			return WEIR_OK;
		return error_set(error, WEIR_ERANGE, "%s: expected %llu to %llu, found %g", parameter->name,
		                 (unsigned long long)parameter->min, (unsigned long long)parameter->max,
		                 value);
	case ALGO_TEXT:
		return WEIR_OK;
	default:
		return check_number(parameter, options, error);
	}
}

/* Returns the default: a number, or one that depends on other options. */
static uint64_t default_of(const struct algo_parameter *parameter,
                           const struct weir_limit_options *options)
{
	if (parameter->default_value == ALGO_DEFAULT_DERIVED)
		return parameter->derive(options);
	return parameter->default_value == ALGO_DEFAULT_AS_RATE ? options->rate.count
	                                                        : parameter->default_value;
}

static bool is_number(const struct algo_parameter *parameter)
{
	return parameter->type == ALGO_NUMBER || parameter->type == ALGO_PERCENT ||
	       parameter->type == ALGO_TIME;
}

/*
 * Replaces a missing value by the default, and WEIR_ZERO by 0. A missing option stays 0 if it is
 * refused beside the others. Words have 0 as their default; rates have none.
 */
void parameter_resolve(const struct algo_parameter *parameter, struct weir_limit_options *options)
{
	if (parameter->type == ALGO_TEXT && !parameter_is_given(parameter, options)) {
		*(const char **)parameter_writable(parameter, options) = parameter->text;
	} else if (parameter->type == ALGO_DECIMAL && !parameter_is_given(parameter, options)) {
		*(double *)parameter_writable(parameter, options) = (double)parameter->default_value;
	} else if (is_number(parameter)) {
		uint64_t value = parameter_number(parameter, options);

		if (value == 0 && parameter_effect_in(parameter, options) != ALGO_REFUSED)
			value = default_of(parameter, options);
		else if (value == WEIR_ZERO)
			value = 0;
		set_number(parameter, value, options);
	}
}
