/* Compares the demand of the last 10 s with a list of all requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "algo/priority/demand.h"
#include "base/prng.h"
#include "base/time/clock.h"

#define NOW    (UINT64_C(1700000000) * NS_PER_S)
#define ROUNDS 20000

struct model {
	struct {
		uint64_t part;
		unsigned priority;
	} asked[ROUNDS];
	size_t count;
	uint64_t newest;
};

static struct priority_demand model_demand(const struct model *model)
{
	struct priority_demand demand = {{0}};

	for (size_t i = 0; i < model->count; i++)
		if (model->asked[i].part + DEMAND_PARTS > model->newest)
			demand.calls[model->asked[i].priority]++;
	return demand;
}

static void expect_same(struct priority_demand found, struct priority_demand expected)
{
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		assert_int_equal(found.calls[c], expected.calls[c]);
}

static bool model_matters(const struct model *model, uint64_t now_ns)
{
	for (size_t i = 0; i < model->count; i++)
		if (model->asked[i].priority > 0 &&
		    model->asked[i].part + DEMAND_PARTS > now_ns / DEMAND_PART_NS)
			return true;
	return false;
}

/* In steps from none to many parts; sometimes by a clock that lags. */
static void demand_equals_that_of_a_model(void **unused)
{
	static struct model model;
	struct demand *demand = demand_open();
	uint64_t now_ns = NOW;

	(void)unused;
	prng_seed(1);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned priority = prng_next() % 3 ? 0 : prng_next() % PRIORITY_CLASSES;
		uint64_t at_ns, newest = model.newest;

		now_ns += prng_next() % (prng_next() % 50 ? NS_PER_S / 20 : 15 * NS_PER_S);
		at_ns = now_ns - (prng_next() % 8 ? 0 : prng_next() % (3 * NS_PER_S));
		assert_int_equal(demand_matters(demand, priority, at_ns),
		                 priority > 0 || model_matters(&model, at_ns));
		if (!demand_matters(demand, priority, at_ns))
			continue;
		if (at_ns / DEMAND_PART_NS > model.newest)
			model.newest = at_ns / DEMAND_PART_NS;
		model.asked[model.count].part = model.newest;
		model.asked[model.count++].priority = priority;
		expect_same(demand_peek(demand, priority, at_ns), model_demand(&model));
		if (prng_next() % 4) {
			expect_same(demand_add(demand, priority, at_ns), model_demand(&model));
		} else { /* it only asked */
			model.count--;
			model.newest = newest;
		}
	}
	demand_close(demand);
}

static void a_clock_that_was_set_back_begins_anew(void **unused)
{
	struct demand *demand = demand_open();

	(void)unused;
	for (int i = 0; i < 5; i++)
		demand_add(demand, 3, NOW + NS_PER_DAY);
	assert_int_equal(demand_peek(demand, 3, NOW).calls[3], 1);
	assert_int_equal(demand_add(demand, 3, NOW).calls[3], 1);
	assert_int_equal(demand_add(demand, 3, NOW + 10 * NS_PER_S).calls[3], 1);
	demand_close(demand);
}

static void requests_of_one_priority_change_nothing(void **unused)
{
	struct demand *demand = demand_open();

	(void)unused;
	assert_false(demand_matters(demand, 0, 0));
	assert_false(demand_matters(demand, 0, NOW));
	demand_add(demand, 9, NOW);
	assert_true(demand_matters(demand, 0, NOW + 9 * NS_PER_S));
	assert_false(demand_matters(demand, 0, NOW + 10 * NS_PER_S));
	demand_close(demand);
}

#define THREADS  4
#define PARTS    8
#define PER_PART 20000

struct asking {
	struct demand *demand;
	uint64_t now_ns;
};

static void *ask_often(void *asking)
{
	const struct asking *at = asking;

	for (uint64_t i = 0; i < PER_PART; i++)
		demand_add(at->demand, i % PRIORITY_CLASSES, at->now_ns);
	return NULL;
}

/* While a part goes on. One that begins may miss what others count at that instant: demand.h. */
static void requests_of_concurrent_threads_are_all_counted(void **unused)
{
	struct asking at = {.demand = demand_open()};
	pthread_t threads[THREADS];
	struct priority_demand all;

	(void)unused;
	for (unsigned part = 0; part < PARTS; part++) {
		at.now_ns = NOW + part * NS_PER_S;
		demand_add(at.demand, 0, at.now_ns);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, ask_often, &at);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	all = demand_peek(at.demand, 0, at.now_ns);
	all.calls[0] -= 1 + PARTS;
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		assert_int_equal(all.calls[c], PARTS * THREADS * PER_PART / PRIORITY_CLASSES);
	demand_add(at.demand, 0, NOW + 60 * NS_PER_S);
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
		assert_int_equal(at.demand->totals[c], c == 0); /* none was taken away twice */
	demand_close(at.demand);
}

static void a_successor_takes_over_the_demand(void **unused)
{
	struct demand *old = demand_open(), *new = demand_open();

	(void)unused;
	for (uint64_t i = 0; i < 100; i++)
		demand_add(old, i % 4, NOW + i * NS_PER_S / 20);
	demand_copy(new, old);
	assert_true(demand_matters(new, 0, NOW + 5 * NS_PER_S));
	for (uint64_t s = 5; s < 20; s++)
		expect_same(demand_add(new, 7, NOW + s * NS_PER_S), demand_add(old, 7, NOW + s * NS_PER_S));
	demand_close(old);
	demand_close(new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(demand_equals_that_of_a_model),
	    cmocka_unit_test(a_clock_that_was_set_back_begins_anew),
	    cmocka_unit_test(requests_of_one_priority_change_nothing),
	    cmocka_unit_test(requests_of_concurrent_threads_are_all_counted),
	    cmocka_unit_test(a_successor_takes_over_the_demand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
