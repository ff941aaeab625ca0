#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/admin/metrics.h"

/* Renders the page, with a NUL at its end. Free it with buffer_free. */
static struct buffer render(struct metrics *metrics)
{
	struct metrics_now now = {
	    .connections = 3, .table = {.live = 7}, .usage = {1500000000, 4096, 0}};
	struct buffer page = {0};

	metrics_render(metrics, &now, &page);
	buffer_add(&page, "", 1);
	assert_false(page.failed);
	return page;
}

static void expect_line(struct metrics *metrics, const char *line)
{
	struct buffer page = render(metrics);

	if (!strstr(page.data, line))
		fail_msg("expected %sfound %s", line, page.data);
	buffer_free(&page);
}

static void counters_are_summed_over_loops_and_found_again_by_name(void **state)
{
	struct metrics *metrics = metrics_open(2);
	struct named_counters *limit = metrics_limit(metrics, "login");

	(void)state;
	metrics_limit(metrics, "other");
	assert_ptr_equal(metrics_limit(metrics, "login"), limit);
	metrics_add(&metrics_counts_of(limit, 0)->decisions[0][WEIR_REASON_OK][1], 2);
	metrics_add(&metrics_counts_of(limit, 1)->decisions[0][WEIR_REASON_OK][1], 3);
	metrics_add(&metrics_counts_of(limit, 1)->decisions[1][WEIR_REASON_OVER_LIMIT][0], 4);
	metrics_add(&metrics_counts_of(limit, 0)->decisions[0][WEIR_REASON_NO_ROOM][0], 1);
	metrics_add(&metrics_counts_of(limit, 1)->decisions[1][WEIR_REASON_NO_ROOM][0], 6);
	metrics_add(&metrics_loop(metrics, 1)->requests[METRICS_RESP], 5);
	metrics_add(&metrics_loop(metrics, 0)->errors[METRICS_HTTP][-WEIR_ECOST], 6);
	metrics_count_reload(metrics, true, 1700000000123456789);
	metrics_count_reload(metrics, false, 1800000000000000000);
	expect_line(metrics,
	            "\nweir_decisions_total{limit=\"login\",reason=\"ok\",allowed=\"true\"} 5\n");
	expect_line(metrics, "\nweir_shadow_decisions_total{limit=\"login\",reason=\"over_limit\","
	                     "allowed=\"false\"} 4\n");
	expect_line(metrics, "\nweir_no_room_total{limit=\"login\"} 7\n");
	expect_line(metrics, "\nweir_no_room_total{limit=\"other\"} 0\n");
	expect_line(metrics, "\nweir_requests_total{protocol=\"resp\"} 5\n");
	expect_line(metrics, "\nweir_reloads_total{result=\"failure\"} 1\n");
	expect_line(metrics, "\nweir_errors_total{protocol=\"http\",status=\"ECOST\"} 6\n");
	expect_line(metrics, "\nweir_config_loaded_timestamp_seconds 1700000000.123456789\n");
	expect_line(metrics, "\nprocess_cpu_seconds_total 1.500000000\n");
	expect_line(metrics, "\nprocess_resident_memory_bytes 4096\n");
	expect_line(metrics, "\nweir_connections 3\n");
	expect_line(metrics, "\nweir_table_live_keys 7\n");
	metrics_close(metrics);
}

static void a_rule_is_counted_apart_from_the_limit_with_its_name(void **state)
{
	struct metrics *metrics = metrics_open(2);
	struct named_counters *rule = metrics_rule(metrics, "login");

	(void)state;
	metrics_add(&metrics_answers_of(rule, 0)->answers[true], 2);
	metrics_add(&metrics_answers_of(rule, 1)->answers[true], 3);
	metrics_add(&metrics_answers_of(rule, 1)->answers[false], 4);
	assert_ptr_not_equal(metrics_limit(metrics, "login"), rule);
	assert_ptr_equal(metrics_rule(metrics, "login"), rule);
	assert_int_equal(metrics_answered(metrics, rule, true), 5);
	assert_int_equal(metrics_answered(metrics, rule, false), 4);
	metrics_close(metrics);
}

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

static size_t comparisons;

int __wrap_strcmp(const char *a, const char *b)
{
	comparisons++;
	return __real_strcmp(a, b);
}

/* A start makes the counters, and each reload looks for them. */
static void a_limit_is_found_among_many_by_few_comparisons(void **state)
{
	enum { MANY = 10000 };
	static struct named_counters *found[MANY];
	struct metrics *metrics = metrics_open(1);

	(void)state;
	comparisons = 0;
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++) {
			char name[16];
			struct named_counters *limit;

			snprintf(name, sizeof name, "limit-%d", i);
			limit = metrics_limit(metrics, name);
			assert_int_equal(__real_strcmp(limit->name, name), 0);
			assert_true(round == 0 || limit == found[i]);
			found[i] = limit;
		}
	assert_true(comparisons < 10 * MANY);
	metrics_close(metrics);
}

static void every_limit_shows_its_main_counters_from_the_start(void **state)
{
	struct metrics *metrics = metrics_open(1);

	(void)state;
	metrics_limit(metrics, "login");
	expect_line(metrics,
	            "\nweir_decisions_total{limit=\"login\",reason=\"ok\",allowed=\"true\"} 0\n");
	expect_line(
	    metrics,
	    "\nweir_decisions_total{limit=\"login\",reason=\"over_limit\",allowed=\"false\"} 0\n");
	metrics_close(metrics);
}

static void label_values_are_escaped(void **state)
{
	struct metrics *metrics = metrics_open(1);

	(void)state;
	metrics_limit(metrics, "a\"b\\c\nd");
	expect_line(metrics, "{limit=\"a\\\"b\\\\c\\nd\",reason=\"ok\"");
	metrics_close(metrics);
}

static void durations_count_in_the_first_bucket_that_fits(void **state)
{
	struct metrics *metrics = metrics_open(1);
	struct metrics_loop *loop = metrics_loop(metrics, 0);

	(void)state;
	metrics_observe(loop, METRICS_DURATION, 5000, 1);
	metrics_observe(loop, METRICS_DURATION, 5001, 10);
	metrics_observe(loop, METRICS_DURATION, 2000000000, 100);
	expect_line(metrics, "\nweir_request_duration_seconds_bucket{le=\"0.000005\"} 1\n");
	expect_line(metrics, "\nweir_request_duration_seconds_bucket{le=\"0.00001\"} 11\n");
	expect_line(metrics, "\nweir_request_duration_seconds_bucket{le=\"1\"} 11\n");
	expect_line(metrics, "\nweir_request_duration_seconds_bucket{le=\"+Inf\"} 111\n");
	expect_line(metrics, "\nweir_request_duration_seconds_sum 200.000055010\n");
	expect_line(metrics, "\nweir_request_duration_seconds_count 111\n");
	metrics_close(metrics);
}

static void intakes_are_counted_by_their_requests(void **state)
{
	struct metrics *metrics = metrics_open(2);

	(void)state;
	metrics_observe(metrics_loop(metrics, 0), METRICS_INTAKE_SIZE, 1, 1);
	metrics_observe(metrics_loop(metrics, 1), METRICS_INTAKE_SIZE, 1024, 1);
	expect_line(metrics, "\nweir_iteration_requests_bucket{le=\"1\"} 1\n");
	expect_line(metrics, "\nweir_iteration_requests_bucket{le=\"512\"} 1\n");
	expect_line(metrics, "\nweir_iteration_requests_bucket{le=\"1024\"} 2\n");
	expect_line(metrics, "\nweir_iteration_requests_sum 1025\n");
	metrics_close(metrics);
}

static void every_sample_has_its_help_and_type(void **state)
{
	struct metrics *metrics = metrics_open(1);
	struct buffer page = render(metrics);
	char *rest = page.data, *line, family[128] = "";

	(void)state;
	while ((line = strsep(&rest, "\n")) != NULL && *line) {
		if (line[0] != '#')
			assert_memory_equal(line, family, strlen(family));
		else if (strncmp(line, "# HELP ", 7) == 0)
			snprintf(family, sizeof family, "%.*s", (int)strcspn(line + 7, " "), line + 7);
		else
			assert_memory_equal(line + 7, family, strlen(family));
	}
	buffer_free(&page);
	metrics_close(metrics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counters_are_summed_over_loops_and_found_again_by_name),
	    cmocka_unit_test(a_rule_is_counted_apart_from_the_limit_with_its_name),
	    cmocka_unit_test(a_limit_is_found_among_many_by_few_comparisons),
	    cmocka_unit_test(every_limit_shows_its_main_counters_from_the_start),
	    cmocka_unit_test(label_values_are_escaped),
	    cmocka_unit_test(durations_count_in_the_first_bucket_that_fits),
	    cmocka_unit_test(intakes_are_counted_by_their_requests),
	    cmocka_unit_test(every_sample_has_its_help_and_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
