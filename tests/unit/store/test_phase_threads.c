/* Tests threads that meet at a breaker's phase change: each change is made and reported once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/outcomes/breaker_state.h"
#include "store/memory.h"

#define NOW     (UINT64_C(1700000000) * NS_PER_S)
#define S       NS_PER_S
#define THREADS 4
#define ROUNDS  300

static struct algo_limit limit;
static struct store *store;

/* A thread's task in each round, with its permit of that round. */
struct worker {
	pthread_t thread;
	enum weir_outcome outcome;
	unsigned round;
	uint64_t now_ns, permit_ns;
	unsigned turns[BREAKER_FORCED_CLOSED + 1]; /* by phase that it turned to */
};

static pthread_barrier_t barrier;

static void begin(struct weir_breaker_options breaker)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BREAKER, .keys = 10, .breaker = &breaker};

	assert_int_equal(store_open(&(struct weir_table_options){.capacity = 1000}, &store, NULL),
	                 WEIR_OK);
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	limit.identity = 1;
}

static void end(void)
{
	algo_limit_free(&limit);
	store_close(store);
}

static uint64_t call(struct algo_call call, uint64_t now_ns, struct algo_decision *out)
{
	const struct algo_limit *by = &limit;
	struct store_step step = {
	    .store = store, .limit = by, .call = call, .at = moment_given(now_ns)};

	if (store_admit(store, by, store_hash(store, 1, "key", 3), &step.key) != WEIR_OK)
		abort();
	return store_run(&step, &by, out);
}

static void note(struct worker *worker, const struct algo_decision *out)
{
	for (uint8_t i = 0; i < out->phase_change_count; i++)
		worker->turns[out->phase_changes[i].to]++;
}

static void report(struct worker *worker)
{
	struct algo_decision out;

	if (worker->permit_ns == 0)
		return;
	call((struct algo_call){.op = ALGO_REPORT,
	                        .cost = 1,
	                        .until_ns = worker->permit_ns,
	                        .outcome = worker->outcome,
	                        .latency_ns = 1},
	     worker->now_ns, &out);
	note(worker, &out);
}

static void acquire(struct worker *worker)
{
	struct algo_decision out;

	worker->permit_ns =
	    call((struct algo_call){.op = ALGO_ACQUIRE, .cost = 1}, worker->now_ns, &out);
	note(worker, &out);
}

static void *run(void *context)
{
	struct worker *worker = context;

	pthread_barrier_wait(&barrier);
	(worker->permit_ns ? report : acquire)(worker);
	return NULL;
}

/* All at once; returns how often they turned it to `phase` together. */
static unsigned meet(struct worker workers[THREADS], enum breaker_phase phase)
{
	unsigned turns = 0;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&barrier);
	for (size_t i = 0; i < THREADS; i++) {
		turns += workers[i].turns[phase];
		workers[i].turns[phase] = 0;
	}
	return turns;
}

static void set(struct worker workers[THREADS], uint64_t now_ns, enum weir_outcome outcome)
{
	for (size_t i = 0; i < THREADS; i++) {
		workers[i].now_ns = now_ns;
		workers[i].outcome = outcome;
	}
}

static void two_threads_opening_at_once_open_it_once(void **unused)
{
	struct worker workers[THREADS] = {0};
	uint64_t now_ns = NOW;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1, .ramp_ns = WEIR_ZERO});
	for (unsigned round = 0; round < ROUNDS; round++, now_ns += S) {
		unsigned probes = 0;

		set(workers, now_ns, WEIR_OUTCOME_FAILURE);
		for (size_t i = 0; i < THREADS; i++) {
			acquire(&workers[i]);
			assert_int_not_equal(workers[i].permit_ns, 0);
		}
		assert_int_equal(meet(workers, BREAKER_OPEN), 1);
		/* After its sleep one of them gets the probe, and so turns it, once. */
		now_ns += 5 * S;
		set(workers, now_ns, WEIR_OUTCOME_SUCCESS);
		for (size_t i = 0; i < THREADS; i++)
			workers[i].permit_ns = 0;
		assert_int_equal(meet(workers, BREAKER_HALF_OPEN), 1);
		for (size_t i = 0; i < THREADS; i++)
			probes += workers[i].permit_ns != 0;
		assert_int_equal(probes, 1);
		for (size_t i = 0; i < THREADS; i++)
			report(&workers[i]);
		for (size_t i = 0; i < THREADS; i++) {
			workers[i].permit_ns = 0;
			workers[i].turns[BREAKER_CLOSED] = 0;
		}
	}
	end();
}

/* Three good probes and a bad one, reported at once: it opens or closes, and does so once. */
static void probes_that_end_at_once_change_the_phase_once(void **unused)
{
	struct worker workers[THREADS] = {0};
	uint64_t now_ns = NOW;
	struct algo_decision out;

	(void)unused;
	begin((struct weir_breaker_options){.minimum = 1, .probes = THREADS, .ramp_ns = WEIR_ZERO});
	for (unsigned round = 0; round < ROUNDS; round++, now_ns += S) {
		struct worker first = {.now_ns = now_ns, .outcome = WEIR_OUTCOME_FAILURE};

		acquire(&first);
		report(&first);
		now_ns += 5 * S;
		set(workers, now_ns, WEIR_OUTCOME_SUCCESS);
		workers[round % THREADS].outcome = round % 2 ? WEIR_OUTCOME_FAILURE : WEIR_OUTCOME_SUCCESS;
		for (size_t i = 0; i < THREADS; i++)
			acquire(&workers[i]);
		assert_int_equal(meet(workers, round % 2 ? BREAKER_OPEN : BREAKER_CLOSED), 1);
		for (size_t i = 0; i < THREADS; i++)
			workers[i] = (struct worker){0};
		call((struct algo_call){.op = ALGO_RESET}, now_ns, &out);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_threads_opening_at_once_open_it_once),
	    cmocka_unit_test(probes_that_end_at_once_change_the_phase_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
