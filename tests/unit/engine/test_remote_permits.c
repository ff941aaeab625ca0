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
	assert_int_equal((reports ? engine_report : engine_run)(&s->context, &s->plan, &s->d),
	                 ENGINE_DONE);
}

/* Two servers, and the permit of a request at the first. */
struct pair {
	struct server a, b;
	struct weir_permits permits;
	struct engine_names names;
};

static int open_pair(void **state)
{
	static struct pair pair;

	open_redis();
	open_server(&pair.a, 2);
	open_server(&pair.b, 2);
	*state = &pair;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	close_server(&p->b);
	close_server(&p->a);
	close_redis();
	return 0;
}

static void take(struct pair *p, const char *path)
{
	check(&p->a, path, true);
	engine_fill_permits(&p->a.plan, &p->permits, &p->names);
}

#define OF_A_PAIR(test_) cmocka_unit_test_setup_teardown(test_, open_pair, close_pair)

/* Marks in the memory of one server would give it back once at each. */
static void a_permit_is_given_back_once_at_whichever_server(void **state)
{
	struct pair *p = *state;
	struct server *a = &p->a, *b = &p->b;

	take(p, "three");
	assert_int_equal(p->permits.count, 3);
	refund(b, &p->permits, &p->names, true);
	assert_true(b->d.allowed); /* it is held still */
	refund(b, &p->permits, &p->names, false);
	assert_true(b->d.allowed);
	assert_int_equal(left(b, limit_at(b, WINDOW)), 5);
	assert_int_equal(left(b, limit_at(b, BUCKET)), 7);
	assert_int_equal(left(a, limit_at(a, HERE)), 3); /* of which b knows nothing */
	ask(b, WINDOW, ALGO_ACQUIRE, 2);
	for (int i = 0; i < 2; i++) {
		refund(b, &p->permits, &p->names, false);
		assert_false(b->d.allowed);
	}
	refund(b, &p->permits, &p->names, true);
	assert_false(b->d.allowed);
	refund(a, &p->permits, &p->names, false);
	assert_true(a->d.allowed); /* what was taken in its memory */
	assert_int_equal(left(a, limit_at(a, HERE)), 4);
	assert_int_equal(left(a, limit_at(a, WINDOW)), 3);
}

/* When its window is over there is nothing left to give back. */
static void a_permit_ends(void **state)
{
	struct pair *p = *state;
	struct server *a = &p->a;

	ask(a, HERE, ALGO_PEEK, 0);
	assert_int_equal(engine_prepare_limit(a->table, limit_at(a, WINDOW),
	                                      &(struct algo_call){ALGO_ACQUIRE, 1}, SLICE("u"),
	                                      &a->plan),
	                 WEIR_OK);
	assert_int_equal(engine_want_permit(&a->plan), WEIR_OK);
	engine_run(&a->context, &a->plan, &a->d);
	engine_fill_permits(&a->plan, &p->permits, &p->names);
	a->context.at = moment_given(NOW + 3600 * NS_PER_S - 1);
	refund(a, &p->permits, &p->names, true);
	assert_true(a->d.allowed);
	a->context.at = moment_given(NOW + 3600 * NS_PER_S);
	refund(a, &p->permits, &p->names, true);
	assert_false(a->d.allowed);
	refund(a, &p->permits, &p->names, false);
	assert_false(a->d.allowed);
	assert_int_equal(redis.chains, 4);
	/* By any clock. */
	a->context.at = moment_given(NOW + 3600 * NS_PER_S + PERMITS_CLOCKS_NS);
	refund(a, &p->permits, &p->names, false);
	assert_false(a->d.allowed);
	assert_int_equal(redis.chains, 4);
}

/* The store's clock has set the end of a charge. So a server that is ahead gives back in time, too. */
static void the_clock_of_the_store_ends_a_charge(void **state)
{
	static const int64_t ahead_s[] = {-3599, -40, 40, 3599};
	struct pair *p = *state;
	struct server *a = &p->a;

	for (size_t i = 0; i < sizeof ahead_s / sizeof *ahead_s; i++) {
		redis.now_ns = NOW + 10 * i * 3600 * NS_PER_S;
		a->context.at = moment_given(redis.now_ns + (uint64_t)ahead_s[i] * NS_PER_S);
		take(p, "three");
		redis.now_ns += 3600 * NS_PER_S - 1;
		a->context.at = moment_given(redis.now_ns + (uint64_t)ahead_s[i] * NS_PER_S);
		refund(a, &p->permits, &p->names, true);
		assert_true(a->d.allowed);
		refund(a, &p->permits, &p->names, false);
		assert_true(a->d.allowed);
		refund(a, &p->permits, &p->names, false);
		assert_false(a->d.allowed);
		take(p, "mixed");
		redis.now_ns += 3600 * NS_PER_S;
		a->context.at = moment_given(redis.now_ns + (uint64_t)ahead_s[i] * NS_PER_S);
		refund(a, &p->permits, &p->names, true);
		assert_false(a->d.allowed);
	}
}

/* Two servers at once, and one whose store does not answer: nobody knows, so it says so. */
static void a_permit_is_spent_with_what_it_gives_back(void **state)
{
	struct pair *p = *state;
	struct server *a = &p->a, *b = &p->b;

	take(p, "three");
	redis.is_away = true;
	refund(b, &p->permits, &p->names, false);
	assert_int_equal(b->plan.status, WEIR_ESTORE);
	redis.is_away = false;
	ask(b, WINDOW, ALGO_ACQUIRE, 2);
	redis.is_slow = true;
	engine_prepare_permits(a->engine, &p->permits, &p->names, &a->arena, &a->plan);
	engine_prepare_permits(b->engine, &p->permits, &p->names, &b->arena, &b->plan);
	assert_int_equal(engine_run(&a->context, &a->plan, &a->d), ENGINE_SUBMITTED);
	assert_int_equal(engine_run(&b->context, &b->plan, &b->d), ENGINE_SUBMITTED);
	assert_int_equal(redis.waiting_count, 4);
	do_waiting();
	engine_resume(&a->context, &a->plan, &a->d);
	engine_resume(&b->context, &b->plan, &b->d);
	assert_true(a->d.allowed && !b->d.allowed);
	assert_int_equal(left(a, limit_at(a, WINDOW)), 3);
	assert_int_equal(left(a, limit_at(a, BUCKET)), 7);
}

static void a_place_is_given_back_at_whichever_server(void **state)
{
	struct pair *p = *state;
	struct server *a = &p->a, *b = &p->b;

	take(p, "mixed");
	refund(b, &p->permits, NULL, true);
	assert_false(b->d.allowed); /* without the names of its keys */
	assert_int_equal(left(b, limit_at(b, PLACES)), 0);
	refund(b, &p->permits, &p->names, true);
	assert_true(b->d.allowed);
	assert_int_equal(left(b, limit_at(b, PLACES)), 1);
	assert_int_equal(left(b, limit_at(b, WINDOW)), 4); /* the request has been made */
	refund(a, &p->permits, &p->names, true);
	assert_false(a->d.allowed);
	refund(b, &p->permits, &p->names, false);
	assert_false(b->d.allowed);
	assert_int_equal(left(b, limit_at(b, WINDOW)), 4);
}

/* A spent part of a permit does not keep the rest from being given back. */
static void each_charge_is_given_back_for_itself(void **state)
{
	struct pair *p = *state;
	struct server *b = &p->b;
	struct engine_names one;

	take(p, "mixed");
	one = p->names;
	one.key_names[1].data = NULL;
	refund(b, &p->permits, &one, false);
	assert_int_equal(left(b, limit_at(b, WINDOW)), 5);
	assert_int_equal(left(b, limit_at(b, PLACES)), 0);
	refund(b, &p->permits, &p->names, false);
	assert_true(b->d.allowed);
	assert_int_equal(left(b, limit_at(b, PLACES)), 1);
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
	struct pair *p = *state;
	struct server *b = &p->b;

	take(p, "mixed");
	ask(b, PLACES, ALGO_ACQUIRE, 1);
	waiter.hash = b->plan.direct_step.key.hash;
	assert_int_equal(waitlist_join(waitlist_get_or_make(&b->table->waiting), &waiter, 9),
	                 WAITLIST_FIRST);
	was_woken = false;
	refund(b, &p->permits, &p->names, true);
	assert_true(was_woken);
	waitlist_leave(waitlist_at(&b->table->waiting), &waiter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    OF_A_PAIR(a_permit_is_given_back_once_at_whichever_server),
	    OF_A_PAIR(a_permit_ends),
	    OF_A_PAIR(the_clock_of_the_store_ends_a_charge),
	    OF_A_PAIR(a_permit_is_spent_with_what_it_gives_back),
	    OF_A_PAIR(a_place_is_given_back_at_whichever_server),
	    OF_A_PAIR(each_charge_is_given_back_for_itself),
	    OF_A_PAIR(a_refund_wakes_those_who_wait_where_it_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
