/* Denials that are repeated without asking Redis: the table, and its use by a client. */
#include <pthread.h>

#include "scene.h"

#include "redis/cache/denial_cache.h"

#define NOW UINT64_C(1700000000000000000)

static void init(struct algo_limit *limit, const struct weir_limit_options *options, uint64_t id)
{
	algo_limit_free(limit);
	assert_int_equal(algo_limit_init(limit, options, NULL), WEIR_OK);
	limit->identity = id;
}

/* Ten a second, five at once. */
static struct scene *begin(void)
{
	struct scene *s = calloc(1, sizeof *s);

	s->server = server_start(NULL);
	open_store(s, "", (struct redis_options){.denied_cache_ns = NS_PER_S, .given_time = true});
	init(&s->limit, &(struct weir_limit_options){.rate = {10, 1, WEIR_UNIT_SECOND}, .burst = 5}, 1);
	s->now_ns = NOW;
	return s;
}

static uint64_t known(const struct scene *s)
{
	return stats_of(s).denied;
}

static void a_denied_key_is_not_asked_for_until_it_may_pass(void **state)
{
	struct scene *s = begin();
	struct algo_decision first, out;
	uint64_t steps;

	(void)state;
	assert_true(acquire(s, 5).allowed);
	first = acquire(s, 1);
	assert_false(first.allowed);
	assert_int_equal(first.retry_after_ns, 100 * NS_PER_MS);
	assert_int_equal(known(s), 0);
	steps = stats_of(s).steps;
	for (uint64_t i = 0; i < 100; i++) {
		s->now_ns = NOW + i * NS_PER_MS;
		out = acquire(s, i % 2); /* a question that takes nothing is denied alike */
		assert_false(out.allowed);
		assert_int_equal(out.reason, WEIR_REASON_OVER_LIMIT);
		assert_int_equal(out.remaining, 0);
		assert_int_equal(out.retry_after_ns, (100 - i) * NS_PER_MS);
		assert_int_equal(out.reset_after_ns, (500 - i) * NS_PER_MS);
		assert_false(ask_op(s, ALGO_PEEK, 1).outcome.allowed);
	}
	assert_int_equal(known(s), 200);
	assert_int_equal(stats_of(s).steps, steps);
	s->now_ns = NOW + 100 * NS_PER_MS;
	assert_true(acquire(s, 1).allowed);
	end(s);
}

/* The same answer as Redis's. */
static void remaining_units_grow_while_a_large_request_is_denied(void **state)
{
	struct scene *s = begin();

	(void)state;
	assert_true(acquire(s, 4).allowed);
	for (uint64_t ms = 0; ms < 300; ms += 50) {
		struct algo_decision here, there;

		s->now_ns = NOW + ms * NS_PER_MS;
		here = acquire(s, 4);
		assert_false(here.allowed);
		there = ask_op(s, ALGO_PEEK, 5).outcome; /* another question */
		assert_int_equal(here.remaining, there.remaining);
		assert_int_equal(here.remaining, 1 + ms / 100);
		assert_int_equal(here.reset_after_ns, there.reset_after_ns);
	}
	assert_int_equal(known(s), 5 + 5);
	end(s);
}

static void a_denial_ends_with_denied_cache(void **state)
{
	struct scene *s = begin();
	uint64_t steps;

	(void)state;
	init(&s->limit,
	     &(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                  .rate = {1, 1, WEIR_UNIT_DAY},
	                                  .align = WEIR_ALIGN_FIRST_REQUEST},
	     1);
	assert_true(acquire(s, 1).allowed);
	assert_false(acquire(s, 1).allowed);
	steps = stats_of(s).steps;
	s->now_ns = NOW + NS_PER_S - 1;
	assert_int_equal(acquire(s, 1).retry_after_ns, NS_PER_DAY - NS_PER_S + 1);
	assert_int_equal(stats_of(s).steps, steps);
	s->now_ns = NOW + NS_PER_S;
	assert_false(acquire(s, 1).allowed);
	assert_int_equal(stats_of(s).steps, steps + 1);
	end(s);
}

static void a_refund_or_a_reset_here_takes_effect_at_once(void **state)
{
	static const enum algo_op ops[] = {ALGO_REFUND, ALGO_RESET};
	struct scene *s = begin();

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_true(acquire(s, 5).allowed);
		assert_false(acquire(s, 5).allowed);
		assert_false(acquire(s, 1).allowed);
		assert_false(acquire(s, 1).allowed);
		ask_op(s, ops[i], 5);
		assert_true(acquire(s, 5).allowed);
		ask_op(s, ALGO_RESET, 0);
	}
	assert_int_equal(known(s), 2);
	end(s);
}

/* The same if the refund was submitted before, in the same iteration. */
static void a_denial_from_before_a_refund_is_not_stored(void **state)
{
	struct scene *s = begin();
	struct one ones[3];

	(void)state;
	assert_true(acquire(s, 5).allowed);
	for (size_t i = 0; i < 3; i++)
		make(s, &ones[i], "k", 1);
	ones[1].operation.step.call.op = ALGO_REFUND;
	run(s, ones, 3);
	assert_false(ones[0].operation.outcome.allowed);
	assert_true(ones[2].operation.outcome.allowed);
	ask_op(s, ALGO_REFUND, 1);
	assert_true(acquire(s, 1).allowed);
	end(s);
}

static void other_parameters_have_answers_of_their_own(void **state)
{
	struct scene *s = begin();

	(void)state;
	assert_true(acquire(s, 5).allowed);
	assert_false(acquire(s, 1).allowed);
	init(&s->limit, &(struct weir_limit_options){.rate = {10, 1, WEIR_UNIT_SECOND}, .burst = 8}, 1);
	assert_true(acquire(s, 1).allowed);
	assert_int_equal(known(s), 0);
	end(s);
}

static void a_group_is_denied_by_a_cached_denial_of_one_limit(void **state)
{
	struct scene *s = begin();
	struct one ones[3];
	uint64_t steps;

	(void)state;
	assert_true(acquire(s, 5).allowed);
	assert_false(acquire(s, 1).allowed);
	steps = stats_of(s).steps;
	for (size_t i = 0; i < 3; i++) {
		make(s, &ones[i], i == 1 ? "k" : i == 0 ? "a" : "b", 1);
		ones[i].operation.is_all_or_nothing = true;
		ones[i].operation.next = i < 2 ? &ones[i + 1].operation : NULL;
	}
	s->store->kind->submit(s->client, &ones[0].operation);
	assert_int_equal(s->pending, 0);
	assert_true(ones[0].operation.withheld && !ones[1].operation.withheld &&
	            ones[2].operation.withheld);
	assert_false(ones[1].operation.outcome.allowed);
	assert_int_equal(stats_of(s).steps, steps);
	for (size_t i = 0; i < 3; i++)
		ones[i].operation.next = NULL;
	make(s, &ones[0], "a", 5);
	make(s, &ones[1], "b", 5);
	run(s, ones, 2);
	assert_true(ones[0].operation.outcome.allowed && ones[1].operation.outcome.allowed);
	end(s);
}

static struct algo_decision explain(struct scene *s)
{
	struct one one;

	make(s, &one, "k", 1);
	one.operation.step.call.op = ALGO_PEEK;
	one.operation.explains_denial = true;
	run(s, &one, 1);
	return one.operation.outcome;
}

/* It answers no other question, and no longer than until the next grant. */
static void that_a_request_passes_explains_denials_for_a_while(void **state)
{
	struct scene *s = begin();
	uint64_t steps;

	(void)state;
	assert_true(acquire(s, 5).allowed); /* so the scripts are loaded */
	ask_op(s, ALGO_RESET, 0);
	assert_true(explain(s).allowed);
	steps = stats_of(s).steps;
	assert_true(explain(s).allowed);
	assert_int_equal(stats_of(s).steps, steps);
	assert_true(ask_op(s, ALGO_PEEK, 1).outcome.allowed);
	assert_int_equal(stats_of(s).steps, steps + 1);
	assert_true(acquire(s, 5).allowed);
	assert_false(explain(s).allowed);
	assert_int_equal(stats_of(s).steps, steps + 3);
	s->now_ns += NS_PER_S;
	assert_true(explain(s).allowed);
	s->now_ns += NS_PER_S;
	assert_true(explain(s).allowed);
	assert_int_equal(stats_of(s).steps, steps + 5);
	assert_int_equal(known(s), 0);
	end(s);
}

static void denials_are_cached_only_where_repeating_is_right(void **state)
{
	static const struct {
		struct weir_limit_options options;
		uint64_t cost, max_wait_ns;
		bool applies;
	} cases[] = {
	    {{.rate = {5}}, 3, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {5}}, 1, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {5}}, 2, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {5}}, 2, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5}}, 1, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5}}, 2, 0, false},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {5}}, 0, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {5}}, 1, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_BASE, .rate = {5}, .base = 3}, 1, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_PACER, .rate = {5}}, 1, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_PACER, .rate = {5}}, 1, NS_PER_S, false},
	    {{.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {5}}, 1, 0, true},
	    {{.algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {5}}, 1, 0, false},
	    {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5}, 1, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct algo_limit limit;
		struct algo_call call = {.cost = cases[i].cost, .max_wait_ns = cases[i].max_wait_ns};

		assert_int_equal(algo_limit_init(&limit, &cases[i].options, NULL), WEIR_OK);
		if (denial_cache_applies(&limit, &call) != cases[i].applies)
			fail_msg("case %zu", i);
		call.op = ALGO_REFUND;
		assert_false(denial_cache_applies(&limit, &call));
		algo_limit_free(&limit);
	}
}

/* Turns */

static uint64_t draw(uint64_t *seed, uint64_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (*seed >> 33) % n;
}

#define TURN 40

static bool is_same(const struct store_operation *a, const struct store_operation *b)
{
	return a->status == WEIR_OK && b->status == WEIR_OK &&
	       a->outcome.allowed == b->outcome.allowed &&
	       a->outcome.remaining == b->outcome.remaining &&
	       a->outcome.retry_after_ns == b->outcome.retry_after_ns &&
	       a->outcome.reset_after_ns == b->outcome.reset_after_ns &&
	       a->outcome.wait_ns == b->outcome.wait_ns && a->until_ns == b->until_ns;
}

/* The same operations one after another, at keys of their own. */
static void compare_turn(struct scene *s, const struct one *ones, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		struct one alone;
		char key[sizeof alone.key];

		snprintf(key, sizeof key, "alone %.40s", ones[i].key);
		make(s, &alone, key, ones[i].operation.step.call.cost);
		alone.operation.step.call = ones[i].operation.step.call;
		/* The cached denial is not used either. */
		alone.operation.step.key.hash = draw(&seed, UINT64_MAX >> 40) << 20;
		run(s, &alone, 1);
		if (!is_same(&alone.operation, &ones[i].operation))
			fail_msg("operation %zu of %zu: %s op %d cost %u: %d %d %u, found %d %d %u", i, n,
			         ones[i].key, ones[i].operation.step.call.op,
			         (unsigned)ones[i].operation.step.call.cost, alone.operation.status,
			         alone.operation.outcome.allowed, (unsigned)alone.operation.outcome.remaining,
			         ones[i].operation.status, ones[i].operation.outcome.allowed,
			         (unsigned)ones[i].operation.outcome.remaining);
	}
}

static void operations_of_an_iteration_equal_single_steps(void **state)
{
	static const enum weir_algorithm algorithms[] = {
	    WEIR_ALGORITHM_TOKEN_BUCKET,   WEIR_ALGORITHM_FIXED_WINDOW,    WEIR_ALGORITHM_SLIDING_LOG,
	    WEIR_ALGORITHM_SLIDING_WINDOW, WEIR_ALGORITHM_SLIDING_COUNTER, WEIR_ALGORITHM_LEAKY_QUEUE};
	static const enum algo_op ops[] = {ALGO_ACQUIRE, ALGO_ACQUIRE, ALGO_ACQUIRE, ALGO_ACQUIRE,
	                                   ALGO_ACQUIRE, ALGO_PEEK,    ALGO_REFUND,  ALGO_RESET};
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)getpid();
	struct scene *s = begin();

	(void)state;
	print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	for (size_t turn = 0; turn < 120; turn++) {
		struct one ones[TURN];
		size_t n = 1 + draw(&seed, TURN);
		uint64_t algorithm = turn % 6;

		init(&s->limit,
		     &(struct weir_limit_options){.algorithm = algorithms[algorithm],
		                                  .rate = {7, 1, WEIR_UNIT_SECOND}},
		     1 + algorithm);
		for (size_t i = 0; i < n; i++) {
			char key[32];

			snprintf(key, sizeof key, "%d %d", (int)algorithm, (int)draw(&seed, 3));
			make(s, &ones[i], key, 1 + (draw(&seed, 4) == 0) * draw(&seed, 3));
			ones[i].operation.step.call.op = ops[draw(&seed, 8)];
		}
		run(s, ones, n);
		compare_turn(s, ones, n, seed);
		s->now_ns += draw(&seed, 3) * 70 * NS_PER_MS;
	}
	end(s);
}

/* The table by itself */

static struct denial_cache_answer answer_until(uint64_t ns)
{
	return (struct denial_cache_answer){ns, ns, ns, 0, WEIR_REASON_OVER_LIMIT};
}

static void an_answer_requested_before_a_refund_is_not_stored(void **state)
{
	const struct algo_call call = {.cost = 1};
	const struct denial_cache_answer answer = answer_until(1000);
	struct denial_cache *denied = denial_cache_open();
	struct cache_name name;
	struct algo_limit limit;
	struct algo_decision out;
	uint32_t before;

	(void)state;
	assert_int_equal(algo_limit_init(&limit, &(struct weir_limit_options){.rate = {5}}, NULL), 0);
	name = denial_cache_name(&limit, &call, 7);
	before = denial_cache_invalidations(denied, 7);
	denial_cache_invalidate(denied, 7);
	denial_cache_store(denied, &name, before, &answer);
	assert_false(denial_cache_find(denied, &limit, &call, &name, 0, &out));
	denial_cache_store(denied, &name, denial_cache_invalidations(denied, 7), &answer);
	assert_true(denial_cache_find(denied, &limit, &call, &name, 0, &out));
	denial_cache_invalidate(denied, 7);
	assert_false(denial_cache_find(denied, &limit, &call, &name, 0, &out));
	algo_limit_free(&limit);
	denial_cache_close(denied);
}

static void many_denials_take_no_more_memory(void **state)
{
	const struct algo_call call = {.cost = 1};
	struct denial_cache *denied = denial_cache_open();
	struct algo_limit limit;
	struct algo_decision out;
	size_t kept = 0;

	(void)state;
	assert_int_equal(algo_limit_init(&limit, &(struct weir_limit_options){.rate = {5}}, NULL), 0);
	for (uint64_t i = 1; i <= 200000; i++) {
		struct cache_name name = denial_cache_name(&limit, &call, i);
		struct denial_cache_answer answer = answer_until(1000 + i);

		denial_cache_store(denied, &name, 0, &answer);
		assert_true(denial_cache_find(denied, &limit, &call, &name, 0, &out));
	}
	for (uint64_t i = 1; i <= 200000; i++) {
		struct cache_name name = denial_cache_name(&limit, &call, i);

		kept += denial_cache_find(denied, &limit, &call, &name, 0, &out);
	}
	assert_int_equal(kept, 1 << 16);
	algo_limit_free(&limit);
	denial_cache_close(denied);
}

struct race {
	struct denial_cache *denied;
	struct algo_limit limit;
	_Atomic bool ends;
	_Atomic uint64_t found;
};

/* The times and the remaining units come from one answer, for this key. */
static void *read_all(void *context)
{
	struct race *race = context;
	const struct algo_call call = {.cost = 1};
	uint64_t found = 0;

	for (uint64_t i = 0; !race->ends || found == 0; i++) {
		struct cache_name name = denial_cache_name(&race->limit, &call, 1 + i % 8);
		struct algo_decision out;

		if (!denial_cache_find(race->denied, &race->limit, &call, &name, 0, &out))
			continue;
		found++;
		if (out.reset_after_ns != out.retry_after_ns || out.retry_after_ns % 8 != i % 8)
			abort();
	}
	race->found += found;
	return NULL;
}

/* They share a set. */
static void *write_all(void *context)
{
	struct race *race = context;
	const struct algo_call call = {.cost = 1};

	for (uint64_t i = 0; !race->ends; i++) {
		struct cache_name name = denial_cache_name(&race->limit, &call, 1 + i % 8);
		struct denial_cache_answer answer = answer_until(800 + i * 8 + i % 8);

		denial_cache_store(race->denied, &name,
		                   denial_cache_invalidations(race->denied, name.key_hash), &answer);
		if (i % 100 == 99)
			denial_cache_invalidate(race->denied, name.key_hash);
	}
	return NULL;
}

static void threads_read_whole_answers(void **state)
{
	struct race race = {.denied = denial_cache_open()};
	pthread_t threads[4];

	(void)state;
	assert_int_equal(algo_limit_init(&race.limit, &(struct weir_limit_options){.rate = {5}}, NULL),
	                 0);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, i < 2 ? read_all : write_all, &race);
	poll(NULL, 0, 200);
	race.ends = true;
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(race.found > 0);
	algo_limit_free(&race.limit);
	denial_cache_close(race.denied);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_denied_key_is_not_asked_for_until_it_may_pass),
	    cmocka_unit_test(remaining_units_grow_while_a_large_request_is_denied),
	    cmocka_unit_test(a_denial_ends_with_denied_cache),
	    cmocka_unit_test(a_refund_or_a_reset_here_takes_effect_at_once),
	    cmocka_unit_test(a_denial_from_before_a_refund_is_not_stored),
	    cmocka_unit_test(other_parameters_have_answers_of_their_own),
	    cmocka_unit_test(a_group_is_denied_by_a_cached_denial_of_one_limit),
	    cmocka_unit_test(operations_of_an_iteration_equal_single_steps),
	    cmocka_unit_test(that_a_request_passes_explains_denials_for_a_while),
	    cmocka_unit_test(denials_are_cached_only_where_repeating_is_right),
	    cmocka_unit_test(an_answer_requested_before_a_refund_is_not_stored),
	    cmocka_unit_test(many_denials_take_no_more_memory),
	    cmocka_unit_test(threads_read_whole_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
