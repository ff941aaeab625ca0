/*
 * Threads that wait. Times are real, but no test depends on being fast: what must not
 * happen by itself takes an hour, and order is told by what was granted.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weir/limiter.h>

#include "base/os/os.h"
#include "engine/limit.h"
#include "engine/table.h"
#include "wait/sleep.h"

#define MS      UINT64_C(1000000)
#define THREADS 6

struct scene {
	weir_table *table;
	weir_limit *limit;
};

struct caller {
	struct scene *scene;
	const char *key;
	uint64_t cost;
	uint64_t deadline_ns;
	struct weir_permit *permit;
	pthread_t thread;
	struct weir_decision d;
	int status;
	bool done, seen; /* waiting, by call_in_order */
};

static struct scene open_scene(const struct weir_limit_options *options)
{
	struct scene scene;

	assert_int_equal(weir_limit_open(options, &scene.limit, NULL), 0);
	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 1000}, &scene.table, NULL), 0);
	return scene;
}

static void close_scene(struct scene *scene)
{
	weir_limit_close(scene->limit);
	weir_table_close(scene->table);
}

static void take(struct scene *scene, const char *key, uint64_t cost)
{
	struct weir_decision d;

	assert_int_equal(weir_acquire(scene->table, scene->limit, (struct weir_key){key, strlen(key)},
	                              cost, WEIR_NOW, &d),
	                 0);
	assert_true(d.allowed);
}

static void give_back(struct scene *scene, const char *key)
{
	struct weir_decision d;

	weir_refund(scene->table, scene->limit, (struct weir_key){key, strlen(key)}, 1, WEIR_NOW, &d);
}

static void *call(void *context)
{
	struct caller *caller = context;

	caller->status = weir_ask(caller->scene->table, caller->scene->limit,
	                          (struct weir_key){caller->key, strlen(caller->key)},
	                          &(struct weir_ask){.cost = caller->cost,
	                                             .deadline_ns = caller->deadline_ns,
	                                             .permit = caller->permit},
	                          &caller->d);
	__atomic_store_n(&caller->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_done(struct caller *caller)
{
	return __atomic_load_n(&caller->done, __ATOMIC_ACQUIRE);
}

static size_t waiting(struct scene *scene)
{
	struct waitlist *room = waitlist_at(&scene->table->waiting);

	return room ? waitlist_count(room) : 0;
}

/* One after the other: each waits, or is done, before the next comes. */
static void call_in_order(struct caller *callers, size_t n, struct scene *scene, const char *key,
                          uint64_t cost, uint64_t deadline_ns)
{
	for (size_t i = 0; i < n; i++) {
		size_t before = waiting(scene);

		callers[i] = (struct caller){scene, key, cost, deadline_ns};
		pthread_create(&callers[i].thread, NULL, call, &callers[i]);
		while (!(callers[i].seen = waiting(scene) > before) && !is_done(&callers[i]))
			sched_yield();
	}
}

static void join_all(struct caller *callers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pthread_join(callers[i].thread, NULL);
}

enum { BUCKET, CHANCE, PLACES, QUEUE, PACED, LIMITS };

/* Of a denial whose own reason is `shed`, or of what passed had nobody been there before. */
static void test_who_is_to_wait_and_how_long_at_most(void **state)
{
	static const struct weir_limit_options options[LIMITS] = {
	    [BUCKET] = {.rate = {1, 1, WEIR_UNIT_HOUR}},
	    [CHANCE] = {.algorithm = WEIR_ALGORITHM_RANDOM, .deny = 1},
	    [PLACES] = {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1},
	    [QUEUE] = {.algorithm = WEIR_ALGORITHM_CONCURRENCY,
	               .max = 1,
	               .queue = 2,
	               .max_wait_ns = 30},
	    [PACED] = {.algorithm = WEIR_ALGORITHM_PACER, .rate = {1, 1, WEIR_UNIT_HOUR}},
	};
	static const struct {
		int limit;
		enum wait_position position;
		uint64_t asked_ns, retry_ns, patience_ns;
		enum weir_reason reason;
	} rows[] = {
	    {BUCKET, WAIT_NEW, 20, 20, 20, WEIR_REASON_OK},
	    {BUCKET, WAIT_NEW, 20, 21, 20, WEIR_REASON_WAIT_TOO_LONG},
	    {BUCKET, WAIT_FIRST, 20, 21, 20, WEIR_REASON_WAIT_TOO_LONG},
	    {BUCKET, WAIT_NEW, 20, 0, 20, WEIR_REASON_OK},
	    {BUCKET, WAIT_NEW, 0, 1, 0, WEIR_REASON_SHED},
	    {BUCKET, WAIT_NEW, WEIR_ZERO, 1, 0, WEIR_REASON_SHED},
	    {BUCKET, WAIT_NEW, WEIR_ZERO, 0, 0, WEIR_REASON_OVER_LIMIT},
	    {BUCKET, WAIT_BEHIND, WEIR_ZERO, 1, 0, WEIR_REASON_WAIT_TOO_LONG},
	    {BUCKET, WAIT_LATE, WEIR_ZERO, 1, 0, WEIR_REASON_WAIT_TOO_LONG},
	    {CHANCE, WAIT_LATE, WEIR_ZERO, 1, 0, WEIR_REASON_WAIT_TOO_LONG},
	    {PACED, WAIT_LATE, WEIR_ZERO, 1, 0, WEIR_REASON_SHED},
	    {CHANCE, WAIT_NEW, 20, 21, 20, WEIR_REASON_OK},
	    {PLACES, WAIT_NEW, 20, 21, 20, WEIR_REASON_OK},
	    {PLACES, WAIT_NEW, 0, 21, 0, WEIR_REASON_SHED},
	    {QUEUE, WAIT_NEW, 0, 31, 30, WEIR_REASON_OK},
	    {QUEUE, WAIT_NEW, 20, 31, 20, WEIR_REASON_OK},
	    {QUEUE, WAIT_NEW, 40, 31, 30, WEIR_REASON_OK},
	    {QUEUE, WAIT_NEW, WEIR_ZERO, 31, 0, WEIR_REASON_SHED},
	    {PACED, WAIT_NEW, 20, 1, 0, WEIR_REASON_SHED},
	    {PACED, WAIT_FIRST, 20, 1, 0, WEIR_REASON_SHED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct weir_decision d = {.allowed = rows[i].retry_ns == 0,
		                          .reason = rows[i].retry_ns == 0 ? WEIR_REASON_OK : WEIR_REASON_SHED,
		                          .retry_after_ns = rows[i].retry_ns,
		                          .wait_ns = 5};
		weir_limit *limit;

		assert_int_equal(weir_limit_open(&options[rows[i].limit], &limit, NULL), 0);
		assert_int_equal(wait_patience_ns(&limit->algo, rows[i].asked_ns), rows[i].patience_ns);
		assert_int_equal(wait_refusal_reason(&limit->algo, rows[i].position, rows[i].asked_ns, &d), rows[i].reason);
		assert_int_equal(wait_queue_max(&limit->algo), rows[i].limit == QUEUE ? 2 : SIZE_MAX);
		wait_deny(&d, rows[i].reason);
		assert_false(d.allowed);
		assert_true(d.retry_after_ns > 0);
		assert_int_equal(d.wait_ns, 0);
		weir_limit_close(limit);
	}
}

static const struct weir_limit_options hourly = {.algorithm = WEIR_ALGORITHM_TOKEN_BUCKET,
                                                 .rate = {THREADS, THREADS, WEIR_UNIT_HOUR},
                                                 .burst = THREADS};

static void test_each_refund_goes_to_who_has_waited_longest(void **state)
{
	struct scene scene = open_scene(&hourly);
	struct caller callers[THREADS], other;

	(void)state;
	take(&scene, "key", THREADS);
	take(&scene, "other", THREADS);
	call_in_order(callers, THREADS, &scene, "key", 1, WEIR_FOREVER);
	call_in_order(&other, 1, &scene, "other", 1, WEIR_FOREVER);
	for (size_t i = 0; i < THREADS; i++) {
		give_back(&scene, "key");
		pthread_join(callers[i].thread, NULL);
		assert_true(callers[i].d.allowed);
		assert_true(callers[i].d.wait_ns > 0);
		for (size_t later = i + 1; later < THREADS; later++)
			assert_false(is_done(&callers[later]));
	}
	assert_false(is_done(&other));
	give_back(&scene, "other");
	pthread_join(other.thread, NULL);
	close_scene(&scene);
}

static void test_a_reset_serves_all_who_wait(void **state)
{
	struct scene scene = open_scene(&hourly);
	struct caller callers[THREADS];
	struct weir_decision d;

	(void)state;
	take(&scene, "key", THREADS);
	call_in_order(callers, THREADS, &scene, "key", 1, WEIR_FOREVER);
	weir_reset(scene.table, scene.limit, (struct weir_key){"key", 3}, WEIR_NOW, &d);
	join_all(callers, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(callers[i].d.remaining, THREADS - 1 - i);
	close_scene(&scene);
}

static void test_a_thread_that_is_cancelled_leaves_its_place(void **state)
{
	struct scene scene = open_scene(&hourly);
	struct caller callers[3];

	(void)state;
	take(&scene, "key", THREADS);
	call_in_order(callers, 3, &scene, "key", 1, WEIR_FOREVER);
	pthread_cancel(callers[0].thread);
	pthread_join(callers[0].thread, NULL);
	pthread_cancel(callers[1].thread);
	pthread_join(callers[1].thread, NULL);
	assert_int_equal(waiting(&scene), 1);
	give_back(&scene, "key");
	pthread_join(callers[2].thread, NULL);
	assert_true(callers[2].d.allowed);
	close_scene(&scene);
}

/* Each next is woken by the one before, within the window. */
static void test_a_new_window_is_granted_in_the_order_of_arrival(void **state)
{
	struct scene scene =
	    open_scene(&(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                            .align = WEIR_ALIGN_FIRST_REQUEST,
	                                            .rate = {THREADS, 200, WEIR_UNIT_MILLISECOND}});
	struct caller callers[THREADS];

	(void)state;
	take(&scene, "key", THREADS);
	call_in_order(callers, THREADS, &scene, "key", 1, WEIR_FOREVER);
	join_all(callers, THREADS);
	for (size_t i = 0; i < THREADS; i++) {
		/* Or in a third window, if the machine stood still. */
		uint64_t left = i > 0 ? callers[i - 1].d.remaining : THREADS;

		assert_true(callers[i].d.allowed);
		assert_true(callers[i].d.remaining == left - 1 || callers[i].d.remaining == THREADS - 1);
	}
	close_scene(&scene);
}

static void test_a_permit_comes_with_what_was_waited_for(void **state)
{
	struct scene scene = open_scene(&hourly);
	struct weir_permit permit, again;
	struct weir_decision d;
	struct caller caller = {&scene, "key", 2, WEIR_FOREVER, &permit};

	(void)state;
	take(&scene, "key", THREADS);
	pthread_create(&caller.thread, NULL, call, &caller);
	while (waiting(&scene) == 0)
		sched_yield();
	weir_reset(scene.table, scene.limit, (struct weir_key){"key", 3}, WEIR_NOW, &d);
	pthread_join(caller.thread, NULL);
	assert_true(caller.d.allowed);
	assert_int_equal(permit.cost, 2);

	/* Given back by its permit, it wakes the next. */
	take(&scene, "key", THREADS - 2);
	caller = (struct caller){&scene, "key", 1, WEIR_FOREVER, &again};
	pthread_create(&caller.thread, NULL, call, &caller);
	while (waiting(&scene) == 0)
		sched_yield();
	assert_int_equal(weir_refund_permit(scene.table, scene.limit, (struct weir_key){"key", 3},
	                                    &permit, WEIR_NOW, &d),
	                 0);
	pthread_join(caller.thread, NULL);
	assert_true(caller.d.allowed);
	assert_int_not_equal(again.id, permit.id);
	assert_int_equal(weir_refund_permit(scene.table, scene.limit, (struct weir_key){"key", 3},
	                                    &permit, WEIR_NOW, &d),
	                 WEIR_ENOTFOUND);
	caller = (struct caller){&scene, "key", 2, WEIR_NOW, &again};
	call(&caller);
	assert_false(caller.d.allowed);
	assert_int_equal(again.id, 0);
	close_scene(&scene);
}

/* A place has no time to wait for: only who gives it back brings it. */
static void test_a_place_is_waited_for_and_the_queue_is_bounded(void **state)
{
	struct scene scene = open_scene(&(struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1, .queue = 2});
	struct weir_permit permit, next[2];
	struct caller callers[2], third;
	struct weir_decision d;

	(void)state;
	assert_int_equal(weir_ask(scene.table, scene.limit, (struct weir_key){"key", 3},
	                          &(struct weir_ask){.permit = &permit}, &d),
	                 0);
	for (size_t i = 0; i < 2; i++) {
		callers[i] = (struct caller){&scene, "key", 1, WEIR_FOREVER, &next[i]};
		pthread_create(&callers[i].thread, NULL, call, &callers[i]);
		while (waiting(&scene) <= i)
			sched_yield();
	}
	third = (struct caller){&scene, "key", 1, WEIR_FOREVER, NULL};
	call(&third);
	assert_int_equal(third.d.reason, WEIR_REASON_QUEUE_FULL);
	third.deadline_ns = WEIR_NOW;
	call(&third);
	assert_int_equal(third.d.reason, WEIR_REASON_OVER_LIMIT);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(weir_report(scene.table, scene.limit, (struct weir_key){"key", 3}, &permit,
		                             &(struct weir_report){0}),
		                 0);
		pthread_join(callers[i].thread, NULL);
		assert_true(callers[i].d.allowed);
		permit = next[i];
	}
	close_scene(&scene);
}

struct lock {
	struct scene *scene;
	unsigned rounds, *inside;
};

static void *hold_and_give_back(void *context)
{
	struct lock *lock = context;
	struct weir_decision d;

	for (unsigned r = 0; r < lock->rounds; r++) {
		if (weir_ask(lock->scene->table, lock->scene->limit, (struct weir_key){"key", 3},
		             &(struct weir_ask){.deadline_ns = WEIR_FOREVER}, &d) != 0 ||
		    !d.allowed)
			abort();
		if (__atomic_fetch_add(lock->inside, 1, __ATOMIC_ACQ_REL) != 0)
			abort();
		__atomic_fetch_sub(lock->inside, 1, __ATOMIC_ACQ_REL);
		give_back(lock->scene, "key");
	}
	return NULL;
}

/* A token that comes back in an hour, or by the thread that has it. */
static void test_no_wake_is_lost(void **state)
{
	struct scene scene =
	    open_scene(&(struct weir_limit_options){.rate = {1, 1, WEIR_UNIT_HOUR}, .burst = 1});
	unsigned inside = 0;
	struct lock lock = {&scene, 3000, &inside};
	pthread_t threads[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, hold_and_give_back, &lock);
	for (size_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(waiting(&scene), 0);
	close_scene(&scene);
}

static void test_a_request_whose_wait_is_too_short_is_denied_at_once(void **state)
{
	struct scene scene = open_scene(&hourly);
	struct caller caller;

	(void)state;
	take(&scene, "key", THREADS);
	call_in_order(&caller, 1, &scene, "key", 1, os_wall_ns() + 600 * 1000 * MS);
	join_all(&caller, 1);
	assert_int_equal(caller.status, 0);
	assert_false(caller.d.allowed);
	assert_int_equal(caller.d.reason, WEIR_REASON_WAIT_TOO_LONG);
	assert_true(caller.d.retry_after_ns > 3000 * 1000 * MS);
	assert_int_equal(caller.d.wait_ns, 0);
	close_scene(&scene);
}

/* A token is free, but not for who comes while another waits for more. */
static void test_who_would_not_wait_is_not_let_by(void **state)
{
	struct scene scene = open_scene(&hourly);
	struct caller first, second;

	(void)state;
	take(&scene, "key", THREADS);
	call_in_order(&first, 1, &scene, "key", 1, WEIR_NOW);
	join_all(&first, 1);
	assert_false(first.d.allowed);
	assert_int_equal(first.d.reason, WEIR_REASON_OVER_LIMIT);

	call_in_order(&first, 1, &scene, "key", 2, WEIR_FOREVER);
	give_back(&scene, "key");
	call_in_order(&second, 1, &scene, "key", 1, WEIR_NOW);
	join_all(&second, 1);
	assert_false(second.d.allowed);
	assert_int_equal(second.d.reason, WEIR_REASON_OVER_LIMIT);
	assert_true(second.d.retry_after_ns > 0);
	call_in_order(&second, 1, &scene, "key", 1, os_wall_ns() + 20 * MS);
	join_all(&second, 1);
	assert_false(second.d.allowed);
	assert_int_equal(second.d.reason, WEIR_REASON_WAIT_TOO_LONG);
	assert_false(is_done(&first));
	give_back(&scene, "key");
	join_all(&first, 1);
	assert_true(first.d.allowed);
	assert_int_equal(weir_ask(scene.table, scene.limit, (struct weir_key){"key", 3},
	                          &(struct weir_ask){.cost = THREADS + 1, .deadline_ns = WEIR_NOW},
	                          &first.d),
	                 WEIR_ECOST);
	close_scene(&scene);
}

/* If no time is known, a request waits until its deadline, and then the next one is first. */
static void test_a_deadline_is_kept(void **state)
{
	struct scene scene = open_scene(&(struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_RANDOM, .deny = 1, .retry_ns = 3600 * 1000 * MS});
	uint64_t start_ns = os_monotonic_ns();
	struct caller callers[2];

	(void)state;
	call_in_order(&callers[0], 1, &scene, "key", 1, os_wall_ns() + 20 * MS);
	call_in_order(&callers[1], 1, &scene, "key", 1, os_wall_ns() + 40 * MS);
	join_all(callers, 2);
	assert_true(os_monotonic_ns() - start_ns >= 39 * MS);
	for (size_t i = 0; i < 2; i++) {
		assert_false(callers[i].d.allowed);
		assert_int_equal(callers[i].d.reason, WEIR_REASON_WAIT_TOO_LONG);
		assert_int_equal(callers[i].d.retry_after_ns, 3600 * 1000 * MS);
		assert_true(callers[i].d.wait_ns > 0 || !callers[i].seen);
	}
	assert_int_equal(waiting(&scene), 0);
	close_scene(&scene);
}

static enum weir_reason reason_at(struct scene *scene, uint64_t cost, uint64_t deadline_ns)
{
	struct weir_decision d;

	assert_int_equal(
	    weir_ask(scene->table, scene->limit, (struct weir_key){"key", 3},
	             &(struct weir_ask){.cost = cost ? cost : WEIR_ZERO, .deadline_ns = deadline_ns},
	             &d),
	    0);
	assert_int_equal(d.wait_ns, 0);
	return d.reason;
}

/* WEIR_NOW is no deadline: the caller does not want to wait. */
static void test_a_deadline_that_is_over_is_the_reason_of_a_denial(void **state)
{
	static const struct weir_limit_options limits[] = {
	    {.rate = {1, 1, WEIR_UNIT_HOUR}},
	    {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {1, 1, WEIR_UNIT_YEAR}},
	    {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {1, 1, WEIR_UNIT_HOUR}},
	    {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1, .queue = 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct scene scene = open_scene(&limits[i]);

		assert_int_not_equal(reason_at(&scene, 1, 1), WEIR_REASON_WAIT_TOO_LONG); /* it passes */
		assert_int_equal(reason_at(&scene, 1, 1), WEIR_REASON_WAIT_TOO_LONG);
		assert_int_equal(reason_at(&scene, 1, os_wall_ns() - 1), WEIR_REASON_WAIT_TOO_LONG);
		assert_int_equal(reason_at(&scene, 1, WEIR_NOW), WEIR_REASON_OVER_LIMIT);
		assert_int_equal(reason_at(&scene, 0, 1), WEIR_REASON_OVER_LIMIT); /* it would not wait */
		close_scene(&scene);
	}
}

static void test_max_wait_bounds_the_wait_of_a_queue(void **state)
{
	struct scene scene = open_scene(&(struct weir_limit_options){
	    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1, .queue = 1, .max_wait_ns = 20 * MS});
	struct caller caller = {&scene, "key", 1, WEIR_FOREVER};

	(void)state;
	take(&scene, "key", 1);
	call(&caller);
	assert_false(caller.d.allowed);
	assert_int_equal(caller.d.reason, WEIR_REASON_WAIT_TOO_LONG);
	assert_true(caller.d.wait_ns >= 20 * MS);
	close_scene(&scene);
}

static void test_turns_are_slept_for(void **state)
{
	struct scene scene =
	    open_scene(&(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_PACER,
	                                            .rate = {1, 10, WEIR_UNIT_MILLISECOND},
	                                            .slack = WEIR_ZERO});
	uint64_t start_ns = os_monotonic_ns();
	struct caller caller, late;

	(void)state;
	/* A request that comes later than a turn after the last is not held. */
	for (size_t i = 0, held = 0; held < 2; i++, held += caller.d.wait_ns > 0) {
		caller = (struct caller){&scene, "key", 1, WEIR_FOREVER};
		call(&caller);
		assert_true(caller.d.allowed);
		assert_true(os_monotonic_ns() - start_ns + MS / 1000 >= 10 * MS * i);
	}
	take(&scene, "key", 500);
	late = (struct caller){&scene, "key", 1, os_wall_ns() + MS};
	call(&late);
	assert_false(late.d.allowed);
	assert_int_equal(late.d.reason, WEIR_REASON_WAIT_TOO_LONG);
	close_scene(&scene);
}

static void *call_limiter(void *context)
{
	struct weir_decision d;

	return weir_limiter_ask(context, &(struct weir_ask){.deadline_ns = WEIR_FOREVER}, &d) == 0 &&
	               d.allowed
	           ? context
	           : NULL;
}

static void test_a_limiter_wakes_who_waits_for_it(void **state)
{
	weir_limiter *limiter;
	struct weir_decision d;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(weir_limiter_open(&hourly, &limiter, NULL), 0);
	for (int by_reset = 0; by_reset < 2; by_reset++) {
		weir_limiter_reset(limiter, WEIR_NOW, &d);
		weir_limiter_acquire(limiter, THREADS, WEIR_NOW, &d);
		pthread_create(&thread, NULL, call_limiter, limiter);
		do {
			if (by_reset)
				weir_limiter_reset(limiter, WEIR_NOW, &d);
			else
				weir_limiter_refund(limiter, 1, WEIR_NOW, &d);
			sched_yield();
		} while (pthread_tryjoin_np(thread, &result) != 0);
		assert_ptr_equal(result, limiter);
	}
	do
		weir_limiter_acquire(limiter, 1, WEIR_NOW, &d);
	while (d.allowed);
	assert_int_equal(weir_limiter_ask(limiter, &(struct weir_ask){.deadline_ns = 1}, &d), 0);
	assert_int_equal(d.reason, WEIR_REASON_WAIT_TOO_LONG);
	assert_int_equal(weir_limiter_ask(limiter, &(struct weir_ask){.deadline_ns = WEIR_NOW}, &d), 0);
	assert_int_equal(d.reason, WEIR_REASON_OVER_LIMIT);
	assert_int_equal(
	    weir_limiter_ask(limiter, &(struct weir_ask){.cost = THREADS + 1, .deadline_ns = WEIR_NOW},
	                     &d),
	    WEIR_ECOST);
	weir_limiter_close(limiter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_who_is_to_wait_and_how_long_at_most),
	    cmocka_unit_test(test_each_refund_goes_to_who_has_waited_longest),
	    cmocka_unit_test(test_a_reset_serves_all_who_wait),
	    cmocka_unit_test(test_a_thread_that_is_cancelled_leaves_its_place),
	    cmocka_unit_test(test_a_new_window_is_granted_in_the_order_of_arrival),
	    cmocka_unit_test(test_a_permit_comes_with_what_was_waited_for),
	    cmocka_unit_test(test_a_place_is_waited_for_and_the_queue_is_bounded),
	    cmocka_unit_test(test_no_wake_is_lost),
	    cmocka_unit_test(test_a_request_whose_wait_is_too_short_is_denied_at_once),
	    cmocka_unit_test(test_who_would_not_wait_is_not_let_by),
	    cmocka_unit_test(test_a_deadline_is_kept),
	    cmocka_unit_test(test_a_deadline_that_is_over_is_the_reason_of_a_denial),
	    cmocka_unit_test(test_max_wait_bounds_the_wait_of_a_queue),
	    cmocka_unit_test(test_turns_are_slept_for),
	    cmocka_unit_test(test_a_limiter_wakes_who_waits_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
