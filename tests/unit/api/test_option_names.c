/* Errors about the options of a limit name the fields that a program has set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <weir/limiter.h>

#define RATE .rate = {5, 1, WEIR_UNIT_SECOND}

static const struct {
	struct weir_limit_options options;
	const char *says;
} wrong[] = {
    {{.algorithm = WEIR_ALGORITHM_BREAKER,
      .breaker = &(struct weir_breaker_options){.failure_percent = 101}},
     "failure_percent: expected 1 to 100, found 101"},
    {{.algorithm = WEIR_ALGORITHM_BREAKER,
      .breaker = &(struct weir_breaker_options){.failure_percent = 9, .failures = 3}},
     "failure_percent: expected this or failures, found both"},
    {{.algorithm = WEIR_ALGORITHM_BREAKER,
      .breaker = &(struct weir_breaker_options){.slow_percent = 101}},
     "slow_percent: expected 1 to 100, found 101"},
    {{.algorithm = WEIR_ALGORITHM_THROTTLE,
      .throttle = &(struct weir_throttle_options){.window_ns = 5}},
     "window_ns: expected 1 ms to a year, found 5 ns"},
    {{.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, RATE, .burst = UINT64_C(1) << 33},
     "burst: expected 1 to 4294967296, found 8589934592"},
    {{.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {1, 1, WEIR_UNIT_YEAR}, .burst = 17},
     "rate: expected a period of fixed length"},
    {{.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {1, 365, WEIR_UNIT_DAY}, .burst = 17},
     "burst: expected to be refilled within 16 years"},
    {{.algorithm = WEIR_ALGORITHM_PACER, RATE, .warm_up_ns = 1},
     "warm_up_ns: expected with warm_up only, found with pacer"},
    {{.algorithm = WEIR_ALGORITHM_WARM_UP,
      .rate = {1000000, 1, WEIR_UNIT_SECOND},
      .warm_up_ns = UINT64_C(86400000000000)},
     "warm_up_ns: expected at most 2^32 permits"},
    {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 10001}, "max: expected 1 to 10000"},
    {{.algorithm = 99, RATE}, "algorithm: expected a known one"},
    {{RATE, .reserved = {0, 7}}, "reserved: expected 0, found 7"},
    {{.algorithm = WEIR_ALGORITHM_BREAKER,
      .breaker = &(struct weir_breaker_options){.reserved = {7}}},
     "reserved: expected 0, found 7"},
    {{RATE, .name = ""}, "name: expected 1 to 64 bytes, found 0"},
};

static void assert_says(int status, const struct weir_error *error, const char *says)
{
	assert_true(status < 0);
	assert_int_equal(error->status, status);
	if (strncmp(error->message, says, strlen(says)) != 0)
		fail_msg("%s, not %s", error->message, says);
}

static void errors_name_the_fields_of_options(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct weir_error error = {0};
		weir_limiter *limiter;
		weir_limit *limit;
		int status = weir_limit_open(&wrong[i].options, &limit, &error);

		assert_says(status, &error, wrong[i].says);
		error = (struct weir_error){0};
		assert_int_equal(weir_limiter_open(&wrong[i].options, &limiter, &error), status);
		assert_says(status, &error, wrong[i].says);
		assert_int_equal(weir_limit_open(&wrong[i].options, &limit, NULL), status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(errors_name_the_fields_of_options)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
