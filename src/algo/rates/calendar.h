/*
 * calendar.h: computes the windows of the calendar in a time zone.
 *
 *     a day                      from local midnight to the next: 23 or 25 hours when clocks change
 *     a week                     from `week_start`
 *     months, years              from the first day, in groups of `period` counted from year 0
 *     several days or weeks      from midnight to midnight, in groups counted from 1970
 *     a fraction of 24 hours     by elapsed time from local midnight; the last window of a day ends
 *                                with the day
 *     any other length           multiples of the length since 1970, at the zone's present offset
 */
#ifndef ALGO_RATES_CALENDAR_H
#define ALGO_RATES_CALENDAR_H

#include <stdint.h>

#include "algo/algo.h"

struct calendar_window {
	int64_t start_ns; /* Unix time of the first instant */
	int64_t end_ns;   /* Unix time of the first instant after the window */
};

/** The window that contains `wall_ns`: start_ns <= wall_ns < end_ns. */
__attribute__((noinline)) struct calendar_window calendar_window_at(const struct calendar *calendar, int64_t wall_ns);

#endif
