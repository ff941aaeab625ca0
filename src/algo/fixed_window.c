/*
 * fixed_window.c: describes `fixed_window` limits: a count that ends with its window, which the
 * calendar or the first request opens; see rates/window.c.
 */
#include "algo/rates/window.h"
#include "base/error.h"

static const struct word aligns[] = {
    {"calendar", WEIR_ALIGN_CALENDAR}, {"first_request", WEIR_ALIGN_FIRST_REQUEST}, {0}};

static const struct word weekdays[] = {
    {"monday", WEIR_WEEKDAY_MONDAY},       {"tuesday", WEIR_WEEKDAY_TUESDAY},
    {"wednesday", WEIR_WEEKDAY_WEDNESDAY}, {"thursday", WEIR_WEEKDAY_THURSDAY},
    {"friday", WEIR_WEEKDAY_FRIDAY},       {"saturday", WEIR_WEEKDAY_SATURDAY},
    {"sunday", WEIR_WEEKDAY_SUNDAY},       {0}};

static enum parameter_effect if_aligned(const struct weir_limit_options *options)
{
	return options->align == WEIR_ALIGN_CALENDAR ? ALGO_USED : ALGO_REFUSED;
}

/* The day on which weeks start matters only for calendar windows of weeks. */
static enum parameter_effect if_weekly(const struct weir_limit_options *options)
{
	if (options->align != WEIR_ALIGN_CALENDAR)
		return ALGO_REFUSED;
	return options->rate.unit == WEIR_UNIT_WEEK ? ALGO_USED : ALGO_IGNORED;
}

static int init_fixed_window(struct algo_limit *limit, const struct weir_limit_options *options,
                             struct weir_error *error)
{
	const struct weir_rate *rate = &options->rate;
	bool aligned = options->align == WEIR_ALIGN_CALENDAR;

	window_init(limit, rate->count, aligned);
	if (aligned)
		return algo_use_calendar(limit, options, rate->period ? rate->period : 1, rate->unit,
		                         error);
	/* A window that the first request opens lasts limit->period_ns, which the caller has set. */
	if (rate->unit == WEIR_UNIT_MONTH || rate->unit == WEIR_UNIT_YEAR)
		return error_set(error, WEIR_EINVAL, "rate: " ALGO_FIXED_LENGTH);
	return WEIR_OK;
}

/* A count below `nodes` is divided by making the period longer, which then fits no calendar. */
static void divide_fixed_window(struct weir_limit_options *own,
                                const struct weir_limit_options *whole, uint64_t nodes)
{
	if (whole->rate.count >= nodes)
		return;
	own->align = WEIR_ALIGN_FIRST_REQUEST;
	own->timezone = NULL;
	own->week_start = WEIR_WEEKDAY_MONDAY;
}

const struct algorithm algorithm_fixed_window = {
    .name = "fixed_window",
    .id = WEIR_ALGORITHM_FIXED_WINDOW,
    .parameters = {{"rate", ALGO_CALENDAR_RATE, ALGO_FIELD(rate), .required = true, .min = 1,
                    .max = ALGO_COUNT_MAX},
                   {"align", ALGO_WORD, ALGO_FIELD(align), .words = aligns},
                   ALGO_TIMEZONE_ROW(.effect = if_aligned, .with = "calendar windows",
                                     .found = "windows that requests open"),
                   {"week_start", ALGO_WORD, ALGO_FIELD(week_start), .words = weekdays,
                    .effect = if_weekly, .with = "calendar windows",
                    .found = "windows that requests open"}},
    .sample = "rate: 100/m",
    .init = init_fixed_window,
    .divide = divide_fixed_window,
    WINDOW_HOOKS,
};
