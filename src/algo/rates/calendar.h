/*
 * calendar.h: the windows of the calendar in a zone.
 *
 * Days run from local midnight to local midnight, 23 or 25 hours when clocks
 * change; weeks from `week_start`; months and years from their first day, in
 * groups of `period` counted from year 0; several days, or several weeks, from
 * midnight to midnight in groups counted from 1970. Windows shorter than a day
 * that divide 24 hours are cut from local midnight in elapsed time, the last of
 * the day taking what is left. All other periods count from 1970 in the zone's
 * offset.
 */
#ifndef ALGO_RATES_CALENDAR_H
#define ALGO_RATES_CALENDAR_H

#include <stdint.h>

#include "algo/algo.h"

struct calendar_window {
	int64_t start_ns; /* Unix time, inside the window */
	int64_t end_ns;   /* Unix time, first instant after it */
};

/** The window that `wall_ns` lies in: start_ns <= wall_ns < end_ns. */
__attribute__((noinline)) struct calendar_window calendar_window_at(const struct calendar *calendar, int64_t wall_ns);

#endif
