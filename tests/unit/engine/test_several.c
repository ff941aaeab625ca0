/*
 * Several limits that charge a request together: random rules, with limits here and at a store that
 * completes steps at once or later, beside a plain count of the units that each limit has left.
 */
#include <stdio.h>

#include "servers.h"

#define RULE_MAX 4
#define STEP_MAX 12

static const size_t counted[] = {HERE, BUCKET, WINDOW, OPEN};
static const uint64_t quotas[LIMITS] = {[HERE] = 4, [BUCKET] = 7, [WINDOW] = 5, [OPEN] = 6};

/* A unit of a bucket comes back after that; all of the window when it ends. */
static const uint64_t intervals_ns[LIMITS] = {[HERE] = 900 * NS_PER_S,
                                              [BUCKET] = 400 * NS_PER_S,
                                              [WINDOW] = 3600 * NS_PER_S,
                                              [OPEN] = 600 * NS_PER_S};

static const char *const names[] = {"0", "1", "2", "3", "4", "5"};

struct scene {
	struct server s;
	struct rules_rule rules[RULE_MAX];
	size_t limits[RULE_MAX][3];
	uint64_t left[LIMITS];
};

/* One charge of a request. */
struct charge {
	const struct rules_rule *rule;
	size_t limit;
	uint64_t units; /* with those before it on the same limit */
};

/* `here`: a bit for each limit that is in memory. */
static void open_scene(struct scene *scene, size_t rule_count, unsigned here)
{
	struct store *stores[LIMITS] = {0};
	struct server *s = &scene->s;

	open_redis();
	open_server(s, 1);
	weir_engine_close(s->engine);
	s->config.rules = scene->rules;
	s->config.rule_count = rule_count;
	for (size_t i = 0; i < LIMITS; i++)
		if (here & 1u << i)
			stores[i] = s->table->store;
	assert_int_equal(engine_open(&s->config, s->table, stores, &s->engine, NULL), WEIR_OK);
	memcpy(scene->left, quotas, sizeof quotas);
}

static void close_scene(struct scene *scene)
{
	close_server(&scene->s);
	close_redis();
}

static void add_rule(struct scene *scene, size_t i)
{
	size_t n = 1 + (size_t)rand() % 3, first = (size_t)rand() % 4;

	for (size_t j = 0; j < n; j++)
		scene->limits[i][j] = counted[(first + j) % 4];
	scene->rules[i] = (struct rules_rule){.name = names[i],
	                                      .result = names[i],
	                                      .key = by_user,
	                                      .key_count = 1,
	                                      .limits = scene->limits[i],
	                                      .limit_count = n,
	                                      .mode = rand() % 6 ? RULES_ENFORCE : RULES_SHADOW};
}

static int prepare_by_rules(struct scene *scene, const struct algo_call *call)
{
	const struct weir_attribute attribute = {"user", "u", 1};
	struct server *s = &scene->s;

	return engine_prepare_rules(s->engine, call, &(struct engine_attributes){&attribute, 1, 99},
	                            &s->arena, &s->plan);
}

static void run_prepared(struct scene *scene)
{
	struct server *s = &scene->s;
	enum engine_state state;

	state = engine_run(&s->context, &s->plan, &s->d);
	while (state == ENGINE_SUBMITTED) {
		s->is_ready = false;
		do_waiting();
		assert_true(s->is_ready);
		state = engine_resume(&s->context, &s->plan, &s->d);
	}
	assert_int_equal(state, ENGINE_DONE);
}

static void run(struct scene *scene, enum algo_op op, uint64_t cost)
{
	assert_int_equal(prepare_by_rules(scene, &(struct algo_call){op, cost}), WEIR_OK);
	run_prepared(scene);
}

/* The charges of the rules in that mode. Returns how many. */
static size_t charges_of(const struct scene *scene, enum rules_mode mode, uint64_t cost,
                         struct charge *charges)
{
	size_t n = 0;

	for (size_t i = 0; i < scene->s.config.rule_count; i++)
		for (size_t j = 0; scene->rules[i].mode == mode && j < scene->rules[i].limit_count; j++) {
			charges[n] = (struct charge){&scene->rules[i], scene->limits[i][j], cost};
			for (size_t k = 0; k < n; k++)
				charges[n].units += charges[k].limit == charges[n].limit ? cost : 0;
			n++;
		}
	return n;
}

static uint64_t retry_of(const struct scene *scene, const struct charge *charge)
{
	uint64_t lacks = charge->units - scene->left[charge->limit];

	return intervals_ns[charge->limit] * (charge->limit == WINDOW ? 1 : lacks);
}

struct expected {
	const struct charge *first; /* that is refused; NULL: none */
	uint64_t retry_ns;          /* the longest */
};

static struct expected expect(const struct scene *scene, const struct charge *charges, size_t n)
{
	struct expected expected = {NULL, 0};

	for (size_t i = 0; i < n; i++) {
		if (charges[i].units <= scene->left[charges[i].limit])
			continue;
		expected.first = expected.first ? expected.first : &charges[i];
		expected.retry_ns = u64_max(expected.retry_ns, retry_of(scene, &charges[i]));
	}
	return expected;
}

static void charge(struct scene *scene, const struct charge *charges, size_t n, uint64_t cost)
{
	for (size_t i = 0; i < n; i++)
		if (scene->left[charges[i].limit] >= cost)
			scene->left[charges[i].limit] -= cost;
}

/* The first charge that does not fit beside the earlier ones even when the key is as new; or NULL.
 */
static const struct charge *never_granted(const struct charge *charges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (charges[i].units > quotas[charges[i].limit])
			return &charges[i];
	return NULL;
}

/* After how long the request would pass, when the shadow rules have charged the counts. */
static uint64_t retry_after(const struct scene *scene, const struct charge *charges, size_t n)
{
	struct expected expected = expect(scene, charges, n);

	return expected.retry_ns;
}

/* Whether it was decided: no limit was asked for more than it could ever grant. */
static bool check_request(struct scene *scene, enum algo_op op, uint64_t cost)
{
	struct charge charges[STEP_MAX], shadows[STEP_MAX];
	size_t n = charges_of(scene, RULES_ENFORCE, cost, charges);
	size_t shadow_count = charges_of(scene, RULES_SHADOW, cost, shadows);
	const struct charge *never = never_granted(charges, n);
	const struct weir_decision *d = &scene->s.d;
	struct expected expected;

	if (never) {
		assert_int_equal(prepare_by_rules(scene, &(struct algo_call){op, cost}), WEIR_ECOST);
		assert_string_equal(scene->s.plan.direct_step.limit->name,
		                    limits[never->limit].options.name);
		assert_int_equal(scene->s.plan.direct_step.total_cost, never->units);
		return false;
	}
	expected = expect(scene, charges, n);
	run(scene, op, cost);
	if (op == ALGO_ACQUIRE && !expected.first)
		charge(scene, charges, n, cost);
	if (op == ALGO_ACQUIRE)
		charge(scene, shadows, shadow_count, cost);
	assert_int_equal(d->allowed, !expected.first);
	if (expected.first) {
		assert_string_equal(d->limit, limits[expected.first->limit].options.name);
		assert_string_equal(d->rule, expected.first->rule->name);
		assert_string_equal(d->result, expected.first->rule->result);
		assert_int_equal(d->retry_after_ns, retry_after(scene, charges, n));
	}
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(left(&scene->s, limit_at(&scene->s, counted[i])), scene->left[counted[i]]);
	return true;
}

/* The retry_after of a denial is when the same request passes, and not a nanosecond earlier. */
static void check_retry(struct scene *scene, uint64_t cost)
{
	uint64_t retry_ns;

	retry_ns = scene->s.d.retry_after_ns;
	if (scene->s.d.allowed)
		return;
	scene->s.context.at = moment_given(NOW + retry_ns);
	run(scene, ALGO_PEEK, cost);
	assert_true(scene->s.d.allowed);
	scene->s.context.at = moment_given(NOW + retry_ns - 1);
	run(scene, ALGO_PEEK, cost);
	assert_false(scene->s.d.allowed);
	scene->s.context.at = moment_given(NOW);
}

static void the_first_that_denies_is_named_with_the_longest_retry(void **state)
{
	const char *seed_text = getenv("WEIR_TEST_SEED");
	unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : 20261123;

	(void)state;
	printf("WEIR_TEST_SEED=%u\n", seed);
	srand(seed);
	for (int round = 0; round < 3000; round++) {
		struct scene scene = {0};
		size_t n = 1 + (size_t)rand() % RULE_MAX;

		for (size_t i = 0; i < n; i++)
			add_rule(&scene, i);
		open_scene(&scene, n, (unsigned)rand());
		for (size_t i = 0; i < 4; i++) {
			uint64_t used = (uint64_t)rand() % (quotas[counted[i]] + 1);

			ask(&scene.s, counted[i], ALGO_ACQUIRE, used);
			scene.left[counted[i]] -= used;
		}
		for (int i = 0; i < 8; i++) {
			uint64_t cost = 1 + (uint64_t)rand() % 3;

			redis.is_slow = rand() % 2;
			if (check_request(&scene, rand() % 3 ? ALGO_ACQUIRE : ALGO_PEEK, cost))
				check_retry(&scene, cost);
		}
		close_scene(&scene);
	}
}

/* A denial costs the store at most one question more, and none if the store has denied. */
static void a_denial_asks_a_store_once(void **state)
{
	static const size_t limits_of[] = {BUCKET, WINDOW, HERE};
	struct scene scene = {
	    .rules = {{.name = "three", .key = by_user, .key_count = 1, LIMITS_OF(limits_of)}}};

	(void)state;
	open_scene(&scene, 1, 1u << HERE);
	ask(&scene.s, HERE, ALGO_ACQUIRE, 4);
	run(&scene, ALGO_ACQUIRE, 1);
	assert_int_equal(redis.chains, 1);
	ask(&scene.s, HERE, ALGO_RESET, 0);
	ask(&scene.s, BUCKET, ALGO_ACQUIRE, 7);
	redis.chains = 0;
	run(&scene, ALGO_ACQUIRE, 1);
	assert_false(scene.s.d.allowed);
	assert_int_equal(redis.chains, 1);
	close_scene(&scene);
}

/* Rules that all charge the first limit. */
static void charge_one_limit(struct rules_rule *all, size_t count)
{
	static const size_t first[] = {0};

	for (size_t i = 0; i < count; i++)
		all[i] = (struct rules_rule){.name = names[i],
		                             .key = by_user,
		                             .key_count = 1,
		                             .limits = first,
		                             .limit_count = 1};
}

/* A server with other limits. */
static void open_own(struct scene *scene, const struct rules_limit *own, size_t limit_count,
                     const struct rules_rule *own_rules, size_t rule_count, bool remote)
{
	struct store *stores[2] = {NULL, NULL};
	struct server *s = &scene->s;

	open_redis();
	open_server(s, 1);
	weir_engine_close(s->engine);
	s->config.limits = own;
	s->config.limit_count = limit_count;
	s->config.rules = own_rules;
	s->config.rule_count = rule_count;
	if (!remote)
		stores[0] = stores[1] = s->table->store;
	assert_int_equal(engine_open(&s->config, s->table, stores, &s->engine, NULL), WEIR_OK);
}

static uint64_t wait_of(struct server *s)
{
	struct weir_decision d;

	assert_int_equal(weir_peek(s->table, limit_at(s, 0), (struct weir_key){"u", 1}, 1, NOW, &d),
	                 WEIR_OK);
	return d.wait_ns;
}

/*
 * "a denied request keeps turns if several rules charge one paced count": the third turn is too
 * late, and of the two before it only the newest can be given back.
 */
static void turns_in_one_count_go_back_newest_first(void **state)
{
	static struct rules_limit paced = {.options = {.name = "paced",
	                                               .algorithm = WEIR_ALGORITHM_PACER,
	                                               .rate = {1, 1, WEIR_UNIT_SECOND},
	                                               .slack = WEIR_ZERO,
	                                               .max_wait_ns = 2500 * NS_PER_MS}};
	struct rules_rule thrice[3];
	struct scene scene = {0};
	struct server *s = &scene.s;

	(void)state;
	charge_one_limit(thrice, 3);
	for (int remote = 0; remote < 2; remote++) {
		open_own(&scene, &paced, 1, thrice, 3, remote);
		if (remote)
			ask(s, 0, ALGO_ACQUIRE, 1);
		else
			assert_int_equal(
			    weir_acquire(s->table, limit_at(s, 0), (struct weir_key){"u", 1}, 1, NOW, &s->d),
			    WEIR_OK);
		for (int i = 0; i < 3; i++) {
			run(&scene, ALGO_ACQUIRE, 1);
			assert_false(s->d.allowed);
			assert_int_equal(s->d.retry_after_ns, 500 * NS_PER_MS);
		}
		if (remote) {
			ask(s, 0, ALGO_PEEK, 1);
			assert_int_equal(s->d.wait_ns, NS_PER_S);
		} else {
			assert_int_equal(wait_of(s), NS_PER_S);
		}
		close_scene(&scene);
	}
}

/*
 * The second charge of a fading count fades with the window before, and the second of a paced one
 * comes behind the first.
 */
static void two_charges_of_one_count_pass_when_the_answer_says(void **state)
{
	static const struct rules_limit all[] = {
	    {.options = {.name = "counter",
	                 .algorithm = WEIR_ALGORITHM_SLIDING_COUNTER,
	                 .rate = {10, 1, WEIR_UNIT_DAY}}},
	    {.options = {.name = "log",
	                 .algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                 .rate = {10, 1, WEIR_UNIT_HOUR}}},
	    {.options = {.name = "slots",
	                 .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
	                 .rate = {10, 1, WEIR_UNIT_HOUR}}},
	    {.options = {.name = "bucket", .rate = {10, 3, WEIR_UNIT_HOUR}}},
	    {.options = {.name = "pacer",
	                 .algorithm = WEIR_ALGORITHM_PACER,
	                 .rate = {10, 1, WEIR_UNIT_HOUR},
	                 .slack = 3,
	                 .max_wait_ns = 3600 * NS_PER_S}},
	    {.options = {.name = "queue",
	                 .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE,
	                 .rate = {10, 1, WEIR_UNIT_HOUR},
	                 .burst = 8}},
	};
	struct rules_rule twice[2];
	struct scene scene = {0};

	(void)state;
	charge_one_limit(twice, 2);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (int remote = 0; remote < 2; remote++) {
			int granted = 0;

			open_own(&scene, &all[i], 1, twice, 2, remote);
			for (run(&scene, ALGO_ACQUIRE, 2); scene.s.d.allowed; run(&scene, ALGO_ACQUIRE, 2))
				granted++;
			assert_in_range(granted, 2, 4);
			check_retry(&scene, 2);
			close_scene(&scene);
		}
}

/* A cost that the caller's wait can't grant, here with its wait in the request. */
static void charges_of_one_paced_count_have_to_fit_into_the_wait(void **state)
{
	static const struct rules_limit paced = {.options = {.name = "paced",
	                                                     .algorithm = WEIR_ALGORITHM_PACER,
	                                                     .rate = {1, 1, WEIR_UNIT_SECOND},
	                                                     .slack = 1}};
	static const struct rules_limit cold = {.options = {.name = "cold",
	                                                    .algorithm = WEIR_ALGORITHM_WARM_UP,
	                                                    .rate = {1, 1, WEIR_UNIT_SECOND}}};
	static const struct {
		const struct rules_limit *limit;
		uint64_t cost, wait_ns;
		int status;
	} cases[] = {
	    {&paced, 1, WEIR_ZERO, WEIR_OK},
	    {&paced, 2, WEIR_ZERO, WEIR_ECOST},
	    {&paced, 2, 2 * NS_PER_S - 1, WEIR_ECOST},
	    {&paced, 2, 2 * NS_PER_S, WEIR_OK},
	    {&paced, 16, 0, WEIR_OK},
	    {&paced, 17, 0, WEIR_ECOST},
	    {&cold, 1, WEIR_ZERO, WEIR_ECOST},
	    {&cold, 3, 3 * NS_PER_S - 1, WEIR_ECOST},
	    {&cold, 3, 9 * NS_PER_S, WEIR_OK},
	};
	struct rules_rule twice[2];
	struct scene scene = {0};

	(void)state;
	charge_one_limit(twice, 2);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int way = 0; way < 4; way++) {
			struct algo_call call = {way & 1 ? ALGO_PEEK : ALGO_ACQUIRE, cases[i].cost,
			                         .max_wait_ns = cases[i].wait_ns};

			open_own(&scene, cases[i].limit, 1, twice, 2, way & 2);
			assert_int_equal(prepare_by_rules(&scene, &call), cases[i].status);
			if (cases[i].status == WEIR_OK) {
				run_prepared(&scene);
				assert_true(scene.s.d.allowed);
			} else {
				assert_string_equal(scene.s.plan.direct_step.limit->name,
				                    cases[i].limit->options.name);
			}
			close_scene(&scene);
		}
}

/*
 * A request counts when it is decided, wherever a paced limit puts its turn: four are granted here
 * with turns up to three minutes later, and one more an hour after the decision.
 */
static void a_log_counts_a_request_when_it_is_decided_and_not_at_its_turn(void **state)
{
	static const struct rules_limit both[] = {{.options = {.name = "log",
	                                                       .algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                                       .rate = {4, 1, WEIR_UNIT_HOUR}}},
	                                          {.options = {.name = "paced",
	                                                       .algorithm = WEIR_ALGORITHM_PACER,
	                                                       .rate = {1, 1, WEIR_UNIT_MINUTE},
	                                                       .slack = WEIR_ZERO,
	                                                       .max_wait_ns = 3600 * NS_PER_S}}};
	static const size_t all[] = {0, 1};
	const struct rules_rule rule = {
	    .name = "r", .key = by_user, .key_count = 1, .limits = all, .limit_count = 2};
	struct scene scene = {0};

	(void)state;
	for (int remote = 0; remote < 2; remote++) {
		open_own(&scene, both, 2, &rule, 1, remote);
		run(&scene, ALGO_ACQUIRE, 4);
		assert_true(scene.s.d.allowed);
		assert_int_equal(scene.s.d.wait_ns, 180 * NS_PER_S);
		run(&scene, ALGO_ACQUIRE, 1);
		assert_false(scene.s.d.allowed);
		assert_int_equal(scene.s.d.retry_after_ns, 3600 * NS_PER_S);
		check_retry(&scene, 1);
		close_scene(&scene);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_that_denies_is_named_with_the_longest_retry),
	    cmocka_unit_test(a_denial_asks_a_store_once),
	    cmocka_unit_test(turns_in_one_count_go_back_newest_first),
	    cmocka_unit_test(two_charges_of_one_count_pass_when_the_answer_says),
	    cmocka_unit_test(charges_of_one_paced_count_have_to_fit_into_the_wait),
	    cmocka_unit_test(a_log_counts_a_request_when_it_is_decided_and_not_at_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
