/* A key that is forgotten: once, whoever else forgets it at that instant. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"

#define NOW     UINT64_C(1700000000000000000)
#define THREADS 4
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 100000
#else
#define ROUNDS 500000
#endif

struct fixture {
	struct store *store;
	struct algo_limit limit; /* one in an hour */
	pthread_barrier_t start;
	unsigned taken, forgotten;
};

static struct store_step step_of(const struct fixture *f, unsigned number, uint64_t now_ns)
{
	uint64_t hash = store_hash(f->store, 1, &number, sizeof number);

	return (struct store_step){
	    .store = f->store,
	    .limit = &f->limit,
	    .key = store_key(f->store, &f->limit, hash),
	    .call = {.op = ALGO_ACQUIRE, .cost = 1},
	    .at = moment_given(now_ns),
	};
}

static bool take(struct fixture *f, unsigned number, uint64_t now_ns)
{
	const struct algo_limit *by = &f->limit;
	const struct store_step step = step_of(f, number, now_ns);
	struct algo_decision outcome;

	algo_decision_allow(&outcome);
	store_run(&step, &by, &outcome);
	return outcome.allowed;
}

static bool forget(struct fixture *f, unsigned number, uint64_t now_ns)
{
	const struct store_step step = step_of(f, number, now_ns);

	return store_forget(&step);
}

static void open_fixture(struct fixture *f)
{
	struct weir_limit_options options = {.rate = {1, 1, WEIR_UNIT_HOUR}, .burst = 1};

	assert_int_equal(store_open(&(struct weir_table_options){.capacity = 1000}, &f->store, NULL),
	                 WEIR_OK);
	assert_int_equal(algo_limit_init(&f->limit, &options, NULL), WEIR_OK);
	f->taken = f->forgotten = 0;
}

static void a_key_is_new_when_it_was_forgotten_and_no_other_is(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f);
	assert_false(forget(&f, 0, NOW));
	for (unsigned i = 0; i < 100; i++)
		assert_true(take(&f, i, NOW));
	assert_true(forget(&f, 7, NOW));
	assert_false(forget(&f, 7, NOW));
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(take(&f, i, NOW), i == 7);
	store_close(f.store);
}

static void what_has_nothing_left_to_say_is_not_forgotten(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f);
	assert_true(take(&f, 0, NOW));
	assert_false(forget(&f, 0, NOW + 3600 * NS_PER_S));
	assert_true(forget(&f, 0, NOW + 3600 * NS_PER_S - 1));
	store_close(f.store);
}

static void *run(void *context)
{
	struct fixture *f = context;
	unsigned taken = 0, forgotten = 0;

	pthread_barrier_wait(&f->start);
	for (unsigned i = 0; i < ROUNDS; i++) {
		taken += take(f, 0, NOW);
		forgotten += forget(f, 0, NOW);
	}
	__atomic_fetch_add(&f->taken, taken, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->forgotten, forgotten, __ATOMIC_RELAXED);
	return NULL;
}

/* Its one is taken again only after somebody has forgotten it. */
static void what_threads_forget_is_what_others_took(void **state)
{
	pthread_t ids[THREADS];
	struct fixture f;

	(void)state;
	open_fixture(&f);
	pthread_barrier_init(&f.start, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run, &f), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	assert_int_equal(f.forgotten, f.taken);
	pthread_barrier_destroy(&f.start);
	store_close(f.store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_is_new_when_it_was_forgotten_and_no_other_is),
	    cmocka_unit_test(what_has_nothing_left_to_say_is_not_forgotten),
	    cmocka_unit_test(what_threads_forget_is_what_others_took),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
