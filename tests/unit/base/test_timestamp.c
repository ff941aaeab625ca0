#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/number.h"
#include "base/time/timestamp.h"

#define NONE UINT64_MAX

static const struct {
	const char *text;
	uint64_t ns;
} times[] = {
    {"0", 0},
    {"1700000000", 1700000000 * NS_PER_S},
    {"1700000000.25", 1700000000 * NS_PER_S + 250000000},
    {"1700000000.123456789", UINT64_C(1700000000123456789)},
    {"1700000000.1234567899999", UINT64_C(1700000000123456789)},
    {"1700000000.123456789012345678901234567890123456789012345678901",
     UINT64_C(1700000000123456789)},
    {"1700000000.000000001", UINT64_C(1700000000000000001)},
    {"1.700000000123456789e9", UINT64_C(1700000000123456789)},
    {"17E8", 1700000000 * NS_PER_S},
    {"1e-05", 10000},
    {"170e-2", 1700000000},
    {"0.000000000000000000000000000000000000000000000000000000000009e51", 9},
    {"000000000000000000000000000000000000000000000000000000000001", NS_PER_S},
    {"9223372036.854775807", INT64_MAX},
    {"9223372036.854775808", NONE},
    {"99999999999999999999999999999999999999999999999999999999999", NONE},
    {"1e999999999999999999999", NONE},
    {"0e999999999999999999999", 0},
    {"1e-999999999999999999999", 0},
    {"", NONE},
    {".5", NONE},
    {"5.", NONE},
    {"-1", NONE},
    {"+1", NONE},
    {"1 ", NONE},
    {"1.2.3", NONE},
    {"1e", NONE},
    {"0x10", NONE},
    {"nan", NONE},
    {"2023-11-14T22:13:20Z", 1700000000 * NS_PER_S},
    {"2023-11-14t22:13:20.000000001z", 1700000000 * NS_PER_S + 1},
    {"2023-11-14 23:13:20+01:00", 1700000000 * NS_PER_S},
    {"2023-11-14T16:43:20.5-05:30", 1700000000 * NS_PER_S + 500000000},
    {"2016-12-31T23:59:60Z", 1483228799 * NS_PER_S},
    {"2024-02-29T00:00:00Z", 1709164800 * NS_PER_S},
    {"2023-02-29T00:00:00Z", NONE},
    {"2023-11-14T22:13:20", NONE},
    {"2023-11-14T22:13Z", NONE},
    {"2023-11-14T24:00:00Z", NONE},
    {"2023-11-14T22:13:20.Z", NONE},
    {"2023-11-14T22:13:20ZZ", NONE},
    {"1969-12-31T23:59:59Z", NONE},
    {"1970-01-01T00:30:00+01:00", NONE},
    {"9999-12-31T23:59:59Z", NONE},
    {"2023-1-14T22:13:20Z", NONE},
};

static const struct {
	const char *text;
	uint64_t ns;
} log_times[] = {
    {"14/Nov/2023:22:13:20 +0000", 1700000000 * NS_PER_S},
    {"15/Nov/2023:03:43:20 +0530", 1700000000 * NS_PER_S},
    {"14/nov/2023:22:13:20 +0000", NONE},
    {"14/Nov/2023:22:13:20", NONE},
    {"31/Nov/2023:22:13:20 +0000", NONE},
    {"14/Nov/2023:22:13:20 +0000 ", NONE},
    {"", NONE},
};

static void times_are_read_exactly_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		uint64_t ns = 0;
		bool read = timestamp_parse(slice_of(times[i].text), &ns);

		if (read != (times[i].ns != NONE) || (read && ns != times[i].ns))
			fail_msg("%s: %d %llu", times[i].text, read, (unsigned long long)ns);
	}
	for (size_t i = 0; i < sizeof log_times / sizeof *log_times; i++) {
		uint64_t ns = 0;
		bool read = timestamp_parse_log(slice_of(log_times[i].text), &ns);

		if (read != (log_times[i].ns != NONE) || (read && ns != log_times[i].ns))
			fail_msg("%s: %d %llu", log_times[i].text, read, (unsigned long long)ns);
	}
}

static void seconds_are_written_as_they_are_read(void **state)
{
	static const char *const texts[] = {
	    "0", "1", "1700000000.25", "0.000000001", "1700000000.123456789", "9223372036.8"};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct buffer out = {0};
		uint64_t ns;

		assert_true(timestamp_parse(slice_of(texts[i]), &ns));
		timestamp_add_seconds(&out, ns);
		buffer_add(&out, "", 1);
		assert_string_equal(out.data, texts[i]);
		buffer_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(times_are_read_exactly_or_refused),
	    cmocka_unit_test(seconds_are_written_as_they_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
