/*
 * civil.h: converts between dates of the Gregorian calendar and day numbers (1970-01-01 is day 0).
 *
 * The year is taken to begin in March, so that the leap day is its last and
 * the months before it have fixed lengths. Good for years within 2^40 of 0.
 */
#ifndef BASE_TIME_CIVIL_H
#define BASE_TIME_CIVIL_H

#include <stdint.h>

#define CIVIL_CYCLE_YEARS 400
#define CIVIL_CYCLE_DAYS                                                                           \
	146097 /* days of 400 years, a whole number of weeks: then the calendar                        \
	          repeats */

struct civil {
	int64_t year; /* year 0 is 1 BC */
	int month;    /* 1 to 12 */
	int day;      /* 1 to 31 */
};

/* Rounds down, as `/` does not; `b` is positive. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static inline int64_t floor_mod(int64_t a, int64_t b)
{
	return a - floor_div(a, b) * b;
}

/** The number of the day; `day` may lie outside of the month. */
static inline int64_t civil_days(int64_t year, int month, int day)
{
	int64_t y = year - (month <= 2);
	int from_march = (month + 9) % 12;

	return y * 365 + floor_div(y, 4) - floor_div(y, 100) + floor_div(y, 400) +
	       (153 * from_march + 2) / 5 + day - 719469;
}

static inline struct civil civil_date(int64_t days)
{
	int64_t since = days + 719468; /* 0000-03-01 */
	int64_t of_cycle = floor_mod(since, CIVIL_CYCLE_DAYS);
	int64_t year = (of_cycle - of_cycle / 1460 + of_cycle / 36524 - of_cycle / 146096) / 365;
	int of_year = (int)(of_cycle - (year * 365 + year / 4 - year / 100));
	int from_march = (5 * of_year + 2) / 153;
	int month = from_march < 10 ? from_march + 3 : from_march - 9;

	return (struct civil){
	    .year = floor_div(since, CIVIL_CYCLE_DAYS) * CIVIL_CYCLE_YEARS + year + (month <= 2),
	    .month = month,
	    .day = of_year - (153 * from_march + 2) / 5 + 1,
	};
}

/** 0 is Monday. */
static inline int civil_weekday(int64_t days)
{
	return (int)floor_mod(days + 3, 7);
}

#endif
