/* Breakers that are forced by the caller: of a limiter, of a key, of a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/limiter.h>

#define S    UINT64_C(1000000000)
#define NOW  (UINT64_C(1700000000) * S)
#define YEAR (365 * 86400 * S)

static weir_table *table;
static weir_limit *limit;

static const struct weir_breaker_options one_failure = {.minimum = 1, .ramp_ns = WEIR_ZERO};

static void begin(const char *path, uint64_t keys)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BREAKER, .keys = keys, .breaker = &one_failure};

	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 1000, .path = path}, &table, NULL),
	    WEIR_OK);
	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
}

static void end(void)
{
	weir_limit_close(limit);
	weir_table_close(table);
}

static int force(const char *key, enum weir_force how, uint64_t until_ns, uint64_t now_ns)
{
	return weir_force(table, limit, (struct weir_key){key, strlen(key)}, how, until_ns, now_ns);
}

static struct weir_decision acquire(const char *key, struct weir_permit *permit, uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(weir_ask(table, limit, (struct weir_key){key, strlen(key)},
	                          &(struct weir_ask){.now_ns = now_ns, .permit = permit}, &d),
	                 WEIR_OK);
	return d;
}

static bool passes(const char *key, uint64_t now_ns)
{
	struct weir_permit permit;
	struct weir_decision d = acquire(key, &permit, now_ns);

	if (!d.allowed)
		assert_int_equal(d.reason, WEIR_REASON_BREAKER_OPEN);
	return d.allowed;
}

static void trip(const char *key, uint64_t now_ns)
{
	struct weir_permit permit;

	assert_true(acquire(key, &permit, now_ns).allowed);
	assert_int_equal(weir_report(table, limit, (struct weir_key){key, strlen(key)}, &permit,
	                             &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE,
	                                                   .latency_ns = 1,
	                                                   .now_ns = now_ns}),
	                 WEIR_OK);
}

static void a_key_is_forced_until_its_time_and_others_are_not(void **unused)
{
	struct weir_permit permit;
	struct weir_decision d;

	(void)unused;
	begin(NULL, 100);
	assert_int_equal(force("a", WEIR_FORCE_OPEN, NOW + 9 * S, NOW), WEIR_OK);
	d = acquire("a", &permit, NOW + 2 * S);
	assert_false(d.allowed);
	assert_int_equal(d.reason, WEIR_REASON_BREAKER_OPEN);
	assert_int_equal(d.retry_after_ns, 7 * S);
	assert_true(passes("b", NOW));
	weir_reset(table, limit, (struct weir_key){"a", 1}, NOW, &d);
	assert_false(passes("a", NOW + 9 * S - 1));
	assert_true(passes("a", NOW + 9 * S));
	trip("a", NOW + 9 * S); /* it goes by its window again */
	assert_false(passes("a", NOW + 9 * S));
	end();
}

static void forced_closed_passes_whatever_is_reported(void **unused)
{
	(void)unused;
	begin(NULL, 100);
	trip("a", NOW);
	assert_false(passes("a", NOW));
	assert_int_equal(force("a", WEIR_FORCE_CLOSED, 0, NOW), WEIR_OK);
	for (int i = 0; i < 50; i++)
		trip("a", NOW + 1);
	assert_true(passes("a", NOW + 3 * YEAR));
	assert_int_equal(force("a", WEIR_FORCE_AUTO, 0, NOW + 3 * YEAR), WEIR_OK);
	assert_true(passes("a", NOW + 3 * YEAR)); /* what failed meanwhile counts for nothing */
	trip("a", NOW + 3 * YEAR);
	assert_false(passes("a", NOW + 3 * YEAR));
	assert_int_equal(force("a", WEIR_FORCE_AUTO, 0, NOW + 3 * YEAR), WEIR_OK);
	assert_false(passes("a", NOW + 3 * YEAR)); /* nobody has forced that */
	end();
}

static void no_time_is_too_far(void **unused)
{
	static const uint64_t ends[] = {NOW + 16 * YEAR, NOW + 16 * YEAR + 1, NOW + 40 * YEAR, UINT64_MAX};

	(void)unused;
	begin(NULL, 100);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		assert_int_equal(force("a", WEIR_FORCE_OPEN, ends[i], NOW), WEIR_OK);
		assert_false(passes("a", NOW));
		assert_false(passes("a", NOW + 15 * YEAR));
	}
	end();
}

static void what_cannot_be_forced_is_refused(void **unused)
{
	struct weir_limit_options bucket = {.rate = {5}};
	weir_limit *other;
	weir_limiter *limiter;
	char key[16];

	(void)unused;
	begin(NULL, 40);
	assert_int_equal(force("a", WEIR_FORCE_OPEN, NOW, NOW), WEIR_ERANGE);
	assert_int_equal(force("a", (enum weir_force)3, 0, NOW), WEIR_EINVAL);
	assert_int_equal(weir_limit_open(&bucket, &other, NULL), WEIR_OK);
	assert_int_equal(weir_force(table, other, (struct weir_key){"a", 1}, WEIR_FORCE_OPEN, 0, NOW),
	                 WEIR_EINVAL);
	assert_int_equal(weir_limiter_open(&bucket, &limiter, NULL), WEIR_OK);
	assert_int_equal(weir_limiter_force(limiter, WEIR_FORCE_OPEN, 0, NOW), WEIR_EINVAL);
	weir_limiter_close(limiter);
	weir_limit_close(other);
	for (int i = 0, status = WEIR_OK; status == WEIR_OK; i++) {
		assert_in_range(i, 0, 100000);
		snprintf(key, sizeof key, "%d", i);
		status = force(key, WEIR_FORCE_OPEN, 0, NOW);
		assert_true(status == WEIR_OK || status == WEIR_EFULL);
		assert_true(status == WEIR_EFULL || !passes(key, NOW));
	}
	assert_false(passes("0", NOW)); /* none had to make room */
	end();
}

static void a_limiter_is_forced_too(void **unused)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_BREAKER};
	struct weir_decision d;
	weir_limiter *limiter;

	(void)unused;
	assert_int_equal(weir_limiter_open(&options, &limiter, NULL), WEIR_OK);
	assert_int_equal(weir_limiter_force(limiter, WEIR_FORCE_OPEN, 0, NOW), WEIR_OK);
	weir_limiter_acquire(limiter, 1, NOW + YEAR, &d);
	assert_int_equal(d.reason, WEIR_REASON_BREAKER_OPEN);
	assert_int_equal(weir_limiter_force(limiter, WEIR_FORCE_OPEN, NOW, NOW), WEIR_ERANGE);
	assert_int_equal(weir_limiter_force(limiter, (enum weir_force)-1, 0, NOW), WEIR_EINVAL);
	assert_int_equal(weir_limiter_force(limiter, WEIR_FORCE_AUTO, 0, NOW + YEAR), WEIR_OK);
	weir_limiter_acquire(limiter, 1, NOW + YEAR, &d);
	assert_true(d.allowed);
	weir_limiter_close(limiter);
}

static void a_file_keeps_what_was_forced(void **unused)
{
	char path[] = "/tmp/weir-force-XXXXXX";

	(void)unused;
	close(mkstemp(path));
	unlink(path);
	begin(path, 100);
	assert_int_equal(force("a", WEIR_FORCE_OPEN, 0, WEIR_NOW), WEIR_OK);
	end();
	begin(path, 100);
	assert_false(passes("a", WEIR_NOW));
	assert_true(passes("b", WEIR_NOW));
	end();
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_is_forced_until_its_time_and_others_are_not),
	    cmocka_unit_test(forced_closed_passes_whatever_is_reported),
	    cmocka_unit_test(no_time_is_too_far),
	    cmocka_unit_test(what_cannot_be_forced_is_refused),
	    cmocka_unit_test(a_limiter_is_forced_too),
	    cmocka_unit_test(a_file_keeps_what_was_forced),
	};

	return cmocka_run_group_tests_name("force", tests, NULL, NULL);
}
