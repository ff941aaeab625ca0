/*
 * Rules whose order decides: random ones, with limits here and at a store that completes steps at
 * once or later, beside a plain count of the units that each limit has left.
 */
#include <stdio.h>

#include "servers.h"

#define RULE_MAX 6

static const size_t counted[] = {HERE, BUCKET, WINDOW, OPEN};
static const uint64_t quotas[LIMITS] = {[HERE] = 4, [BUCKET] = 7, [WINDOW] = 5, [OPEN] = 6};

/* When a limit that is used up at NOW grants a unit again. */
static const uint64_t retries_ns[LIMITS] = {[HERE] = 900 * NS_PER_S,
                                            [BUCKET] = 400 * NS_PER_S,
                                            [WINDOW] = 3600 * NS_PER_S,
                                            [OPEN] = 600 * NS_PER_S};

struct scene {
	struct server s;
	struct rules_rule rules[RULE_MAX];
	size_t limits[RULE_MAX]; /* of each rule one, no two the same */
	uint64_t left[LIMITS];
};

static const char *const names[RULE_MAX] = {"0", "1", "2", "3", "4", "5"};

/* Opens a scene of these rules alone. */
static void open_scene(struct scene *scene, size_t rule_count)
{
	struct store *stores[LIMITS] = {0};
	struct server *s = &scene->s;

	open_redis();
	open_server(s, 1);
	weir_engine_close(s->engine);
	for (size_t i = 0; i < rule_count; i++)
		scene->rules[i].name = names[i];
	s->config.rules = scene->rules;
	s->config.rule_count = rule_count;
	s->config.order = RULES_FIRST;
	stores[HERE] = s->table->store;
	assert_int_equal(engine_open(&s->config, s->table, stores, &s->engine, NULL), WEIR_OK);
	memcpy(scene->left, quotas, sizeof quotas);
}

static void close_scene(struct scene *scene)
{
	close_server(&scene->s);
	close_redis();
}

static struct rules_rule rule_of(const size_t *limit, enum rules_answer answer)
{
	return (struct rules_rule){.key = by_user,
	                           .key_count = 1,
	                           .limits = limit,
	                           .limit_count = limit != NULL,
	                           .answer = answer};
}

static enum engine_state ask_rules(struct scene *scene, struct algo_call call)
{
	const struct weir_attribute attribute = {"user", "u", 1};
	struct server *s = &scene->s;

	assert_int_equal(engine_prepare_rules(s->engine, &call,
	                                      &(struct engine_attributes){&attribute, 1, 99}, &s->arena,
	                                      &s->plan),
	                 WEIR_OK);
	return engine_run(&s->context, &s->plan, &s->d);
}

static void decide(struct scene *scene, enum algo_op op)
{
	enum engine_state state = ask_rules(scene, (struct algo_call){op, 1});

	while (state == ENGINE_SUBMITTED) {
		scene->s.is_ready = false;
		do_waiting();
		assert_true(scene->s.is_ready);
		state = engine_resume(&scene->s.context, &scene->s.plan, &scene->s.d);
	}
	assert_int_equal(state, ENGINE_DONE);
}

/* The rule that decides when `passed_ns` have passed and nothing has come since; NULL: none. */
static const struct rules_rule *decides_after(const struct scene *scene, uint64_t passed_ns)
{
	for (size_t i = 0; i < scene->s.config.rule_count; i++) {
		const struct rules_rule *rule = &scene->rules[i];

		if (rule->mode == RULES_ENFORCE &&
		    (rule->limit_count == 0 ||
		     (scene->left[rule->limits[0]] == 0 && retries_ns[rule->limits[0]] > passed_ns)))
			return rule;
	}
	return NULL;
}

/* After how long a denied request would pass, as far as limits deny it. */
static uint64_t expect_retry(const struct scene *scene)
{
	uint64_t passed_ns = 0;
	const struct rules_rule *rule;

	while ((rule = decides_after(scene, passed_ns)) && rule->answer == RULES_BY_LIMITS)
		passed_ns = retries_ns[rule->limits[0]];
	return passed_ns;
}

/* The rule that decides; NULL: none, and all limits are charged by `op`. */
static const struct rules_rule *expect(struct scene *scene, enum algo_op op)
{
	const struct rules_rule *decides = decides_after(scene, 0);

	for (const struct rules_rule *rule = scene->rules;
	     rule < scene->rules + scene->s.config.rule_count && op == ALGO_ACQUIRE; rule++) {
		bool is_shadow = rule->mode == RULES_SHADOW;

		if (rule == decides)
			break; /* the search ends here */
		if (rule->limit_count > 0 && (is_shadow || !decides) && scene->left[rule->limits[0]] > 0)
			scene->left[rule->limits[0]]--;
	}
	return decides;
}

static void random_rules(struct scene *scene)
{
	size_t n = 1 + (size_t)rand() % RULE_MAX, next = 0, at = (size_t)rand() % 4;

	for (size_t i = 0; i < n; i++) {
		scene->limits[i] = counted[(at + next) % 4];
		if (next == 4 || rand() % 6 == 0)
			scene->rules[i] = rule_of(NULL, rand() % 2 ? RULES_ALLOW : RULES_DENY);
		else
			scene->rules[i] = rule_of(&scene->limits[i], rand() % 3 ? RULES_BY_LIMITS : RULES_ALLOW);
		next += scene->rules[i].limit_count;
		scene->rules[i].mode = rand() % 8 == 0 ? RULES_SHADOW : RULES_ENFORCE;
	}
	open_scene(scene, n);
	for (size_t i = 0; i < 4; i++) { /* else only the smallest would ever be used up */
		uint64_t used = rand() % 2 ? quotas[counted[i]] : (uint64_t)rand() % 3;

		ask(&scene->s, counted[i], ALGO_ACQUIRE, used);
		scene->left[counted[i]] -= used;
	}
}

static void the_first_that_refuses_or_answers_decides_wherever_its_limit_is(void **state)
{
	const char *seed_text = getenv("WEIR_TEST_SEED");
	unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : 20261122;

	(void)state;
	printf("WEIR_TEST_SEED=%u\n", seed);
	srand(seed);
	for (int round = 0; round < 2000; round++) {
		struct scene scene = {0};

		random_rules(&scene);
		for (int i = 0; i < 10; i++) {
			enum algo_op op = rand() % 4 ? ALGO_ACQUIRE : ALGO_PEEK;
			uint64_t retry_ns = expect_retry(&scene);
			const struct rules_rule *rule = expect(&scene, op);

			redis.is_slow = rand() % 2;
			decide(&scene, op);
			if (scene.s.d.allowed != (!rule || rule->answer == RULES_ALLOW))
				fail_msg("round %d, request %d", round, i);
			if (rule) {
				assert_string_equal(scene.s.d.rule, rule->name);
				assert_int_equal(scene.s.d.reason, rule->answer != RULES_BY_LIMITS
				                                       ? WEIR_REASON_LISTED
				                                       : WEIR_REASON_OVER_LIMIT);
				if (rule->answer == RULES_BY_LIMITS)
					assert_int_equal(scene.s.d.retry_after_ns, retry_ns);
			}
			for (size_t j = 0; j < 4; j++)
				assert_int_equal(left(&scene.s, limit_at(&scene.s, counted[j])),
				                 scene.left[counted[j]]);
		}
		close_scene(&scene);
	}
}

/* The shadow rule stands below the rule that denies by its limit. */
static void shadow_rules_below_the_deciding_one_are_not_charged(void **state)
{
	static const size_t here = HERE, bucket = BUCKET, open = OPEN;
	struct scene scene = {.rules = {rule_of(&bucket, RULES_BY_LIMITS),
	                                rule_of(&here, RULES_BY_LIMITS),
	                                rule_of(&open, RULES_BY_LIMITS)}};

	(void)state;
	scene.rules[0].mode = scene.rules[2].mode = RULES_SHADOW;
	open_scene(&scene, 3);
	ask(&scene.s, HERE, ALGO_ACQUIRE, 4);
	decide(&scene, ALGO_ACQUIRE);
	assert_false(scene.s.d.allowed);
	assert_int_equal(left(&scene.s, limit_at(&scene.s, BUCKET)), 6);
	assert_int_equal(left(&scene.s, limit_at(&scene.s, OPEN)), 6);
	close_scene(&scene);
}

static enum engine_state decide_cost(struct scene *scene, enum algo_op op, uint64_t cost, int *status)
{
	const struct weir_attribute attribute = {"user", "u", 1};
	struct server *s = &scene->s;
	enum engine_state state;

	*status = engine_prepare_rules(s->engine, &(struct algo_call){op, cost},
	                               &(struct engine_attributes){&attribute, 1, 99}, &s->arena,
	                               &s->plan);
	if (*status != WEIR_OK)
		return ENGINE_DONE;
	state = engine_run(&s->context, &s->plan, &s->d);
	*status = s->plan.status;
	return state;
}

/* "a lower rule's limit that could never grant the cost turns the denial into cost_too_large" */
static void a_cost_too_large_is_an_error_only_where_no_rule_above_decides(void **state)
{
	static const size_t bucket = BUCKET, here = HERE;
	int status;

	(void)state;
	for (int i = 0; i < 8; i++) {
		struct scene scene = {
		    .rules = {rule_of(i & 1 ? &bucket : &here, i & 4 ? RULES_ALLOW : RULES_BY_LIMITS),
		              rule_of(i & 1 ? &here : &bucket, RULES_BY_LIMITS)}};
		enum algo_op op = i & 2 ? ALGO_PEEK : ALGO_ACQUIRE;
		uint64_t quota = quotas[i & 1 ? BUCKET : HERE], dear = quotas[i & 1 ? HERE : BUCKET] + 1;

		open_scene(&scene, 2);
		if (dear <= quota) {
			decide_cost(&scene, op, dear, &status);
			assert_int_equal(status, WEIR_ECOST);
			assert_int_equal(left(&scene.s, limit_at(&scene.s, BUCKET)), 7);
			assert_int_equal(left(&scene.s, limit_at(&scene.s, HERE)), 4);
			ask(&scene.s, BUCKET, ALGO_ACQUIRE, 5);
			decide_cost(&scene, op, dear, &status);
			assert_int_equal(status, WEIR_OK);
			assert_int_equal(scene.s.d.allowed, (i & 4) != 0);
			assert_string_equal(scene.s.d.rule, "0");
			assert_int_equal(left(&scene.s, limit_at(&scene.s, BUCKET)), 2);
		} else {
			decide_cost(&scene, op, dear, &status); /* the first could not grant it either */
			assert_int_equal(status, WEIR_ECOST);
		}
		close_scene(&scene);
	}
}

static void remote_limits_alone_are_asked_once(void **state)
{
	static const size_t bucket = BUCKET, window = WINDOW;
	struct scene scene = {.rules = {rule_of(&bucket, RULES_BY_LIMITS), rule_of(&window, RULES_ALLOW)}};

	(void)state;
	open_scene(&scene, 2);
	decide(&scene, ALGO_ACQUIRE);
	assert_int_equal(redis.chains, 1);
	close_scene(&scene);
}

static void a_rule_that_allows_past_its_limit_does_not_wait(void **state)
{
	static const size_t here = HERE, places = PLACES;
	struct scene scene = {.rules = {rule_of(&here, RULES_ALLOW), rule_of(&places, RULES_BY_LIMITS)}};
	const struct algo_call call = {.op = ALGO_ACQUIRE, .cost = 1, .max_wait_ns = 1000000000};

	(void)state;
	open_scene(&scene, 2);
	assert_int_equal(ask_rules(&scene, call), ENGINE_DONE);
	assert_int_equal(scene.s.d.reason, WEIR_REASON_OK);
	assert_int_equal(ask_rules(&scene, call), ENGINE_WAITS); /* there is one place */
	assert_ptr_equal(scene.s.plan.refused_step->rule, &scene.rules[1]);
	assert_int_equal(
	    engine_deny(&scene.s.context, &scene.s.plan, WEIR_REASON_WAIT_TOO_LONG, &scene.s.d),
	    ENGINE_DONE);
	assert_false(scene.s.d.allowed);
	assert_int_equal(left(&scene.s, limit_at(&scene.s, HERE)), 3);
	ask(&scene.s, HERE, ALGO_ACQUIRE, 3);
	assert_int_equal(ask_rules(&scene, call), ENGINE_DONE);
	assert_true(scene.s.d.allowed);
	assert_int_equal(scene.s.d.reason, WEIR_REASON_LISTED);
	close_scene(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_that_refuses_or_answers_decides_wherever_its_limit_is),
	    cmocka_unit_test(shadow_rules_below_the_deciding_one_are_not_charged),
	    cmocka_unit_test(a_cost_too_large_is_an_error_only_where_no_rule_above_decides),
	    cmocka_unit_test(remote_limits_alone_are_asked_once),
	    cmocka_unit_test(a_rule_that_allows_past_its_limit_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
