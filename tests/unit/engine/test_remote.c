/* Limits at a store that completes steps later: stages, and what happens without the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "servers.h"

static void a_stage_is_one_chain_and_memory_comes_first_and_last(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	assert_int_equal(check(&s, "three", false), ENGINE_DONE);
	assert_true(s.d.allowed);
	assert_string_equal(s.d.limit, "here");
	assert_int_equal(redis.chains, 1);
	assert_int_equal(redis.jobs, 2);
	ask(&s, HERE, ALGO_ACQUIRE, 3);
	check(&s, "three", false); /* memory refuses, so the store is only peeked at */
	assert_false(s.d.allowed);
	assert_string_equal(s.d.limit, "here");
	assert_int_equal(redis.chains, 2);
	assert_int_equal(left(&s, limit_at(&s, WINDOW)), 4);
	close_server(&s);
	close_redis();
}

/* Between the peek and the charge another request takes the last of the limit in memory. */
static void the_store_gets_back_what_memory_refuses(void **state)
{
	struct server s;
	struct weir_decision d;

	(void)state;
	open_redis();
	open_server(&s, 1);
	redis.is_slow = true;
	assert_int_equal(check(&s, "three", true), ENGINE_SUBMITTED);
	assert_int_equal(left(&s, limit_at(&s, HERE)), 4); /* it is charged last */
	assert_int_equal(
	    weir_acquire(s.table, limit_at(&s, HERE), (struct weir_key){"u", 1}, 4, NOW, &d), WEIR_OK);
	do_waiting();
	assert_true(s.is_ready);
	assert_int_equal(left(&s, limit_at(&s, WINDOW)), 4);
	assert_int_equal(engine_resume(&s.context, &s.plan, &s.d), ENGINE_SUBMITTED);
	do_waiting();
	assert_int_equal(engine_resume(&s.context, &s.plan, &s.d), ENGINE_DONE);
	assert_false(s.d.allowed);
	assert_string_equal(s.d.limit, "here");
	assert_int_equal(left(&s, limit_at(&s, WINDOW)), 5);
	assert_int_equal(left(&s, limit_at(&s, BUCKET)), 7);
	close_server(&s);
	close_redis();
}

static void withheld_steps_take_nothing_and_refuse_nothing(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	ask(&s, WINDOW, ALGO_ACQUIRE, 5);
	check(&s, "three", true);
	assert_false(s.d.allowed);
	assert_string_equal(s.d.limit, "window");
	assert_int_equal(redis.chains, 2); /* nothing was to be given back */
	assert_int_equal(left(&s, limit_at(&s, BUCKET)), 7);
	assert_int_equal(left(&s, limit_at(&s, HERE)), 4);
	close_server(&s);
	close_redis();
}

/* As in memory, where those behind the first are not asked. */
static void the_first_that_is_refused_is_the_answer(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	ask(&s, WINDOW, ALGO_ACQUIRE, 5);
	ask(&s, BUCKET, ALGO_ACQUIRE, 7);
	check(&s, "three", false);
	assert_ptr_equal(s.plan.refused_step, &s.plan.steps[1]);
	assert_string_equal(s.d.limit, "bucket");
	assert_int_equal(s.d.quota, 7);
	close_server(&s);
	close_redis();
}

static void a_store_that_withholds_without_a_refusal_has_failed(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	redis.withholds_all = true;
	check(&s, "strict", false);
	assert_false(s.d.allowed);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_FAILURE);
	check(&s, "three", false);
	assert_true(s.d.allowed);
	assert_int_equal(s.failed[RULES_LOCAL], 2);
	assert_int_equal(left(&s, limit_at(&s, WINDOW)), 5);
	assert_int_equal(left(&s, limit_at(&s, WINDOW)->local), 4);
	close_server(&s);
	close_redis();
}

static void open_allows_and_closed_denies(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	redis.is_away = true;
	for (int i = 0; i < 20; i++) {
		ask(&s, OPEN, ALGO_ACQUIRE, 6);
		assert_true(s.d.allowed && s.d.degraded);
		assert_int_equal(s.d.reason, WEIR_REASON_STORE_OPEN);
		assert_int_equal(s.d.quota, 6);
		assert_int_equal(s.d.remaining, 0);
		assert_int_equal(engine_list_charges(&s.plan, NULL), 0);
		ask(&s, CLOSED, ALGO_ACQUIRE, 1);
		assert_true(!s.d.allowed && s.d.degraded);
		assert_int_equal(s.d.reason, WEIR_REASON_STORE_FAILURE);
		assert_int_equal(s.d.retry_after_ns, NS_PER_S);
		assert_int_equal(s.plan.status, WEIR_OK);
	}
	assert_int_equal(s.failed[RULES_OPEN], 20);
	assert_int_equal(s.failed[RULES_CLOSED], 20);
	redis.is_away = false; /* it is back by itself */
	assert_int_equal(left(&s, limit_at(&s, OPEN)), 6);
	ask(&s, OPEN, ALGO_ACQUIRE, 6);
	assert_true(s.d.allowed && !s.d.degraded);
	assert_int_equal(s.d.reason, WEIR_REASON_OK);
	ask(&s, OPEN, ALGO_ACQUIRE, 1);
	assert_true(!s.d.allowed && !s.d.degraded);
	close_server(&s);
	close_redis();
}

/* What is more than its share a server can't decide without the store. */
static void a_cost_above_the_share_is_denied(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 2);
	redis.is_away = true;
	ask(&s, WINDOW, ALGO_ACQUIRE, 3);
	assert_true(!s.d.allowed && s.d.degraded);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_FAILURE);
	assert_int_equal(s.d.retry_after_ns, NS_PER_S);
	assert_int_equal(s.failed[RULES_CLOSED], 1);
	assert_int_equal(left(&s, limit_at(&s, WINDOW)->local), 2);
	ask(&s, WINDOW, ALGO_ACQUIRE, 2);
	assert_true(s.d.allowed && s.d.degraded);
	redis.is_away = false;
	ask(&s, WINDOW, ALGO_ACQUIRE, 3);
	assert_true(s.d.allowed);
	close_server(&s);
	close_redis();
}

static size_t seen[WEIR_REASON_COUNT];

static void observe(void *context, const struct plan *plan, const struct plan_step *step)
{
	(void)context;
	(void)plan;
	seen[step->reason]++;
}

/* Of two limits at the store and one in memory. */
static void a_request_by_several_limits_is_degraded_if_one_of_them_is(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	s.context.observe = observe;
	redis.is_away = true;
	check(&s, "three", true);
	assert_true(s.d.allowed && s.d.degraded);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_LOCAL);
	assert_int_equal(seen[WEIR_REASON_STORE_LOCAL], 2);
	assert_int_equal(seen[WEIR_REASON_OK], 1);
	ask(&s, HERE, ALGO_ACQUIRE, 3);
	assert_true(s.d.allowed && !s.d.degraded);
	check(&s, "three", false); /* memory denies it, whatever the store would say */
	assert_string_equal(s.d.limit, "here");
	assert_true(!s.d.allowed && !s.d.degraded);
	ask(&s, WINDOW, ALGO_ACQUIRE, 4);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_LOCAL); /* in place of hit_quota */
	ask(&s, WINDOW, ALGO_PEEK, 1);
	assert_true(!s.d.allowed && s.d.degraded);
	assert_int_equal(s.d.reason, WEIR_REASON_OVER_LIMIT);
	ask(&s, OPEN, ALGO_PEEK, 1);
	assert_true(s.d.allowed && s.d.degraded);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_OPEN);
	redis.is_away = false;
	ask(&s, WINDOW, ALGO_ACQUIRE, 5);
	assert_true(s.d.allowed && !s.d.degraded);
	assert_int_equal(s.d.reason, WEIR_REASON_HIT_QUOTA);
	close_server(&s);
	close_redis();
}

static void a_rule_says_more_than_its_limits(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	redis.is_away = true;
	check(&s, "strict", false);
	assert_false(s.d.allowed);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_FAILURE);
	assert_string_equal(s.d.rule, "strict");
	assert_int_equal(s.failed[RULES_CLOSED], 2);
	close_server(&s);
	close_redis();
}

static void refunds_and_resets_fail_without_their_store(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	ask(&s, OPEN, ALGO_ACQUIRE, 2);
	redis.is_away = true;
	ask(&s, OPEN, ALGO_REFUND, 1);
	assert_int_equal(s.plan.status, WEIR_ESTORE);
	ask(&s, OPEN, ALGO_RESET, 0);
	assert_int_equal(s.plan.status, WEIR_ESTORE);
	assert_int_equal(s.failed[RULES_OPEN], 0);
	redis.is_away = false;
	assert_int_equal(left(&s, limit_at(&s, OPEN)), 4);
	close_server(&s);
	close_redis();
}

static void a_reset_forgets_what_was_used_without_the_store(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	for (int i = 0; i < 2; i++) {
		ask(&s, WINDOW, ALGO_ACQUIRE, 2);
		redis.is_away = true;
		ask(&s, WINDOW, ALGO_ACQUIRE, 2);
		assert_int_equal(left(&s, limit_at(&s, WINDOW)->local), 3);
		redis.is_away = i == 1; /* a reset that fails changes nothing */
		ask(&s, WINDOW, ALGO_RESET, 0);
		assert_int_equal(s.plan.status, i == 1 ? WEIR_ESTORE : WEIR_OK);
		assert_int_equal(left(&s, limit_at(&s, WINDOW)->local), i == 1 ? 3 : 5);
		assert_int_equal(left(&s, limit_at(&s, WINDOW)), i == 1 ? 3 : 5);
	}
	close_server(&s);
	close_redis();
}

static void local_grants_a_share_by_counts_of_its_own(void **state)
{
	static const uint64_t shares[][LIMITS] = {
	    [1] = {7, 5, 1, 0, 6, 6}, [3] = {2, 1, 1, 0, 2, 2}, [50] = {1, 1, 1, 0, 1, 1}};
	struct server s;

	(void)state;
	for (size_t nodes = 1; nodes <= 50; nodes += nodes == 1 ? 2 : 47) {
		open_redis();
		open_server(&s, nodes);
		for (size_t i = 0; i < LIMITS; i++) {
			const struct weir_limit *local = limit_at(&s, i)->local;

			assert_int_equal(local ? local->algo.quota : 0, shares[nodes][i]);
			if (local)
				assert_int_equal(engine_limit_index(s.engine, local), i);
		}
		ask(&s, BUCKET, ALGO_ACQUIRE, 1);
		redis.is_away = true;
		for (uint64_t i = 0; i <= shares[nodes][BUCKET]; i++) {
			ask(&s, BUCKET, ALGO_ACQUIRE, 1);
			assert_int_equal(s.d.allowed, i < shares[nodes][BUCKET]);
			assert_string_equal(s.d.limit, "bucket");
		}
		redis.is_away = false;
		assert_int_equal(left(&s, limit_at(&s, BUCKET)), 6);
		close_server(&s);
		close_redis();
	}
}

/* This is rare: the limit's share would take 30 years to be full again. */
static void a_share_that_can_not_be_is_an_error(void **state)
{
	const struct rules_limit limit = {.options = {.name = "long",
	                                              .rate = {19, 365, WEIR_UNIT_DAY},
	                                              .burst = 300,
	                                              .algorithm = WEIR_ALGORITHM_TOKEN_BUCKET},
	                                  .line = 7};
	const struct weir_config config = {.limits = &limit, .limit_count = 1, .nodes = 10};
	struct server s;
	struct weir_error error = {0};
	weir_engine *engine;

	(void)state;
	open_redis();
	open_server(&s, 1);
	assert_int_equal(engine_open(&config, s.table, &s.table->store, &engine, NULL), WEIR_OK);
	weir_engine_close(engine);
	assert_int_equal(engine_open(&config, s.table, NULL, &engine, &error), WEIR_ERANGE);
	assert_non_null(strstr(error.message, "limit for one of 10 nodes: "));
	assert_int_equal(error.line, 7);
	close_server(&s);
	close_redis();
}

/* By the plan itself, and by a permit. */
static void what_local_took_is_given_back_there(void **state)
{
	struct weir_permits permits;
	struct engine_names names = {0};
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	for (int by_permit = 0; by_permit < 2; by_permit++) {
		redis.is_away = true;
		check(&s, "mixed", true);
		assert_true(s.d.allowed);
		assert_int_equal(left(&s, limit_at(&s, WINDOW)->local), 4);
		assert_int_equal(left(&s, limit_at(&s, PLACES)->local), 0);
		redis.is_away = false;
		redis.chains = 0;
		if (by_permit) {
			engine_fill_permits(&s.plan, &permits, &names);
			engine_prepare_permits(s.engine, &permits, &names, &s.arena, &s.plan);
			assert_int_equal(engine_run(&s.context, &s.plan, &s.d), ENGINE_DONE);
			assert_true(s.d.allowed);
		} else {
			assert_int_equal(engine_cancel(&s.context, &s.plan), ENGINE_DONE);
		}
		assert_int_equal(left(&s, limit_at(&s, WINDOW)->local), 5);
		assert_int_equal(left(&s, limit_at(&s, PLACES)->local), 1);
		assert_int_equal(left(&s, limit_at(&s, HERE)), 4);
		assert_int_equal(redis.chains, 0);
	}
	close_server(&s);
	close_redis();
}

/* A place that is held locally is waited for; then its limit is asked for at the store again. */
static void a_plan_that_waits_tries_the_store_again(void **state)
{
	struct server s, other;

	(void)state;
	open_redis();
	open_server(&s, 1);
	open_server(&other, 1);
	redis.is_away = true;
	ask(&s, PLACES, ALGO_ACQUIRE, 1);
	assert_true(s.d.allowed);
	assert_int_equal(ask(&s, PLACES, ALGO_ACQUIRE, 1), ENGINE_WAITS);
	assert_false(engine_must_poll(&s.plan));
	redis.is_away = false;
	ask(&other, PLACES, ALGO_ACQUIRE, 1);
	assert_int_equal(engine_resume(&s.context, &s.plan, &s.d), ENGINE_WAITS);
	assert_true(engine_must_poll(&s.plan));
	assert_int_equal(engine_cancel(&other.context, &other.plan), ENGINE_DONE);
	s.plan.queue_position = WAIT_FIRST;
	assert_int_equal(engine_resume(&s.context, &s.plan, &s.d), ENGINE_DONE);
	assert_true(s.d.allowed);
	assert_int_equal(left(&s, limit_at(&s, PLACES)), 0);
	close_server(&other);
	close_server(&s);
	close_redis();
}

/* It would be denied again and again until its time is over, and for another reason. */
static void nobody_waits_for_a_store(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	redis.is_away = true;
	prepare(&s, "waiting", false);
	s.plan.max_wait_ns = 100 * NS_PER_S;
	assert_int_equal(engine_run(&s.context, &s.plan, &s.d), ENGINE_DONE);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_FAILURE);
	assert_int_equal(left(&s, limit_at(&s, PLACES)->local), 1);
	close_server(&s);
	close_redis();
}

static void a_limit_that_moves_begins_anew(void **state)
{
	const struct rules_limit moved = {.options = {.name = "here", .rate = {8, 1, WEIR_UNIT_HOUR}}};
	struct server s;
	struct weir_config config = {.limits = &moved, .limit_count = 1};
	weir_engine *next, *last;
	struct store *memory;

	(void)state;
	open_redis();
	open_server(&s, 1);
	ask(&s, HERE, ALGO_ACQUIRE, 3);
	assert_int_equal(engine_open(&config, s.table, NULL, &next, NULL), WEIR_OK);
	engine_succeed(s.engine, next);
	assert_true(algo_is_current(&limit_at(&s, HERE)->algo));
	memory = s.table->store;
	assert_int_equal(engine_open(&config, s.table, &memory, &last, NULL), WEIR_OK);
	engine_succeed(s.engine, last);
	assert_false(algo_is_current(&limit_at(&s, HERE)->algo));
	engine_succeed(next, last);
	assert_true(algo_is_current(&engine_limit_at(next, 0)->algo));
	close_server(&s);
	weir_engine_close(next);
	weir_engine_close(last);
	close_redis();
}

/* A call with a limit of its own, whose memory in the server is another's by then. */
static void ask_along(struct server *s, uint64_t burst, uint64_t count)
{
	struct weir_limit limit;
	struct plan plan;
	void *memory;

	assert_int_equal(limit_init_adhoc(&limit, burst, count, 60, NULL), WEIR_OK);
	assert_int_equal(engine_prepare_limit(s->table, &limit, &(struct algo_call){ALGO_ACQUIRE, 2},
	                                      SLICE("u"), &plan),
	                 WEIR_OK);
	assert_true(engine_is_remote(&plan));
	memory = malloc(engine_suspend_size(&plan));
	engine_suspend(s->table, &s->plan, &plan, memory);
	memset(&limit, 0xff, sizeof limit);
	memset(&plan, 0xff, sizeof plan);
	assert_int_equal(engine_run(&s->context, &s->plan, &s->d), ENGINE_DONE);
	free(memory);
}

static void a_limit_that_came_along_outlives_its_turn(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	ask_along(&s, 6, 1);
	assert_true(s.d.allowed);
	assert_int_equal(s.d.quota, 6);
	assert_int_equal(s.d.remaining, 4);
	assert_true(rules_reserved_name(slice_of(redis.limit_name))); /* no other limit's keys */
	close_server(&s);
	close_redis();
}

static void a_limit_that_came_along_is_local(void **state)
{
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	s.context.nodes = 3;
	redis.is_away = true;
	for (int i = 0; i < 3; i++) { /* four of twelve, two at a time */
		ask_along(&s, 12, 1);
		assert_int_equal(s.d.quota, 4);
		assert_int_equal(s.d.allowed, i < 2);
		assert_int_equal(s.d.reason, i < 2 ? WEIR_REASON_STORE_LOCAL : WEIR_REASON_OVER_LIMIT);
		assert_true(s.d.degraded);
	}
	ask_along(&s, 24, 1); /* the same key by other parameters: of eight, four are in use at once */
	assert_int_equal(s.d.quota, 8);
	assert_true(s.d.allowed);
	redis.is_away = false;
	ask_along(&s, 12, 1);
	assert_int_equal(s.d.remaining, 10);
	/* A third of it would take longer than 16 years. */
	redis.is_away = true;
	ask_along(&s, 40000000, 5);
	assert_int_equal(s.d.reason, WEIR_REASON_STORE_FAILURE);
	close_server(&s);
	close_redis();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stage_is_one_chain_and_memory_comes_first_and_last),
	    cmocka_unit_test(the_store_gets_back_what_memory_refuses),
	    cmocka_unit_test(withheld_steps_take_nothing_and_refuse_nothing),
	    cmocka_unit_test(the_first_that_is_refused_is_the_answer),
	    cmocka_unit_test(a_store_that_withholds_without_a_refusal_has_failed),
	    cmocka_unit_test(open_allows_and_closed_denies),
	    cmocka_unit_test(a_request_by_several_limits_is_degraded_if_one_of_them_is),
	    cmocka_unit_test(a_cost_above_the_share_is_denied),
	    cmocka_unit_test(a_rule_says_more_than_its_limits),
	    cmocka_unit_test(refunds_and_resets_fail_without_their_store),
	    cmocka_unit_test(a_reset_forgets_what_was_used_without_the_store),
	    cmocka_unit_test(local_grants_a_share_by_counts_of_its_own),
	    cmocka_unit_test(a_share_that_can_not_be_is_an_error),
	    cmocka_unit_test(what_local_took_is_given_back_there),
	    cmocka_unit_test(a_plan_that_waits_tries_the_store_again),
	    cmocka_unit_test(nobody_waits_for_a_store),
	    cmocka_unit_test(a_limit_that_moves_begins_anew),
	    cmocka_unit_test(a_limit_that_came_along_outlives_its_turn),
	    cmocka_unit_test(a_limit_that_came_along_is_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
