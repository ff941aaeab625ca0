/* Permits of limits that several servers share: given back once, at whichever server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "servers.h"
#include "wait/waitlist.h"

static void refund(struct server *s, const struct weir_permits *permits,
                   const struct engine_names *names, bool reports)
{
	assert_int_equal(engine_prepare_permits(s->engine, permits, names, &s->arena, &s->plan),
	                 WEIR_OK);
	assert_int_equal((reports ? engine_report : engine_run)(&s->turn, &s->plan, &s->d),
	                 ENGINE_DONE);
}

/* Marks in the memory of one server would give it back once at each. */
static void a_permit_is_given_back_once_at_whichever_server(void **state)
{
	struct weir_permits permits;
	struct engine_names names;
	struct server a, b;

	(void)state;
	open_redis();
	open_server(&a, 2);
	open_server(&b, 2);
	check(&a, "three", true);
	engine_permits(&a.plan, &permits, &names);
	assert_int_equal(permits.count, 3);
	refund(&b, &permits, &names, true);
	assert_true(b.d.allowed); /* it is held still */
	refund(&b, &permits, &names, false);
	assert_true(b.d.allowed);
	assert_int_equal(left(&b, limit_at(&b, WINDOW)), 5);
	assert_int_equal(left(&b, limit_at(&b, BUCKET)), 7);
	assert_int_equal(left(&a, limit_at(&a, HERE)), 3); /* of which b knows nothing */
	ask(&b, WINDOW, ALGO_ACQUIRE, 2);
	for (int i = 0; i < 2; i++) {
		refund(&b, &permits, &names, false);
		assert_false(b.d.allowed);
	}
	refund(&b, &permits, &names, true);
	assert_false(b.d.allowed);
	refund(&a, &permits, &names, false);
	assert_true(a.d.allowed); /* what was taken in its memory */
	assert_int_equal(left(&a, limit_at(&a, HERE)), 4);
	assert_int_equal(left(&a, limit_at(&a, WINDOW)), 3);
	close_server(&b);
	close_server(&a);
	close_redis();
}

/* When its window is over there is nothing left to give back. */
static void a_permit_ends(void **state)
{
	struct weir_permits permits;
	struct engine_names names;
	struct server s;

	(void)state;
	open_redis();
	open_server(&s, 1);
	ask(&s, HERE, ALGO_PEEK, 0);
	assert_int_equal(engine_prepare_limit(s.table, limit_at(&s, WINDOW),
	                                      &(struct algo_call){ALGO_ACQUIRE, 1}, SLICE("u"),
	                                      &s.plan),
	                 WEIR_OK);
	assert_int_equal(engine_want_permit(&s.plan), WEIR_OK);
	engine_run(&s.turn, &s.plan, &s.d);
	engine_permits(&s.plan, &permits, &names);
	s.turn.at = moment_given(NOW + 3600 * NS_PER_S - 1);
	refund(&s, &permits, &names, true);
	assert_true(s.d.allowed);
	s.turn.at = moment_given(NOW + 3600 * NS_PER_S);
	refund(&s, &permits, &names, true);
	assert_false(s.d.allowed);
	refund(&s, &permits, &names, false);
	assert_false(s.d.allowed);
	assert_int_equal(redis.chains, 2);
	close_server(&s);
	close_redis();
}

/* Two servers at once, and one whose store does not answer: nobody knows, so it says so. */
static void a_permit_is_spent_with_what_it_gives_back(void **state)
{
	struct weir_permits permits;
	struct engine_names names;
	struct server a, b;

	(void)state;
	open_redis();
	open_server(&a, 2);
	open_server(&b, 2);
	check(&a, "three", true);
	engine_permits(&a.plan, &permits, &names);
	redis.is_away = true;
	refund(&b, &permits, &names, false);
	assert_int_equal(b.plan.status, WEIR_ESTORE);
	redis.is_away = false;
	ask(&b, WINDOW, ALGO_ACQUIRE, 2);
	redis.is_slow = true;
	engine_prepare_permits(a.engine, &permits, &names, &a.arena, &a.plan);
	engine_prepare_permits(b.engine, &permits, &names, &b.arena, &b.plan);
	assert_int_equal(engine_run(&a.turn, &a.plan, &a.d), ENGINE_SUBMITTED);
	assert_int_equal(engine_run(&b.turn, &b.plan, &b.d), ENGINE_SUBMITTED);
	assert_int_equal(redis.waiting_count, 4);
	do_waiting();
	engine_resume(&a.turn, &a.plan, &a.d);
	engine_resume(&b.turn, &b.plan, &b.d);
	assert_true(a.d.allowed && !b.d.allowed);
	assert_int_equal(left(&a, limit_at(&a, WINDOW)), 3);
	assert_int_equal(left(&a, limit_at(&a, BUCKET)), 7);
	close_server(&b);
	close_server(&a);
	close_redis();
}

static void a_place_is_given_back_at_whichever_server(void **state)
{
	struct weir_permits permits;
	struct engine_names names;
	struct server a, b;

	(void)state;
	open_redis();
	open_server(&a, 2);
	open_server(&b, 2);
	check(&a, "mixed", true);
	engine_permits(&a.plan, &permits, &names);
	refund(&b, &permits, NULL, true);
	assert_false(b.d.allowed); /* without the names of its keys */
	assert_int_equal(left(&b, limit_at(&b, PLACES)), 0);
	refund(&b, &permits, &names, true);
	assert_true(b.d.allowed);
	assert_int_equal(left(&b, limit_at(&b, PLACES)), 1);
	assert_int_equal(left(&b, limit_at(&b, WINDOW)), 4); /* the request has been made */
	refund(&a, &permits, &names, true);
	assert_false(a.d.allowed);
	refund(&b, &permits, &names, false);
	assert_false(b.d.allowed);
	assert_int_equal(left(&b, limit_at(&b, WINDOW)), 4);
	close_server(&b);
	close_server(&a);
	close_redis();
}

/* What is spent of a permit does not keep the rest of it. */
static void each_charge_is_given_back_for_itself(void **state)
{
	struct weir_permits permits;
	struct engine_names names, one;
	struct server a, b;

	(void)state;
	open_redis();
	open_server(&a, 2);
	open_server(&b, 2);
	check(&a, "mixed", true);
	engine_permits(&a.plan, &permits, &names);
	one = names;
	one.of[1].data = NULL;
	refund(&b, &permits, &one, false);
	assert_int_equal(left(&b, limit_at(&b, WINDOW)), 5);
	assert_int_equal(left(&b, limit_at(&b, PLACES)), 0);
	refund(&b, &permits, &names, false);
	assert_true(b.d.allowed);
	assert_int_equal(left(&b, limit_at(&b, PLACES)), 1);
	close_server(&b);
	close_server(&a);
	close_redis();
}

static bool was_woken;

static void wake(struct waiter *waiter)
{
	(void)waiter;
	was_woken = true;
}

/* Keys have other hashes at each server. */
static void a_refund_wakes_those_who_wait_where_it_is_made(void **state)
{
	struct waiter waiter = {.wake = wake};
	struct weir_permits permits;
	struct engine_names names;
	struct server a, b;

	(void)state;
	open_redis();
	open_server(&a, 2);
	open_server(&b, 2);
	check(&a, "mixed", true);
	engine_permits(&a.plan, &permits, &names);
	ask(&b, PLACES, ALGO_ACQUIRE, 1);
	waiter.hash = b.plan.only.key.hash;
	assert_int_equal(waitlist_join(waitlist_make(&b.table->waiting), &waiter, 9), WAITLIST_FIRST);
	was_woken = false;
	refund(&b, &permits, &names, true);
	assert_true(was_woken);
	waitlist_leave(waitlist_at(&b.table->waiting), &waiter);
	close_server(&b);
	close_server(&a);
	close_redis();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_permit_is_given_back_once_at_whichever_server),
	    cmocka_unit_test(a_permit_ends),
	    cmocka_unit_test(a_permit_is_spent_with_what_it_gives_back),
	    cmocka_unit_test(a_place_is_given_back_at_whichever_server),
	    cmocka_unit_test(each_charge_is_given_back_for_itself),
	    cmocka_unit_test(a_refund_wakes_those_who_wait_where_it_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
