/*
 * calendar.c: computes the windows of the calendar in a time zone: days, weeks, months, years,
 * parts of a day, and multiples of any length since 1970. A day's number counts from 1970-01-01.
 */
#include "algo/rates/calendar.h"

#include "base/number.h"
#include "base/time/civil.h"
#include "base/time/zone.h"

#define S_PER_DAY INT64_C(86400)

/* The lengths of units. Months and years have none: they are spans of dates. */
static const uint64_t unit_ns[] = {
    [WEIR_UNIT_NANOSECOND] = 1,         [WEIR_UNIT_MILLISECOND] = NS_PER_MS,
    [WEIR_UNIT_SECOND] = NS_PER_S,      [WEIR_UNIT_MINUTE] = 60 * NS_PER_S,
    [WEIR_UNIT_HOUR] = 3600 * NS_PER_S, [WEIR_UNIT_DAY] = NS_PER_DAY,
    [WEIR_UNIT_WEEK] = 7 * NS_PER_DAY,
};

static int64_t sat_i64(__int128 a)
{
	return a < INT64_MIN ? INT64_MIN : a > INT64_MAX ? INT64_MAX : (int64_t)a;
}

static int64_t midnight(const struct calendar *calendar, int64_t day)
{
	return zone_first_instant(calendar->zone, day * S_PER_DAY);
}

/*
 * The number of the day that contains `unix_s`. The local date is not enough: a clock that is put
 * back from just after midnight shows the old date again although the new day has begun.
 */
static int64_t day_at(const struct calendar *calendar, int64_t unix_s)
{
	int64_t day = floor_div(unix_s + zone_offset(calendar->zone, unix_s), S_PER_DAY);

	while (midnight(calendar, day + 1) <= unix_s)
		day++;
	return day;
}

/* Returns the window from the midnight at the start of day `first` to that of day `next`. */
static struct calendar_window window_of_days(const struct calendar *calendar, int64_t first,
                                             int64_t next)
{
	return (struct calendar_window){
	    .start_ns = sat_i64((__int128)midnight(calendar, first) * NS_PER_S),
	    .end_ns = sat_i64((__int128)midnight(calendar, next) * NS_PER_S),
	};
}

static struct calendar_window window_of_week(const struct calendar *calendar, int64_t day)
{
	int64_t first = day - floor_mod(civil_weekday(day) - (int)calendar->week_start, 7);

	return window_of_days(calendar, first, first + 7);
}

static int64_t first_of_month(int64_t month)
{
	return civil_days(floor_div(month, 12), (int)floor_mod(month, 12) + 1, 1);
}

/* Returns the group of `months` that contains the day; groups are counted from year 0. */
static struct calendar_window window_of_months(const struct calendar *calendar, int64_t day,
                                               int64_t months)
{
	struct civil date = civil_date(day);
	int64_t first = floor_div(date.year * 12 + date.month - 1, months) * months;

	return window_of_days(calendar, first_of_month(first), first_of_month(first + months));
}

/* Returns the part of the day that contains wall_ns. The last part ends with the day. */
static struct calendar_window part_of_day(struct calendar_window day, int64_t length_ns,
                                          int64_t wall_ns)
{
	int64_t last = (int64_t)NS_PER_DAY / length_ns - 1;
	int64_t part = (wall_ns - day.start_ns) / length_ns;

	if (part > last)
		part = last;
	day.start_ns += part * length_ns;
	if (part < last && length_ns < day.end_ns - day.start_ns)
		day.end_ns = day.start_ns + length_ns;
	return day;
}

/* Returns the group of `days` whole days that contains the day, counted from 1970. */
static struct calendar_window window_of_day_group(const struct calendar *calendar, int64_t day,
                                                  int64_t days)
{
	int64_t first = floor_div(day, days) * days;

	return window_of_days(calendar, first, first + days);
}

/* The multiple of a length since 1970, as if the zone had always had its offset of `wall_ns`. */
static struct calendar_window window_since_1970(const struct calendar *calendar, uint64_t length_ns,
                                                int64_t wall_ns)
{
	__int128 offset =
	    (__int128)zone_offset(calendar->zone, floor_div(wall_ns, NS_PER_S)) * NS_PER_S;
	__int128 local = wall_ns + offset, into = local % length_ns;
	__int128 start = wall_ns - into - (into < 0 ? length_ns : 0);

	return (struct calendar_window){sat_i64(start), sat_i64(start + length_ns)};
}

/* Returns the window of the calendar that contains wall_ns. */
struct calendar_window calendar_window_at(const struct calendar *calendar, int64_t wall_ns)
{
	int64_t unix_s = floor_div(wall_ns, NS_PER_S);
	int64_t period = (int64_t)calendar->period;
	uint64_t length_ns;
	int64_t day;

	switch (calendar->unit) {
	case WEIR_UNIT_MONTH:
		return window_of_months(calendar, day_at(calendar, unix_s), period);
	case WEIR_UNIT_YEAR:
		return window_of_months(calendar, day_at(calendar, unix_s), period * 12);
	case WEIR_UNIT_WEEK:
		if (period == 1)
			return window_of_week(calendar, day_at(calendar, unix_s));
		break;
	default:
		break;
	}
	length_ns = sat_u64((u128)calendar->period * unit_ns[calendar->unit]);
	day = day_at(calendar, unix_s);
	if (length_ns % NS_PER_DAY == 0)
		return window_of_day_group(calendar, day, (int64_t)(length_ns / NS_PER_DAY));
	if (NS_PER_DAY % length_ns != 0)
		return window_since_1970(calendar, length_ns, wall_ns);
	return part_of_day(window_of_days(calendar, day, day + 1), (int64_t)length_ns, wall_ns);
}
