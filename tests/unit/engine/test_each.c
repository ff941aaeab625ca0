/* Every rule that applies is asked by itself: each step ends as if it was alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weir/engine.h>

#include "config.h"
#include "engine/engine.h"

#define NOW UINT64_C(1700000000000000000)

enum { SMALL, LARGE, LOG };

static const struct rules_limit limits[] = {
    [SMALL] = {.options = {.name = "small",
                           .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
                           .rate = {2, 1, WEIR_UNIT_HOUR}}},
    [LARGE] = {.options = {.name = "large", .rate = {9, 1, WEIR_UNIT_HOUR}}},
    [LOG] = {.options = {.name = "log",
                         .algorithm = WEIR_ALGORITHM_SLIDING_LOG,
                         .rate = {9, 1, WEIR_UNIT_HOUR}}},
};
static const char *const by_user[] = {"user"};
static const size_t small[] = {SMALL}, large[] = {LARGE}, log_only[] = {LOG};
static const struct rules_value seven = {.test = RULES_EQUAL, .text = {"7", 1}};
static const struct rules_condition is_seven = {
    .attribute = "user", .values = &seven, .value_count = 1};

#define OF(limit_) .key = by_user, .key_count = 1, .limits = (limit_), .limit_count = 1

static const struct rules_rule rules[] = {
    {.name = "listed", .conditions = &is_seven, .condition_count = 1, .answer = RULES_DENY},
    {.name = "small", OF(small)},
    {.name = "tried", OF(small), .mode = RULES_SHADOW},
    {.name = "large", OF(large)},
    {.name = "log", OF(log_only), .feedback = {2, 4}},
};
static const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};

struct fixture {
	weir_table *table;
	weir_engine *engine;
	struct arena arena;
	struct plan plan;
	struct weir_decision d;
	size_t told;
	uint64_t now_ns;
};

static void observe(void *context, const struct plan *plan, const struct plan_step *step)
{
	struct fixture *f = context;

	(void)plan;
	(void)step;
	f->told++;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct weir_error error = {0};

	assert_int_equal(weir_table_open(NULL, &f->table, &error), 0);
	assert_int_equal(weir_engine_open(&config, f->table, &f->engine, &error), 0);
	f->now_ns = NOW;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	weir_engine_close(f->engine);
	weir_table_close(f->table);
	arena_free(&f->arena);
	free(f);
	return 0;
}

static void ask(struct fixture *f, struct engine_rule_operation each, const char *user)
{
	const struct weir_attribute attribute = {"user", user, strlen(user)};
	const struct engine_attributes attributes = {&attribute, 1, WEIR_KEY_MAX};
	const struct decision_context context = {
	    .table = f->table, .at = moment_given(f->now_ns), .observe = observe, .owner = f};

	assert_int_equal(
	    engine_prepare_rule_operation(f->engine, &each, &attributes, &f->arena, &f->plan), WEIR_OK);
	assert_int_equal(engine_decide(&context, &f->plan, &f->d), ENGINE_DONE);
}

static uint64_t left(struct fixture *f, size_t limit, const char *user)
{
	struct weir_decision d;

	assert_int_equal(weir_peek(f->table, engine_limit_at(f->engine, limit),
	                           (struct weir_key){user, strlen(user)}, 1, f->now_ns, &d),
	                 0);
	return d.remaining;
}

static void one_that_is_full_stops_no_other(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 5; i++)
		ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	assert_int_equal(left(f, SMALL, "7"), 0);
	assert_int_equal(left(f, LARGE, "7"), 4);
	assert_int_equal(left(f, LOG, "7"), 4);
	assert_false(f->plan.steps[0].allowed);
	assert_true(f->plan.steps[3].allowed);
	assert_int_equal(f->told, 0); /* nothing was decided */
	assert_int_equal(left(f, LARGE, "8"), 9);
}

static void peeks_tell_all_that_would_refuse_and_rules_that_answer_by_themselves(void **state)
{
	struct fixture *f = *state;

	ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	ask(f, (struct engine_rule_operation){.op = ALGO_PEEK}, "7");
	assert_int_equal(f->plan.step_count, 5);
	assert_string_equal(f->plan.steps[0].rule->name, "listed");
	assert_false(f->plan.steps[0].allowed);
	assert_string_equal(f->plan.steps[1].rule->name, "small");
	assert_false(f->plan.steps[1].allowed);
	assert_true(f->plan.steps[3].allowed);
	assert_true(f->plan.steps[4].allowed);
	assert_int_equal(left(f, LARGE, "7"), 7);
	ask(f, (struct engine_rule_operation){.op = ALGO_PEEK}, "8");
	assert_int_equal(f->plan.step_count, 4);
}

/* Small has room for two, of which the shadow rule takes one; the rule that answers by itself
 * denies user 7. */
static void all_rules_together_are_charged_or_none(void **state)
{
	struct fixture *f = *state;
	struct engine_rule_operation together = {.op = ALGO_ACQUIRE, .all_or_none = true};

	for (uint64_t n = 1; n <= 4; n++) {
		bool passes = n == 1;

		ask(f, together, "8");
		assert_int_equal(f->d.allowed, passes);
		assert_int_equal(f->plan.step_count, 4);
		assert_int_equal(f->plan.steps[0].refused, !passes);
		assert_false(f->plan.steps[2].refused || f->plan.steps[3].refused);
		assert_int_equal(left(f, LARGE, "8"), 8);
		assert_int_equal(left(f, LOG, "8"), 8);
	}
	ask(f, together, "7");
	assert_int_equal(f->plan.step_count, 5);
	assert_true(f->plan.steps[0].refused);
	assert_false(f->plan.steps[1].refused || f->plan.steps[3].refused || f->plan.steps[4].refused);
	assert_int_equal(left(f, LARGE, "7"), 9);
	assert_int_equal(left(f, LOG, "7"), 9);
}

static void one_rule_may_be_asked_alone(void **state)
{
	struct fixture *f = *state;

	ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	ask(f, (struct engine_rule_operation){.op = ALGO_PEEK, .only_rule = &rules[3]}, "7");
	assert_int_equal(f->plan.step_count, 1);
	assert_int_equal(f->d.quota - f->d.remaining, 1);
	ask(f, (struct engine_rule_operation){.op = ALGO_PEEK, .only_rule = &rules[0]}, "7");
	assert_int_equal(f->plan.step_count, 0);
	assert_true(f->d.allowed);
}

static void feedback_takes_back_as_much_as_each_rule_says(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 9; i++)
		ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	assert_int_equal(left(f, LOG, "7"), 0);
	ask(f, (struct engine_rule_operation){.op = ALGO_REFUND, .feedback = 1}, "7");
	assert_int_equal(left(f, LOG, "7"), 2);
	ask(f, (struct engine_rule_operation){.op = ALGO_REFUND, .feedback = 2}, "7");
	assert_int_equal(left(f, LOG, "7"), 6);
	ask(f, (struct engine_rule_operation){.op = ALGO_REFUND, .feedback = 2}, "7");
	assert_int_equal(left(f, LOG, "7"), 9); /* there were three */
	ask(f, (struct engine_rule_operation){.op = ALGO_REFUND, .feedback = 2}, "7");
	assert_int_equal(left(f, LOG, "7"), 9);
	assert_int_equal(left(f, SMALL, "7"), 0);
	assert_int_equal(left(f, LARGE, "7"), 0);
}

static void what_a_full_log_is_told_counts_in_the_place_of_the_oldest(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 9; i++)
		ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	f->now_ns = NOW + 60 * NS_PER_S;
	for (int i = 0; i < 4; i++)
		ask(f, (struct engine_rule_operation){.op = ALGO_ACQUIRE}, "7");
	assert_int_equal(left(f, LOG, "7"), 0);
	ask(f, (struct engine_rule_operation){.op = ALGO_REFUND, .feedback = 1}, "7");
	assert_int_equal(left(f, LOG, "7"), 2);
	f->now_ns = NOW + 3600 * NS_PER_S + 1000; /* the first ones are over */
	assert_int_equal(left(f, LOG, "7"), 7);
}

static void rules_are_found_by_name(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < config.rule_count; i++)
		assert_ptr_equal(engine_rule(f->engine, slice_of(rules[i].name)), &rules[i]);
	assert_null(engine_rule(f->engine, SLICE("none")));
	assert_null(engine_rule(f->engine, SLICE("")));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(one_that_is_full_stops_no_other),
	    TEST(peeks_tell_all_that_would_refuse_and_rules_that_answer_by_themselves),
	    TEST(all_rules_together_are_charged_or_none),
	    TEST(one_rule_may_be_asked_alone),
	    TEST(feedback_takes_back_as_much_as_each_rule_says),
	    TEST(what_a_full_log_is_told_counts_in_the_place_of_the_oldest),
	    TEST(rules_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
