/* The limits that charge a request, all or nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weir/engine.h>

#include "config.h"
#include "engine/engine.h"

#define NOW UINT64_C(1700000000000000000)
#define VALUES(...)                                                                                \
	(const struct rules_value[]){__VA_ARGS__},                                                     \
	    sizeof((const struct rules_value[]){__VA_ARGS__}) / sizeof(struct rules_value)

struct fixture {
	weir_table *table;
	weir_engine *engine;
};

static struct fixture setup(const struct weir_config *config)
{
	struct fixture f;
	struct weir_error error = {0};

	assert_int_equal(weir_table_open(NULL, &f.table, &error), 0);
	assert_int_equal(weir_engine_open(config, f.table, &f.engine, &error), 0);
	return f;
}

static void teardown(struct fixture *f)
{
	weir_engine_close(f->engine);
	weir_table_close(f->table);
}

static struct weir_decision check(struct fixture *f, const char *path, const char *ip,
                                  const char *user, uint64_t cost)
{
	struct weir_attribute attributes[3];
	struct weir_decision d = {0};
	size_t n = 0;

	if (path)
		attributes[n++] = (struct weir_attribute){"path", path, strlen(path)};
	if (ip)
		attributes[n++] = (struct weir_attribute){"ip", ip, strlen(ip)};
	if (user)
		attributes[n++] = (struct weir_attribute){"user", user, strlen(user)};
	assert_int_equal(weir_engine_acquire(f->engine, attributes, n, cost, NOW, &d), WEIR_OK);
	return d;
}

static uint64_t remaining(struct fixture *f, const char *limit, const char *key)
{
	struct weir_decision d;

	assert_int_equal(weir_peek(f->table, weir_engine_limit(f->engine, limit, strlen(limit)),
	                           (struct weir_key){key, strlen(key)}, 1, NOW, &d),
	                 0);
	return d.remaining;
}

static const struct rules_limit limits[] = {
    {.options = {.name = "small", .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "large", .rate = {10, 1, WEIR_UNIT_HOUR}}},
};
static const char *const by_ip[] = {"ip"};
static const char *const by_user[] = {"user"};
static const char *const by_both[] = {"ip", "user"};
static const size_t small[] = {0}, large[] = {1}, both[] = {1, 0};

static void test_no_rule_no_limit(void **context)
{
	const struct weir_config config = {.limit_count = 0};
	struct fixture f = setup(&config);
	struct weir_decision d = check(&f, "/", "1.1.1.1", NULL, 1);

	(void)context;
	assert_true(d.allowed);
	assert_int_equal(d.reason, WEIR_REASON_OK);
	assert_null(d.limit);
	teardown(&f);
}

/* "two limits where one denies": the other keeps what it had. */
static void test_a_denied_request_consumes_from_no_limit(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_ip, .key_count = 1, .limits = both, .limit_count = 2}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);
	struct weir_decision d;

	(void)context;
	for (int i = 0; i < 3; i++) {
		d = check(&f, "/", "1.1.1.1", NULL, 1);
		assert_true(d.allowed);
		assert_string_equal(d.limit, "small"); /* the tightest */
		assert_int_equal(d.remaining, 2 - i);
	}
	for (int i = 0; i < 20; i++) {
		d = check(&f, "/", "1.1.1.1", NULL, 1);
		assert_false(d.allowed);
		assert_string_equal(d.limit, "small");
		assert_string_equal(d.rule, "r");
	}
	assert_int_equal(remaining(&f, "large", "1.1.1.1"), 7);
	assert_int_equal(remaining(&f, "small", "1.1.1.1"), 0);
	teardown(&f);
}

static void test_a_request_waits_for_the_slowest_of_its_limits(void **context)
{
	const struct rules_limit paced[] = {{.options = {.name = "slow",
	                                                 .algorithm = WEIR_ALGORITHM_PACER,
	                                                 .rate = {10},
	                                                 .slack = WEIR_ZERO}},
	                                    {.options = {.name = "fast",
	                                                 .algorithm = WEIR_ALGORITHM_PACER,
	                                                 .rate = {100},
	                                                 .slack = WEIR_ZERO}},
	                                    {.options = {.name = "tight", .rate = {3}}}};
	static const size_t all[] = {0, 1, 2};
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_ip, .key_count = 1, .limits = all, .limit_count = 3}};
	const struct weir_config config = {LIMITS_OF(paced), RULES_OF(rules)};
	struct fixture f = setup(&config);
	struct weir_decision d;

	(void)context;
	for (uint64_t i = 0; i < 3; i++) {
		d = check(&f, "/", "1.1.1.1", NULL, 1);
		assert_string_equal(d.limit, "tight");
		assert_true(d.paced);
		assert_int_equal(d.wait_ns, i * UINT64_C(100000000));
	}
	d = check(&f, "/", "1.1.1.1", NULL, 1);
	assert_false(d.allowed);
	assert_int_equal(d.wait_ns, 0);
	teardown(&f);
}

/* Two rules draw on one count: both see one left, the second finds it taken by the first. */
static void test_what_was_taken_is_given_back_when_a_later_limit_refuses(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "first", .key = by_ip, .key_count = 1, .limits = both, .limit_count = 2},
	    {.name = "second", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	assert_true(check(&f, NULL, "1.1.1.1", NULL, 1).allowed);
	for (int i = 0; i < 5; i++)
		assert_string_equal(check(&f, NULL, "1.1.1.1", NULL, 1).rule, "second");
	assert_int_equal(remaining(&f, "small", "1.1.1.1"), 1);
	assert_int_equal(remaining(&f, "large", "1.1.1.1"), 9);
	teardown(&f);
}

static void test_every_rule_that_applies_counts(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "ip", .key = by_ip, .key_count = 1, .limits = large, .limit_count = 1},
	    {.name = "user", .key = by_user, .key_count = 1, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	for (int i = 0; i < 3; i++)
		assert_true(check(&f, NULL, "1.1.1.1", "ada", 1).allowed);
	assert_string_equal(check(&f, NULL, "1.1.1.1", "ada", 1).rule, "user");
	for (int i = 0; i < 3; i++)
		assert_true(check(&f, NULL, "1.1.1.1", "bob", 1).allowed);
	assert_int_equal(remaining(&f, "large", "1.1.1.1"), 4);
	teardown(&f);
}

static void test_shadow_rules_consume_on_their_own_and_never_deny(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "tried", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1,
	     .mode = RULES_SHADOW},
	    {.name = "real", .key = by_ip, .key_count = 1, .limits = large, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	for (int i = 0; i < 10; i++) {
		struct weir_decision d = check(&f, NULL, "1.1.1.1", NULL, 1);

		assert_true(d.allowed);
		assert_string_equal(d.limit, "large");
	}
	assert_int_equal(remaining(&f, "small", "1.1.1.1"), 0);
	assert_string_equal(check(&f, NULL, "1.1.1.1", NULL, 1).rule, "real");
	teardown(&f);
}

static const struct rules_limit of_all_kinds[] = {
    {.options = {.name = "token_bucket", .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "in_parts", .rate = {7, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "level",
                 .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "calendar",
                 .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "window",
                 .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "slots",
                 .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "log",
                 .algorithm = WEIR_ALGORITHM_SLIDING_LOG,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "counter",
                 .algorithm = WEIR_ALGORITHM_SLIDING_COUNTER,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "base",
                 .algorithm = WEIR_ALGORITHM_BASE,
                 .base = 2,
                 .rate = {2, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "queue",
                 .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "pacer",
                 .algorithm = WEIR_ALGORITHM_PACER,
                 .rate = {3, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "places", .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 3}},
    {.options = {.name = "random", .algorithm = WEIR_ALGORITHM_RANDOM}},
};

#define KINDS (sizeof of_all_kinds / sizeof *of_all_kinds)

/* Steps as an observer was told of them. */
struct told {
	size_t shadow, denied;
};

static void tell(void *context, const struct plan *plan, const struct plan_step *step)
{
	struct told *told = context;

	(void)plan;
	told->shadow += step->shadow;
	told->denied +=
	    !step->allowed && step->reason == WEIR_REASON_OVER_LIMIT && step->charge_ends_ns == 0;
}

static void ask_at_cost(struct fixture *f, uint64_t cost, struct told *told)
{
	const struct weir_attribute ip = {"ip", "1.1.1.1", 7};
	const struct decision_context context = {f->table, moment_given(NOW), tell, told};
	struct plan plan;
	struct weir_decision d, each[KINDS];
	struct arena arena = {0};

	assert_int_equal(engine_prepare_rules(f->engine, &(struct algo_call){ALGO_ACQUIRE, cost},
	                                      &(struct engine_attributes){&ip, 1, WEIR_KEY_MAX}, &arena,
	                                      &plan),
	                 WEIR_OK);
	assert_int_equal(engine_want_permit(&plan), WEIR_OK);
	plan.step_decisions = each;
	engine_decide(&context, &plan, &d);
	assert_true(d.allowed);
	for (size_t i = 0; i < KINDS; i++)
		assert_true(each[i].allowed ? each[i].retry_after_ns == 0 : each[i].retry_after_ns > 0);
	arena_free(&arena);
}

/* "a cost of 2^64 - 1 on a shadow rule": it never returned, or took counts that others share */
static void test_a_cost_that_a_shadow_limit_never_grants_is_denied_and_takes_nothing(void **context)
{
	static const size_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	const struct rules_rule rules[] = {{.name = "tried",
	                                    .key = by_ip,
	                                    .key_count = 1,
	                                    .limits = all,
	                                    .limit_count = KINDS,
	                                    .mode = RULES_SHADOW}};
	const struct weir_config config = {LIMITS_OF(of_all_kinds), RULES_OF(rules)};
	const uint64_t bad[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, UINT64_C(1) << 54};
	struct fixture f = setup(&config);
	struct told told = {0};
	uint64_t left[KINDS];

	(void)context;
	ask_at_cost(&f, 1, &told);
	assert_int_equal(told.shadow, KINDS);
	assert_int_equal(told.denied, 0);
	for (size_t i = 0; i < KINDS; i++)
		left[i] = remaining(&f, of_all_kinds[i].options.name, "1.1.1.1");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		told = (struct told){0};
		ask_at_cost(&f, bad[i], &told);
		assert_int_equal(told.shadow, KINDS);
		assert_int_equal(told.denied, KINDS);
		for (size_t j = 0; j < KINDS; j++)
			assert_int_equal(remaining(&f, of_all_kinds[j].options.name, "1.1.1.1"), left[j]);
	}
	teardown(&f);
}

static void test_a_rule_that_answers_wins_over_limits(void **context)
{
	const struct rules_condition listed[] = {{"ip", VALUES(range("10.0.0.0/8"))}};
	const struct rules_condition staff[] = {{"user", VALUES(equal("root"))}};
	const struct rules_rule rules[] = {
	    {.name = "limit", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1},
	    {.name = "staff", .conditions = staff, .condition_count = 1, .answer = RULES_ALLOW},
	    {.name = "list", .conditions = listed, .condition_count = 1, .answer = RULES_DENY,
	     .result = "{\"code\":7}"}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);
	struct weir_decision d = check(&f, NULL, "10.2.3.4", NULL, 1);

	(void)context;
	assert_false(d.allowed);
	assert_int_equal(d.reason, WEIR_REASON_LISTED);
	assert_string_equal(d.rule, "list");
	assert_string_equal(d.result, "{\"code\":7}");
	assert_int_equal(d.retry_after_ns, 1000000000); /* no limit says better */
	d = check(&f, NULL, "10.2.3.4", "root", 1); /* the first such rule */
	assert_true(d.allowed);
	assert_int_equal(d.retry_after_ns, 0);
	assert_string_equal(d.rule, "staff");
	assert_int_equal(remaining(&f, "small", "10.2.3.4"), 3);
	teardown(&f);
}

/* "keys joined so that `a|b`,`c` and `a`,`b|c` share a count" */
static void test_keys_of_several_attributes_never_run_together(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_both, .key_count = 2, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	for (int i = 0; i < 3; i++)
		assert_true(check(&f, NULL, "a|b", "c", 1).allowed);
	assert_false(check(&f, NULL, "a|b", "c", 1).allowed);
	assert_true(check(&f, NULL, "a", "b|c", 1).allowed);
	assert_true(check(&f, NULL, "a|bc", "", 1).allowed);
	assert_int_equal(remaining(&f, "small", "3:a|b1:c"), 0); /* shared with direct calls */
	teardown(&f);
}

static void test_an_absent_key_attribute_is_an_empty_value(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_user, .key_count = 1, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	for (int i = 0; i < 3; i++)
		assert_true(check(&f, NULL, "1.1.1.1", NULL, 1).allowed);
	assert_false(check(&f, NULL, "1.1.1.2", NULL, 1).allowed);
	assert_int_equal(remaining(&f, "small", ""), 0);
	teardown(&f);
}

/* All addresses that one customer can rotate through meet one count, and touch nobody else's. */
static void test_an_ipv6_address_counts_by_its_network(void **context)
{
	static const char wide[] = "2001:db8:1:2::/64";
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	assert_true(check(&f, NULL, "2001:db8:1:2::1", NULL, 1).allowed);
	assert_true(check(&f, NULL, "2001:DB8:1:2:0:0:0:1", NULL, 1).allowed);
	assert_true(check(&f, NULL, "2001:db8:1:2:ffff:ffff:ffff:ffff", NULL, 1).allowed);
	assert_false(check(&f, NULL, "2001:db8:1:2:3::", NULL, 1).allowed);
	assert_int_equal(remaining(&f, "small", wide), 0); /* shared with direct calls */
	assert_true(check(&f, NULL, "2001:db8:1:3::1", NULL, 1).allowed);

	assert_true(check(&f, NULL, "192.0.2.1", NULL, 1).allowed);
	assert_true(check(&f, NULL, "::ffff:192.0.2.1", NULL, 1).allowed);
	assert_int_equal(remaining(&f, "small", "192.0.2.1"), 1);
	assert_true(check(&f, NULL, "10:00", NULL, 1).allowed); /* no address */
	assert_int_equal(remaining(&f, "small", "10:00"), 2);
	teardown(&f);
}

static void test_the_prefix_is_the_rules_or_the_configs_and_128_is_the_address(void **context)
{
	const struct rules_condition of_x[] = {{"user", VALUES(equal("x"))}};
	const struct rules_rule rules[] = {
	    {.name = "files", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1},
	    {.name = "own", .key = by_ip, .key_count = 1, .limits = large, .limit_count = 1,
	     .ipv6_prefix = 128},
	    {.name = "two", .key = by_both, .key_count = 2, .limits = large, .limit_count = 1,
	     .conditions = of_x, .condition_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules), .ipv6_prefix = 20};
	struct fixture f = setup(&config);

	(void)context;
	check(&f, NULL, "1::", "x", 1);
	check(&f, NULL, "1:0:0::2", "y", 1);
	assert_int_equal(remaining(&f, "small", "1::/20"), 1);
	assert_int_equal(remaining(&f, "large", "1::"), 9);
	assert_int_equal(remaining(&f, "large", "1::2"), 9);
	assert_int_equal(remaining(&f, "large", "6:1::/201:x"), 9);
	teardown(&f);
}

static void test_variants_of_a_path_are_one_path_where_a_rule_says_so(void **context)
{
	static const char *const variants[] = {"/Login", "/login/", "/LOGIN;x", "//a/..;/login"};
	static const char *const by_path[] = {"path"};
	const struct rules_condition login[] = {{"path", VALUES(equal("/Login/"))}};
	const struct rules_rule rules[] = {
	    {.name = "exactly", .conditions = login, .condition_count = 1, .key = by_path,
	     .key_count = 1, .limits = large, .limit_count = 1, .path_variants = RULES_NO},
	    {.name = "all", .conditions = login, .condition_count = 1, .key = by_path, .key_count = 1,
	     .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules),
	                                   .path_variants = RULES_YES};
	struct fixture f = setup(&config);
	struct weir_decision d;

	(void)context;
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
		assert_int_equal(check(&f, variants[i], NULL, NULL, 1).allowed, i < 3);
	d = check(&f, "/Login/", NULL, NULL, 1);
	assert_false(d.allowed);
	assert_string_equal(d.rule, "all");
	assert_true(check(&f, "/login.html", NULL, NULL, 1).allowed);
	assert_int_equal(remaining(&f, "small", "/login"), 0);
	assert_int_equal(remaining(&f, "large", "/Login/"), 10); /* denied together with the other */
	assert_int_equal(remaining(&f, "large", "/Login"), 10);
	teardown(&f);
}

static void test_other_attributes_are_no_addresses(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_user, .key_count = 1, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);

	(void)context;
	check(&f, NULL, "::1", "2001:db8::1", 1);
	assert_int_equal(remaining(&f, "small", "2001:db8::1"), 2);
	teardown(&f);
}

static void test_a_cost_that_can_never_pass_is_an_error(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_ip, .key_count = 1, .limits = both, .limit_count = 2}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);
	struct weir_attribute ip = {"ip", "1.1.1.1", 7};
	struct weir_decision d;

	(void)context;
	assert_int_equal(weir_engine_acquire(f.engine, &ip, 1, 4, NOW, &d), WEIR_ECOST);
	assert_int_equal(weir_engine_acquire(f.engine, &ip, 1, 3, NOW, &d), WEIR_OK);
	assert_true(d.allowed);
	teardown(&f);
}

static void test_too_long_keys_and_too_many_attributes_are_errors(void **context)
{
	const struct rules_rule rules[] = {
	    {.name = "r", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};
	struct fixture f = setup(&config);
	struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX + 1];
	struct weir_decision d;
	char key[WEIR_KEY_MAX + 1];

	(void)context;
	memset(key, 'x', sizeof key);
	attributes[0] = (struct weir_attribute){"ip", key, WEIR_KEY_MAX};
	assert_int_equal(weir_engine_acquire(f.engine, attributes, 1, 1, NOW, &d), WEIR_OK);
	attributes[0].value_len++;
	assert_int_equal(weir_engine_acquire(f.engine, attributes, 1, 1, NOW, &d), WEIR_ELONG);
	for (size_t i = 0; i <= WEIR_ATTRIBUTES_MAX; i++)
		attributes[i] = (struct weir_attribute){"other", "v", 1};
	assert_int_equal(weir_engine_acquire(f.engine, attributes, WEIR_ATTRIBUTES_MAX, 1, NOW, &d),
	                 WEIR_OK);
	assert_int_equal(weir_engine_acquire(f.engine, attributes, WEIR_ATTRIBUTES_MAX + 1, 1, NOW, &d),
	                 WEIR_ELONG);
	teardown(&f);
}

static void test_limits_are_found_by_name_among_many(void **context)
{
	enum { MANY = 1000 };
	static struct rules_limit many[MANY];
	static char names[MANY][8];
	struct weir_config config = {.limits = many, .limit_count = MANY};
	struct fixture f;

	(void)context;
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "l%d", i);
		many[i].options = (struct weir_limit_options){.name = names[i], .rate = {1}};
	}
	f = setup(&config);
	for (int i = 0; i < MANY; i++) {
		const struct weir_limit *limit = weir_engine_limit(f.engine, names[i], strlen(names[i]));

		assert_string_equal(weir_limit_name(limit), names[i]);
		assert_ptr_equal(engine_find_limit(f.engine, limit->algo.identity), limit);
		assert_null(engine_find_limit(f.engine, ~limit->algo.identity));
	}
	assert_null(weir_engine_limit(f.engine, "l1000", 5));
	assert_null(weir_engine_limit(f.engine, "l", 1));
	assert_null(weir_engine_limit(f.engine, "", 0));
	assert_non_null(weir_engine_limit(f.engine, "l12345", 3)); /* as long as told */
	teardown(&f);
}

struct load {
	struct fixture f;
	unsigned allowed;
};

static void *hammer(void *context)
{
	struct load *load = context;
	struct weir_attribute attributes[] = {{"ip", "1.1.1.1", 7}, {"user", "ada", 3}};
	struct weir_decision d;

	for (int i = 0; i < 2000; i++) {
		weir_engine_acquire(load->f.engine, attributes, 2, 1, NOW, &d);
		if (d.allowed)
			__atomic_fetch_add(&load->allowed, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void test_threads_over_two_limits_never_pass_more_than_the_smaller(void **context)
{
	static const struct rules_limit two[] = {
	    {.options = {.name = "a",
	                 .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                 .rate = {700, 1, WEIR_UNIT_HOUR},
	                 .align = WEIR_ALIGN_FIRST_REQUEST}},
	    {.options = {.name = "b", .rate = {500, 1, WEIR_UNIT_HOUR}}}};
	const struct rules_rule rules[] = {
	    {.name = "a", .key = by_ip, .key_count = 1, .limits = small, .limit_count = 1},
	    {.name = "b", .key = by_user, .key_count = 1, .limits = large, .limit_count = 1}};
	const struct weir_config config = {LIMITS_OF(two), RULES_OF(rules)};
	struct load load = {.f = setup(&config)};
	pthread_t threads[4];

	(void)context;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hammer, &load);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(load.allowed, 500);
	assert_int_equal(remaining(&load.f, "a", "1.1.1.1"), 200); /* all that was refused is back */
	assert_int_equal(remaining(&load.f, "b", "ada"), 0);
	teardown(&load.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_no_rule_no_limit),
	    cmocka_unit_test(test_a_denied_request_consumes_from_no_limit),
	    cmocka_unit_test(test_a_request_waits_for_the_slowest_of_its_limits),
	    cmocka_unit_test(test_what_was_taken_is_given_back_when_a_later_limit_refuses),
	    cmocka_unit_test(test_every_rule_that_applies_counts),
	    cmocka_unit_test(test_shadow_rules_consume_on_their_own_and_never_deny),
	    cmocka_unit_test(test_a_cost_that_a_shadow_limit_never_grants_is_denied_and_takes_nothing),
	    cmocka_unit_test(test_a_rule_that_answers_wins_over_limits),
	    cmocka_unit_test(test_keys_of_several_attributes_never_run_together),
	    cmocka_unit_test(test_an_absent_key_attribute_is_an_empty_value),
	    cmocka_unit_test(test_an_ipv6_address_counts_by_its_network),
	    cmocka_unit_test(test_the_prefix_is_the_rules_or_the_configs_and_128_is_the_address),
	    cmocka_unit_test(test_variants_of_a_path_are_one_path_where_a_rule_says_so),
	    cmocka_unit_test(test_other_attributes_are_no_addresses),
	    cmocka_unit_test(test_a_cost_that_can_never_pass_is_an_error),
	    cmocka_unit_test(test_too_long_keys_and_too_many_attributes_are_errors),
	    cmocka_unit_test(test_limits_are_found_by_name_among_many),
	    cmocka_unit_test(test_threads_over_two_limits_never_pass_more_than_the_smaller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
