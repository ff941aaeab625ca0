#include "base/time/zone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time/civil.h"
#include "base/time/tzif.h"

#define HOUR 3600
#define DAY  INT64_C(86400)

static int64_t utc(int year, int month, int day, int hour, int minute)
{
	return civil_days(year, month, day) * DAY + hour * HOUR + minute * 60;
}

/* A file put together by hand: one 64-bit block and a footer. */
struct file {
	uint8_t bytes[1024];
	size_t len;
};

static void put(struct file *file, uint64_t value, int size)
{
	while (size-- > 0)
		file->bytes[file->len++] = (uint8_t)(value >> (8 * size));
}

static void put_block(struct file *file, char version, int time_size, const struct zone_span *spans,
                      size_t n)
{
	memcpy(file->bytes + file->len, "TZif", 4);
	file->len += 4;
	put(file, (uint8_t)version, 1);
	file->len += 15 + 12;    /* UTC and standard markers, leap seconds */
	put(file, n - 1, 4); /* transitions */
	put(file, n, 4);     /* kinds of time */
	put(file, 1, 4);     /* characters */
	for (size_t i = 1; i < n; i++)
		put(file, (uint64_t)spans[i].start_s, time_size);
	for (size_t i = 1; i < n; i++)
		put(file, i, 1);
	for (size_t i = 0; i < n; i++) {
		put(file, (uint32_t)spans[i].offset_s, 4);
		put(file, 0, 2);
	}
	put(file, 0, 1);
}

static struct file file_of(char version, const struct zone_span *spans, size_t n,
                           const char *footer)
{
	struct file file = {{0}, 0};

	put_block(&file, version, 4, spans, version == 0 ? n : 1);
	if (version != 0) {
		put_block(&file, version, 8, spans, n);
		file.len += (size_t)sprintf((char *)file.bytes + file.len, "\n%s\n", footer);
	}
	return file;
}

static int parse(const struct file *file, struct zone **out, struct weir_error *error)
{
	/* A copy of the exact size, so that the address sanitizer sees any read past it. */
	uint8_t *bytes = malloc(file->len ? file->len : 1);
	int status;

	assert_non_null(bytes);
	memcpy(bytes, file->bytes, file->len);
	status = tzif_parse(bytes, file->len, out, error);
	free(bytes);
	return status;
}

/* A zone that knows nothing but its footer. */
static struct zone *zone_of(const char *footer)
{
	struct file file = file_of('3', (struct zone_span[]){{0, 0}}, 1, footer);
	struct zone *zone;

	assert_int_equal(parse(&file, &zone, NULL), WEIR_OK);
	return zone;
}

static struct zone *open_zone(const char *name)
{
	struct zone *zone;
	struct weir_error error = {0};

	if (zone_open(name, &zone, &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return zone;
}

/* The offset changes to `offset` at `at`, to the second. */
static void assert_change(const struct zone *zone, int64_t at, int32_t before, int32_t after)
{
	assert_int_equal(zone_offset(zone, at - 1), before);
	assert_int_equal(zone_offset(zone, at), after);
}

static void utc_is_never_ahead(void **state)
{
	static const char *const names[] = {"UTC", "Etc/UTC", "Etc/GMT"};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct zone *zone = open_zone(names[i]);

		assert_int_equal(zone_offset(zone, INT64_MIN), 0);
		assert_int_equal(zone_offset(zone, INT64_MAX), 0);
		assert_int_equal(zone_first_instant(zone, 123), 123);
		zone_close(zone);
	}
}

static void names_outside_the_zone_directory_are_not_found(void **state)
{
	static const char *const names[] = {
	    "",
	    "/etc/passwd",
	    "../../../etc/passwd",
	    "Europe/../../../../etc/passwd",
	    "Europe",
	    "Nowhere/Atall",
	    "/usr/share/zoneinfo/UTC",
	    "Europe/Ber lin",
	    "zone.tab",
	    "Europe/Berlin\n",
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct weir_error error = {0};
		struct zone *zone;

		assert_int_equal(zone_open(names[i], &zone, &error), WEIR_ENOTFOUND);
		assert_null(zone);
		assert_non_null(strstr(error.message, "expected a time zone"));
	}
}

static void a_file_that_is_no_zone_is_a_syntax_error(void **state)
{
	struct weir_error error = {0};
	struct zone *zone;

	(void)state;
	assert_int_equal(zone_open("leapseconds", &zone, &error), WEIR_ESYNTAX);
	assert_null(zone);
	assert_string_equal(error.message, "/usr/share/zoneinfo/leapseconds: byte 0: expected the "
	                                   "header of a TZif file, found something else");
}

static void berlin_changes_by_file_and_then_by_rule(void **state)
{
	struct zone *zone = open_zone("Europe/Berlin");

	(void)state;
	assert_change(zone, -2422054408, 3208, HOUR); /* local mean time until 1893 */
	assert_change(zone, utc(2024, 3, 31, 1, 0), HOUR, 2 * HOUR);
	assert_change(zone, utc(2024, 10, 27, 1, 0), 2 * HOUR, HOUR);
	assert_change(zone, utc(2199, 3, 31, 1, 0), HOUR, 2 * HOUR);
	assert_change(zone, utc(9999, 10, 31, 1, 0), 2 * HOUR, HOUR);
	assert_int_equal(zone_offset(zone, INT64_MIN), 3208);
	zone_close(zone);
}

static void the_rule_repeats_every_400_years(void **state)
{
	struct zone *zone = open_zone("America/New_York");

	(void)state;
	for (int year = 2038; year < 2938; year += 7) {
		int64_t second_sunday = civil_days(year, 3, 8);

		second_sunday += floor_mod(6 - civil_weekday(second_sunday), 7);
		assert_change(zone, second_sunday * DAY + 7 * HOUR, -5 * HOUR, -4 * HOUR);
	}
	zone_close(zone);
}

static void first_instant_in_a_gap_is_the_change(void **state)
{
	struct zone *zone = open_zone("Europe/Berlin");
	int64_t change = utc(2024, 3, 31, 1, 0);

	(void)state;
	assert_int_equal(zone_first_instant(zone, utc(2024, 3, 31, 1, 59)), change - 60);
	assert_int_equal(zone_first_instant(zone, utc(2024, 3, 31, 2, 0)), change);
	assert_int_equal(zone_first_instant(zone, utc(2024, 3, 31, 2, 30)), change);
	assert_int_equal(zone_first_instant(zone, utc(2024, 3, 31, 3, 0)), change);
	assert_int_equal(zone_first_instant(zone, utc(2024, 3, 31, 3, 1)), change + 60);
	zone_close(zone);
}

static void first_instant_of_a_repeated_time_is_the_first(void **state)
{
	struct zone *zone = open_zone("Europe/Berlin");
	int64_t change = utc(2024, 10, 27, 1, 0);

	(void)state;
	assert_int_equal(zone_first_instant(zone, utc(2024, 10, 27, 2, 30)), change - HOUR / 2);
	assert_int_equal(zone_first_instant(zone, utc(2024, 10, 27, 2, 59)), change - 60);
	assert_int_equal(zone_first_instant(zone, utc(2024, 10, 27, 3, 0)), change + HOUR);
	zone_close(zone);
}

static void first_instant_folds_like_offset(void **state)
{
	struct zone *zone = open_zone("Europe/Berlin");

	(void)state;
	for (int64_t day = civil_days(2436, 12, 28); day < civil_days(2439, 1, 4); day++)
		for (int64_t local = day * DAY; local < (day + 1) * DAY; local += HOUR) {
			int64_t t = zone_first_instant(zone, local);

			assert_true(t + zone_offset(zone, t) >= local);
			assert_true(t - 1 + zone_offset(zone, t - 1) < local);
		}
	zone_close(zone);
}

static void the_ends_of_time_do_not_overflow(void **state)
{
	static const char *const names[] = {"UTC", "Europe/Berlin", "Pacific/Apia"};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct zone *zone = open_zone(names[i]);

		assert_true(zone_offset(zone, INT64_MAX) <= TZIF_OFFSET_MAX);
		assert_true(zone_first_instant(zone, INT64_MIN) < -DAY);
		assert_true(zone_first_instant(zone, INT64_MAX) > DAY);
		zone_close(zone);
	}
}

static void footers_name_days_in_three_ways(void **state)
{
	static const struct {
		const char *footer;
		int32_t std, dst;
		int64_t start, end; /* in 2024, a leap year */
	} cases[] = {
	    {"CET-1CEST,M3.5.0,M10.5.0/3", HOUR, 2 * HOUR, 1711846800, 1729990800},
	    {"AAA0BBB,J59/0,J60/0", 0, HOUR, 1709078400, 1709247600}, /* no February 29 */
	    {"AAA0BBB,58/0,59/0", 0, HOUR, 1709078400, 1709161200},   /* February 29 is 59 */
	    {"EET-2EEST,M3.4.4/50,M10.4.4/50", 2 * HOUR, 3 * HOUR, 1711756800, 1729897200},
	    {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", -2 * HOUR, -HOUR, 1711846800, 1729990800},
	    {"IST-1GMT0,M10.5.0,M3.5.0/1", HOUR, 0, 1729990800, 1711846800},
	    {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 37800, 11 * HOUR, 1728142200, 1712415600},
	    {"AAA+01:02:03BBB,J1/-167,J100/+167:59:59", -3723, -123, 1703469723, 1713312122},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct zone *zone = zone_of(cases[i].footer);

		assert_change(zone, cases[i].start, cases[i].std, cases[i].dst);
		assert_change(zone, cases[i].end, cases[i].dst, cases[i].std);
		zone_close(zone);
	}
}

static void daylight_saving_all_year_has_no_seams(void **state)
{
	struct zone *zone = zone_of("XXX3EDT4,0/0,J365/23");

	(void)state;
	for (int64_t t = utc(2023, 12, 1, 0, 0); t < utc(2025, 2, 1, 0, 0); t += HOUR) {
		assert_int_equal(zone_offset(zone, t), -4 * HOUR);
		assert_int_equal(zone_first_instant(zone, t), t + 4 * HOUR);
	}
	zone_close(zone);
}

static void an_old_file_has_no_rule(void **state)
{
	struct zone_span spans[] = {{0, 600}, {-1000, 1200}, {2000, -1800}};
	struct file file = file_of(0, spans, 3, "");
	struct zone *zone;

	(void)state;
	assert_int_equal(parse(&file, &zone, NULL), WEIR_OK);
	assert_change(zone, -1000, 600, 1200);
	assert_change(zone, 2000, 1200, -1800);
	assert_int_equal(zone_offset(zone, INT64_MAX), -1800);
	zone_close(zone);
}

static void bad_footers_are_syntax_errors(void **state)
{
	static const char *const footers[] = {
	    "C-1",
	    "CET",
	    "CET-25",
	    "CET-1:60",
	    "CET-1CEST",
	    "CET-1CEST,M3.5.0",
	    "CET-1CEST,M3.5.0,",
	    "CET-1CEST,M13.1.0,M10.5.0",
	    "CET-1CEST,M3.6.0,M10.5.0",
	    "CET-1CEST,M3.5.7,M10.5.0",
	    "CET-1CEST,J0,J5",
	    "CET-1CEST,366,1",
	    "CET-1CEST,M3.5.0/168,M10.5.0",
	    "<CET-1",
	    "CET-1CEST,M3.5.0,M10.5.0/3 ",
	    "CET-1\n",
	    ":Europe/Berlin",
	    "CET-99999999999999999999",
	    "CET-1CEST-,M3.5.0,M10.5.0",
	};

	(void)state;
	for (size_t i = 0; i < sizeof footers / sizeof *footers; i++) {
		struct file file = file_of('2', (struct zone_span[]){{0, 0}}, 1, footers[i]);
		struct weir_error error = {0};
		struct zone *zone;

		if (parse(&file, &zone, &error) != WEIR_ESYNTAX)
			fail_msg("accepted %s", footers[i]);
		assert_non_null(strstr(error.message, ": expected "));
	}
}

static void a_file_cut_anywhere_is_a_syntax_error(void **state)
{
	struct zone_span spans[] = {{0, 600}, {-1000, 1200}, {2000, -1800}};
	struct file file = file_of('2', spans, 3, "CET-1CEST,M3.5.0,M10.5.0/3");
	size_t len = file.len;
	struct zone *zone;

	(void)state;
	for (file.len = 0; file.len < len; file.len++) {
		assert_int_equal(parse(&file, &zone, NULL), WEIR_ESYNTAX);
		assert_null(zone);
	}
	assert_int_equal(parse(&file, &zone, NULL), WEIR_OK);
	zone_close(zone);
}

static void a_file_of_zeros_is_a_syntax_error(void **state)
{
	struct zone_span spans[] = {{0, 600}, {-1000, 1200}, {2000, -1800}};
	struct file file = file_of('2', spans, 3, "CET-1");
	struct zone *zone;

	(void)state;
	for (size_t from = 0; from + 5 < file.len; from++) {
		struct file zeroed = file;

		memset(zeroed.bytes + from, 0, file.len - from);
		assert_int_equal(parse(&zeroed, &zone, NULL), WEIR_ESYNTAX);
	}
}

static void counts_beyond_the_file_are_syntax_errors(void **state)
{
	static const uint8_t highs[] = {0x01, 0x7f, 0x80, 0xff};
	struct zone_span spans[] = {{0, 600}, {-1000, 1200}};
	struct file file = file_of(0, spans, 2, "");
	struct zone *zone;

	(void)state;
	for (size_t at = 20; at < 44; at += 4)
		for (size_t i = 0; i < sizeof highs; i++) {
			struct file hostile = file;

			hostile.bytes[at] = highs[i];
			assert_int_equal(parse(&hostile, &zone, NULL), WEIR_ESYNTAX);
		}
}

static void impossible_contents_are_syntax_errors(void **state)
{
	static const struct zone_span falling[] = {{0, 0}, {5, 0}, {5, 0}};
	static const struct zone_span far[] = {{0, 0}, {INT64_MAX, 0}};
	static const struct zone_span wide[] = {{0, 26 * HOUR}};
	static const struct zone_span whole[] = {{0, 0}, {5, 60}};
	struct file files[] = {
	    file_of('2', falling, 3, ""), file_of('2', far, 2, ""),   file_of('2', wide, 1, ""),
	    file_of('2', whole, 2, ""),   file_of('9', whole, 2, ""), file_of('2', whole, 2, ""),
	};
	struct zone *zone;

	(void)state;
	files[3].bytes[51 + 44 + 8] = 2;      /* a kind of time past the last */
	files[5].bytes[51 + 44 + 9 + 12] = 1; /* what stands here has no meaning */
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(parse(&files[i], &zone, NULL), WEIR_ESYNTAX);
	assert_int_equal(parse(&files[5], &zone, NULL), WEIR_OK);
	zone_close(zone);
}

static void leap_seconds_are_refused(void **state)
{
	struct weir_error error = {0};
	struct zone *zone;

	(void)state;
	if (zone_open("right/UTC", &zone, &error) == WEIR_ENOTFOUND)
		skip(); /* not installed everywhere */
	assert_int_equal(error.status, WEIR_ESYNTAX);
	assert_non_null(strstr(error.message, "leap seconds"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(utc_is_never_ahead),
	    cmocka_unit_test(names_outside_the_zone_directory_are_not_found),
	    cmocka_unit_test(a_file_that_is_no_zone_is_a_syntax_error),
	    cmocka_unit_test(berlin_changes_by_file_and_then_by_rule),
	    cmocka_unit_test(the_rule_repeats_every_400_years),
	    cmocka_unit_test(first_instant_in_a_gap_is_the_change),
	    cmocka_unit_test(first_instant_of_a_repeated_time_is_the_first),
	    cmocka_unit_test(first_instant_folds_like_offset),
	    cmocka_unit_test(the_ends_of_time_do_not_overflow),
	    cmocka_unit_test(footers_name_days_in_three_ways),
	    cmocka_unit_test(daylight_saving_all_year_has_no_seams),
	    cmocka_unit_test(an_old_file_has_no_rule),
	    cmocka_unit_test(bad_footers_are_syntax_errors),
	    cmocka_unit_test(a_file_cut_anywhere_is_a_syntax_error),
	    cmocka_unit_test(a_file_of_zeros_is_a_syntax_error),
	    cmocka_unit_test(counts_beyond_the_file_are_syntax_errors),
	    cmocka_unit_test(impossible_contents_are_syntax_errors),
	    cmocka_unit_test(leap_seconds_are_refused),
	};

	return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
