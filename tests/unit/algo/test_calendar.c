#include "algo/rates/calendar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/time/civil.h"
#include "base/time/zone.h"

#define S    INT64_C(1000000000)
#define HOUR (3600 * S)
#define DAY  (24 * HOUR)

static int64_t utc(int year, int month, int day, int hour)
{
	return civil_days(year, month, day) * DAY + hour * HOUR;
}

static struct calendar_window window(const char *name, uint64_t period, enum weir_unit unit,
                                     enum weir_weekday week_start, int64_t wall_ns)
{
	struct calendar calendar = {.period = period, .unit = unit, .week_start = week_start};
	struct calendar_window result;

	assert_int_equal(zone_open(name, &calendar.zone, NULL), WEIR_OK);
	result = calendar_window_at(&calendar, wall_ns);
	zone_close(calendar.zone);
	return result;
}

#define assert_window(w, start, end)                                                               \
	do {                                                                                           \
		struct calendar_window w_ = (w);                                                           \
		assert_int_equal(w_.start_ns, (start));                                                    \
		assert_int_equal(w_.end_ns, (end));                                                        \
	} while (0)

static void a_day_runs_from_local_midnight_to_the_next(void **state)
{
	(void)state;
	assert_window(window("Asia/Shanghai", 1, WEIR_UNIT_DAY, 0, utc(2024, 5, 5, 15)),
	              utc(2024, 5, 4, 16), utc(2024, 5, 5, 16));
	assert_window(window("Asia/Shanghai", 1, WEIR_UNIT_DAY, 0, utc(2024, 5, 5, 16)),
	              utc(2024, 5, 5, 16), utc(2024, 5, 6, 16));
}

static void a_day_has_23_or_25_hours_when_clocks_change(void **state)
{
	(void)state;
	assert_window(window("Europe/Berlin", 1, WEIR_UNIT_DAY, 0, utc(2024, 3, 31, 12)),
	              utc(2024, 3, 30, 23), utc(2024, 3, 31, 22));
	assert_window(window("Europe/Berlin", 1, WEIR_UNIT_DAY, 0, utc(2024, 10, 27, 12)),
	              utc(2024, 10, 26, 22), utc(2024, 10, 27, 23));
}

static void the_last_part_of_a_day_takes_what_is_left(void **state)
{
	(void)state;
	/* 23 hours: the last six-hour part has five. */
	assert_window(window("Europe/Berlin", 6, WEIR_UNIT_HOUR, 0, utc(2024, 3, 31, 21)),
	              utc(2024, 3, 31, 17), utc(2024, 3, 31, 22));
	/* 25 hours: it has seven. */
	assert_window(window("Europe/Berlin", 6, WEIR_UNIT_HOUR, 0, utc(2024, 10, 27, 22)),
	              utc(2024, 10, 27, 16), utc(2024, 10, 27, 23));
	/* 23 hours in hours: there is no 24th. */
	assert_window(window("Europe/Berlin", 1, WEIR_UNIT_HOUR, 0, utc(2024, 3, 31, 22) - 1),
	              utc(2024, 3, 31, 21), utc(2024, 3, 31, 22));
}

static void clocks_put_back_over_midnight_do_not_bring_the_old_day_back(void **state)
{
	int64_t midnight = utc(2006, 10, 29, 2) + 30 * 60 * S; /* and back to 23:01 a minute later */

	(void)state;
	assert_window(window("America/St_Johns", 1, WEIR_UNIT_DAY, 0, midnight + 120 * S), midnight,
	              utc(2006, 10, 30, 3) + 30 * 60 * S);
	assert_window(window("America/St_Johns", 1, WEIR_UNIT_DAY, 0, midnight - 1),
	              utc(2006, 10, 28, 2) + 30 * 60 * S, midnight);
}

static void equal_lengths_are_equal_windows(void **state)
{
	static const struct {
		uint64_t period;
		enum weir_unit unit;
	} days[] = {{1, WEIR_UNIT_DAY},
	            {24, WEIR_UNIT_HOUR},
	            {1440, WEIR_UNIT_MINUTE},
	            {86400, WEIR_UNIT_SECOND},
	            {86400000, WEIR_UNIT_MILLISECOND},
	            {86400000000000, WEIR_UNIT_NANOSECOND}};

	(void)state;
	for (size_t i = 0; i < sizeof days / sizeof *days; i++)
		assert_window(window("Europe/Berlin", days[i].period, days[i].unit, 0, utc(2024, 3, 31, 5)),
		              utc(2024, 3, 30, 23), utc(2024, 3, 31, 22));
}

static void seven_days_are_not_a_week(void **state)
{
	int64_t friday = utc(2024, 5, 3, 12);

	(void)state;
	assert_window(window("UTC", 1, WEIR_UNIT_WEEK, WEIR_WEEKDAY_MONDAY, friday),
	              utc(2024, 4, 29, 0), utc(2024, 5, 6, 0));
	assert_window(window("UTC", 7, WEIR_UNIT_DAY, WEIR_WEEKDAY_MONDAY, friday), utc(2024, 5, 2, 0),
	              utc(2024, 5, 9, 0));
}

static void weeks_start_on_any_day(void **state)
{
	(void)state;
	for (int start = WEIR_WEEKDAY_MONDAY; start <= WEIR_WEEKDAY_SUNDAY; start++)
		for (int day = 0; day < 7; day++) {
			/* 2024-04-29 is a Monday. */
			int64_t first = utc(2024, 4, 29 + start, 0) - (day < start ? 7 * DAY : 0);

			assert_window(window("UTC", 1, WEIR_UNIT_WEEK, start, utc(2024, 4, 29 + day, 13)),
			              first, first + 7 * DAY);
		}
}

static void months_end_where_they_end(void **state)
{
	(void)state;
	assert_window(window("UTC", 1, WEIR_UNIT_MONTH, 0, utc(2024, 2, 29, 23)), utc(2024, 2, 1, 0),
	              utc(2024, 3, 1, 0));
	assert_window(window("UTC", 1, WEIR_UNIT_MONTH, 0, utc(2023, 12, 31, 23)), utc(2023, 12, 1, 0),
	              utc(2024, 1, 1, 0));
	assert_window(window("UTC", 3, WEIR_UNIT_MONTH, 0, utc(2024, 5, 31, 0)), utc(2024, 4, 1, 0),
	              utc(2024, 7, 1, 0));
	/* Groups count from year 0: 2023 * 12 + 9 is a multiple of 5. */
	assert_window(window("UTC", 5, WEIR_UNIT_MONTH, 0, utc(2024, 1, 1, 0)), utc(2023, 10, 1, 0),
	              utc(2024, 3, 1, 0));
	assert_window(window("UTC", 1, WEIR_UNIT_YEAR, 0, utc(2024, 12, 31, 23)), utc(2024, 1, 1, 0),
	              utc(2025, 1, 1, 0));
}

static void odd_lengths_count_from_1970_in_the_zone(void **state)
{
	int64_t now = utc(2024, 5, 5, 5) + 3;
	int64_t kathmandu = 20700 * S;

	(void)state;
	assert_window(window("Asia/Kathmandu", 7, WEIR_UNIT_SECOND, 0, now),
	              (now + kathmandu) / (7 * S) * (7 * S) - kathmandu,
	              (now + kathmandu) / (7 * S) * (7 * S) - kathmandu + 7 * S);
	assert_window(window("UTC", 2, WEIR_UNIT_WEEK, 0, utc(1970, 1, 14, 0)), 0, 14 * DAY);
	assert_window(window("UTC", 7, WEIR_UNIT_NANOSECOND, 0, 13), 7, 14);
}

static void times_before_1970_round_down_too(void **state)
{
	(void)state;
	assert_window(window("UTC", 7, WEIR_UNIT_SECOND, 0, -1), -7 * S, 0);
	assert_window(window("UTC", 7, WEIR_UNIT_SECOND, 0, -7 * S), -7 * S, 0);
	assert_window(window("UTC", 1, WEIR_UNIT_HOUR, 0, -1), -HOUR, 0);
	assert_window(window("UTC", 1, WEIR_UNIT_MONTH, 0, -1), -31 * DAY, 0);
	assert_window(window("UTC", 1, WEIR_UNIT_WEEK, WEIR_WEEKDAY_MONDAY, -1), -3 * DAY, 4 * DAY);
}

static void the_ends_of_time_saturate(void **state)
{
	static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1};
	static const struct {
		uint64_t period;
		enum weir_unit unit;
	} lengths[] = {{1, WEIR_UNIT_NANOSECOND}, {7, WEIR_UNIT_SECOND}, {1, WEIR_UNIT_HOUR},
	               {1, WEIR_UNIT_DAY},        {1, WEIR_UNIT_WEEK},   {9, WEIR_UNIT_WEEK},
	               {1, WEIR_UNIT_MONTH},      {1, WEIR_UNIT_YEAR}};

	(void)state;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
			struct calendar_window w =
			    window("Europe/Berlin", lengths[j].period, lengths[j].unit, 0, ends[i]);

			assert_true(w.start_ns <= ends[i]);
			assert_true(w.end_ns > ends[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_day_runs_from_local_midnight_to_the_next),
	    cmocka_unit_test(a_day_has_23_or_25_hours_when_clocks_change),
	    cmocka_unit_test(the_last_part_of_a_day_takes_what_is_left),
	    cmocka_unit_test(clocks_put_back_over_midnight_do_not_bring_the_old_day_back),
	    cmocka_unit_test(equal_lengths_are_equal_windows),
	    cmocka_unit_test(seven_days_are_not_a_week),
	    cmocka_unit_test(weeks_start_on_any_day),
	    cmocka_unit_test(months_end_where_they_end),
	    cmocka_unit_test(odd_lengths_count_from_1970_in_the_zone),
	    cmocka_unit_test(times_before_1970_round_down_too),
	    cmocka_unit_test(the_ends_of_time_saturate),
	};

	return cmocka_run_group_tests_name("calendar", tests, NULL, NULL);
}
