/* Tests the history of decisions in virtual time: its points, its bounds, and its JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/history/history.h"

#define LOOPS   2
#define START_S UINT64_C(1800000000)

/* A history of metrics that the test counts, and the time. */
static struct world {
	struct metrics *metrics;
	struct history *history;
	struct history_time now;
} world;

static int open_world(void **state)
{
	(void)state;
	world.now = (struct history_time){START_S * NS_PER_S + NS_PER_S / 3, 77 * NS_PER_S};
	world.metrics = metrics_open(LOOPS);
	world.history = history_open(world.metrics, world.now);
	return world.history ? 0 : -1;
}

static int close_world(void **state)
{
	(void)state;
	history_close(world.history);
	metrics_close(world.metrics);
	return 0;
}

static void count_decisions(const char *limit, bool shadow, enum weir_reason reason, bool allowed,
                            uint64_t n)
{
	static size_t loop;
	struct named_counters *counters = metrics_limit(world.metrics, limit);

	assert_non_null(counters);
	loop = (loop + 1) % LOOPS; /* any of them may count */
	metrics_add(&metrics_counts_of(counters, loop)->decisions[shadow][reason][allowed], n);
}

static void allow(const char *limit, uint64_t n)
{
	count_decisions(limit, false, WEIR_REASON_OK, true, n);
}

static void pass_seconds(uint64_t seconds)
{
	world.now.wall_ns += seconds * NS_PER_S;
	world.now.monotonic_ns += seconds * NS_PER_S;
	history_count(world.history, world.now);
}

/* The answer to a request for the points after `since_s`. */
static json_t *answer_since(uint64_t since_s)
{
	struct buffer out = {0};
	json_t *answer;

	history_render(world.history, since_s, &out);
	assert_false(out.failed);
	assert_true(out.len < HISTORY_TEXT_MAX);
	answer = json_loadb(out.data, out.len, 0, NULL);
	assert_non_null(answer);
	buffer_free(&out);
	return answer;
}

static json_t *find_limit(const json_t *answer, const char *name)
{
	json_t *limit;
	size_t i;

	json_array_foreach (json_object_get(answer, "limits"), i, limit)
		if (strcmp(json_string_value(json_object_get(limit, "limit")), name) == 0)
			return limit;
	return NULL;
}

/* Asserts the last points of a result, which are `expected` behind zeros. */
static void assert_last(const json_t *series, const char *result, const char *expected)
{
	json_t *points = json_object_get(series, result);
	size_t n = json_array_size(points), shown = 0;
	char found[200] = "";

	for (const char *at = expected; *at; at++)
		shown += *at == ' ';
	assert_true(shown <= n);
	for (size_t i = 0; i < n; i++) {
		json_int_t value = json_integer_value(json_array_get(points, i));

		if (i >= n - shown)
			snprintf(found + strlen(found), sizeof found - strlen(found), "%lld ", value);
		else
			assert_int_equal(value, 0);
	}
	assert_string_equal(found, expected);
}

static json_int_t sum_of_points(const json_t *series, const char *result)
{
	json_t *point;
	json_int_t sum = 0;
	size_t i;

	json_array_foreach (json_object_get(series, result), i, point)
		sum += json_integer_value(point);
	return sum;
}

static void assert_times(const json_t *answer, uint64_t from_s, uint64_t now_s)
{
	assert_int_equal(json_integer_value(json_object_get(answer, "from")), from_s);
	assert_int_equal(json_integer_value(json_object_get(answer, "now")), now_s);
}

static void a_history_begins_without_points(void **state)
{
	json_t *answer = answer_since(0);

	(void)state;
	assert_times(answer, START_S, START_S - 1);
	assert_int_equal(json_array_size(json_object_get(answer, "limits")), 0);
	assert_int_equal(json_object_size(json_object_get(answer, "others")), 0);
	json_decref(answer);
}

static void each_second_has_a_point_of_each_result(void **state)
{
	json_t *answer, *login;

	(void)state;
	allow("login", 3);
	count_decisions("login", false, WEIR_REASON_HIT_QUOTA, true, 1);
	count_decisions("login", false, WEIR_REASON_STORE_LOCAL, true, 1);
	count_decisions("login", false, WEIR_REASON_OVER_LIMIT, false, 2);
	count_decisions("login", false, WEIR_REASON_QUEUE_FULL, false, 1);
	pass_seconds(1);
	allow("login", 7);
	count_decisions("login", false, WEIR_REASON_SHED, false, 4);
	count_decisions("login", false, WEIR_REASON_BREAKER_OPEN, false, 5);
	count_decisions("login", false, WEIR_REASON_STORE_FAILURE, false, 6);
	count_decisions("login", false, WEIR_REASON_NO_ROOM, false, 1);
	count_decisions("login", true, WEIR_REASON_OVER_LIMIT, false, 8);
	count_decisions("login", true, WEIR_REASON_OK, true, 100); /* it changes nothing */
	pass_seconds(1);
	answer = answer_since(0);
	assert_times(answer, START_S, START_S + 1);
	login = find_limit(answer, "login");
	assert_last(login, "allowed", "5 7 ");
	assert_last(login, "denied", "3 0 ");
	assert_last(login, "shed", "0 4 ");
	assert_last(login, "breaker_open", "0 5 ");
	assert_last(login, "failed", "0 7 ");
	assert_last(login, "shadow", "0 8 ");
	json_decref(answer);
}

static void an_answer_has_only_what_is_newer_and_not_zero(void **state)
{
	json_t *answer;

	(void)state;
	allow("early", 1);
	pass_seconds(1);
	allow("late", 2);
	pass_seconds(1);
	answer = answer_since(START_S);
	assert_times(answer, START_S + 1, START_S + 1);
	assert_null(find_limit(answer, "early"));
	assert_last(find_limit(answer, "late"), "allowed", "2 ");
	assert_null(json_object_get(find_limit(answer, "late"), "denied"));
	json_decref(answer);
	answer = answer_since(START_S + 1);
	assert_times(answer, START_S + 2, START_S + 1);
	assert_int_equal(json_array_size(json_object_get(answer, "limits")), 0);
	json_decref(answer);
}

static void an_hour_is_kept(void **state)
{
	json_t *answer, *login;

	(void)state;
	allow("login", 1);
	pass_seconds(1);
	allow("login", 2);
	pass_seconds(1);
	for (int i = 2; i < HISTORY_SECONDS + 1; i++)
		pass_seconds(1);
	answer = answer_since(0);
	assert_times(answer, START_S + 1, START_S + HISTORY_SECONDS);
	login = find_limit(answer, "login");
	assert_int_equal(json_array_size(json_object_get(login, "allowed")), HISTORY_SECONDS);
	assert_int_equal(sum_of_points(login, "allowed"), 2);
	json_decref(answer);
	pass_seconds(1);
	answer = answer_since(0);
	assert_null(find_limit(answer, "login"));
	json_decref(answer);
}

/* The thread that counts may be busy with a reload or with writing a file. */
static void a_late_count_is_divided_among_its_seconds(void **state)
{
	json_t *answer;

	(void)state;
	pass_seconds(1);
	allow("login", 11);
	pass_seconds(4);
	answer = answer_since(0);
	assert_times(answer, START_S, START_S + 4);
	assert_last(find_limit(answer, "login"), "allowed", "2 3 3 3 ");
	json_decref(answer);
	allow("login", 7200);
	pass_seconds(3 * HISTORY_SECONDS);
	answer = answer_since(0);
	assert_times(answer, START_S + 2 * HISTORY_SECONDS + 5, START_S + 3 * HISTORY_SECONDS + 4);
	assert_int_equal(sum_of_points(find_limit(answer, "login"), "allowed"), 7200);
	json_decref(answer);
}

/* Points stay one second apart, whatever the wall clock says. */
static void a_clock_that_is_set_moves_all_points(void **state)
{
	static const int64_t steps_s[] = {-5000, 5000};
	json_t *answer;

	(void)state;
	allow("login", 1);
	pass_seconds(1);
	for (size_t i = 0; i < 2; i++) {
		world.now.wall_ns += (uint64_t)(steps_s[i] * (int64_t)NS_PER_S);
		history_count(world.history, world.now); /* less than a second later */
		allow("login", 2 + i);
		pass_seconds(1);
	}
	answer = answer_since(0);
	assert_times(answer, START_S, START_S + 2);
	assert_last(find_limit(answer, "login"), "allowed", "1 2 3 ");
	json_decref(answer);
}

static void calls_within_a_second_add_no_point(void **state)
{
	json_t *answer;

	(void)state;
	allow("login", 1);
	for (int i = 0; i < 10; i++) {
		world.now.wall_ns += NS_PER_S / 10;
		world.now.monotonic_ns += NS_PER_S / 10;
		history_count(world.history, world.now);
	}
	answer = answer_since(0);
	assert_times(answer, START_S, START_S);
	assert_last(find_limit(answer, "login"), "allowed", "1 ");
	json_decref(answer);
	assert_int_equal(history_due_ns(world.now.wall_ns), 666666667);
}

static const char *name_of_limit(size_t number)
{
	static char name[20];

	snprintf(name, sizeof name, "limit%zu", number);
	return name;
}

static void the_busiest_limits_have_points_of_their_own(void **state)
{
	json_t *answer, *limit;

	(void)state;
	for (size_t i = 0; i < HISTORY_LIMITS + 6; i++)
		allow(name_of_limit(i), 100);
	pass_seconds(1);
	answer = answer_since(0);
	assert_int_equal(json_array_size(json_object_get(answer, "limits")), HISTORY_LIMITS);
	assert_last(json_object_get(answer, "others"), "allowed", "600 ");
	json_decref(answer);

	for (size_t i = 0; i < HISTORY_LIMITS + 6; i++) { /* one is busier than the others */
		bool is_new = i % 2 == 0;

		allow("busier", is_new ? 1000 : 500);
		count_decisions(name_of_limit(0), false, WEIR_REASON_OVER_LIMIT, false, 1);
		pass_seconds(1);
	}
	answer = answer_since(0);
	limit = json_array_get(json_object_get(answer, "limits"), 0); /* the busiest comes first */
	assert_string_equal(json_string_value(json_object_get(limit, "limit")), "busier");
	assert_int_equal(json_array_size(json_object_get(answer, "limits")), HISTORY_LIMITS);
	json_decref(answer);
}

/* The sum of all limits is right, whichever of them have points of their own. */
static void a_limit_that_loses_its_points_is_among_the_others(void **state)
{
	json_t *answer, *busy;

	(void)state;
	for (size_t i = 0; i < HISTORY_LIMITS; i++)
		allow(name_of_limit(i), 100 + i);
	pass_seconds(1);
	count_decisions("busy", false, WEIR_REASON_OVER_LIMIT, false, 110);
	pass_seconds(1);
	count_decisions("busy", false, WEIR_REASON_OVER_LIMIT, false, 100); /* now it is */
	pass_seconds(1);
	answer = answer_since(0);
	assert_null(find_limit(answer, name_of_limit(0)));
	busy = find_limit(answer, "busy");
	assert_last(busy, "denied", "100 ");
	assert_int_equal(json_integer_value(json_object_get(busy, "since")), START_S + 2);
	assert_null(json_object_get(find_limit(answer, name_of_limit(1)), "since"));
	assert_last(json_object_get(answer, "others"), "allowed", "100 0 0 ");
	assert_last(json_object_get(answer, "others"), "denied", "110 0 ");
	json_decref(answer);
}

static void limits_that_are_equally_busy_keep_their_points(void **state)
{
	json_t *before, *after;

	(void)state;
	for (size_t i = 0; i < HISTORY_LIMITS; i++)
		allow(name_of_limit(i), 100);
	pass_seconds(1);
	before = answer_since(0);
	for (size_t second = 0; second < 300; second++) {
		for (size_t i = 0; i < 2 * HISTORY_LIMITS; i++)
			allow(name_of_limit(i), 100);
		pass_seconds(1);
	}
	after = answer_since(0);
	for (size_t i = 0; i < HISTORY_LIMITS; i++) {
		assert_non_null(find_limit(before, name_of_limit(i)));
		assert_int_equal(sum_of_points(find_limit(after, name_of_limit(i)), "allowed"), 30100);
	}
	json_decref(before);
	json_decref(after);
}

static void the_longest_answer_is_bounded(void **state)
{
	static const enum weir_reason reasons[] = {WEIR_REASON_OVER_LIMIT, WEIR_REASON_SHED,
	                                           WEIR_REASON_BREAKER_OPEN, WEIR_REASON_NO_ROOM};
	char name[65];
	json_t *answer;

	(void)state;
	for (size_t i = 0; i < HISTORY_LIMITS + 1; i++) {
		memset(name, '\1', 64);
		snprintf(name, 4, "%zu", i);
		name[3] = name[64] = '\0';
		memset(name + strlen(name), '\1', 64 - strlen(name));
		allow(name, UINT64_C(3600) * UINT32_MAX);
		for (size_t reason = 0; reason < 4; reason++)
			count_decisions(name, false, reasons[reason], false, UINT64_C(3600) * UINT32_MAX);
		count_decisions(name, true, WEIR_REASON_SHED, false, UINT64_C(3600) * UINT32_MAX);
	}
	pass_seconds(HISTORY_SECONDS);
	answer = answer_since(0); /* it checks the length */
	assert_int_equal(sum_of_points(json_object_get(answer, "others"), "shadow"),
	                 UINT64_C(3600) * HISTORY_POINT_MAX);
	json_decref(answer);
}

int main(void)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
	const struct CMUnitTest tests[] = {
	    IN_WORLD(a_history_begins_without_points),
	    IN_WORLD(each_second_has_a_point_of_each_result),
	    IN_WORLD(an_answer_has_only_what_is_newer_and_not_zero),
	    IN_WORLD(an_hour_is_kept),
	    IN_WORLD(a_late_count_is_divided_among_its_seconds),
	    IN_WORLD(a_clock_that_is_set_moves_all_points),
	    IN_WORLD(calls_within_a_second_add_no_point),
	    IN_WORLD(the_busiest_limits_have_points_of_their_own),
	    IN_WORLD(a_limit_that_loses_its_points_is_among_the_others),
	    IN_WORLD(limits_that_are_equally_busy_keep_their_points),
	    IN_WORLD(the_longest_answer_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
