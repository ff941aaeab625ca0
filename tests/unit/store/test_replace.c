/* Tests requests that replace the oldest uses of a log, while others acquire from it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cell.h"
#include "store/apply_step.h"

#define NOW     (UINT64_C(19675) * NS_PER_DAY)
#define COUNT   5
#define THREADS 4
#define ROUNDS  20000

static struct {
	struct algo_limit limit;
	struct cell header, record[ALGO_WIDTH_MOST];
	uint64_t now_ns; /* moves on by a nanosecond for each call */
	unsigned allowed;
} log_state;

static struct algo_decision call(const struct algo_call *what)
{
	uint64_t now_ns = __atomic_add_fetch(&log_state.now_ns, 1, __ATOMIC_RELAXED);
	struct algo_time time = algo_time_at(&log_state.limit, (struct moment){now_ns, now_ns});
	struct record_state at = {
	    &log_state.header, .record = {log_state.record, log_state.limit.width, KEYLESS_TAG, true}};
	struct algo_decision out;

	wide_apply_cell(&at, &log_state.limit, what, &time, &out);
	return out;
}

static void begin(void)
{
	const struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                           .rate = {COUNT, 1, WEIR_UNIT_HOUR}};

	memset(&log_state, 0, sizeof log_state);
	log_state.now_ns = NOW;
	assert_int_equal(algo_limit_init(&log_state.limit, &options, NULL), WEIR_OK);
	for (unsigned i = 0; i < COUNT; i++)
		assert_true(call(&(struct algo_call){ALGO_ACQUIRE, 1}).allowed);
}

static void *replace_always(void *unused)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		call(&(struct algo_call){ALGO_REPLACE, 1});
	return unused;
}

static void *ask_always(void *unused)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		if (call(&(struct algo_call){ALGO_ACQUIRE, 1}).allowed)
			__atomic_add_fetch(&log_state.allowed, 1, __ATOMIC_RELAXED);
	return unused;
}

static void a_full_log_admits_no_other_request_while_its_oldest_uses_are_replaced(void **unused)
{
	pthread_t ids[THREADS];

	(void)unused;
	begin();
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, i % 2 ? ask_always : replace_always, NULL),
		                 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	assert_int_equal(log_state.allowed, 0);
	assert_int_equal(call(&(struct algo_call){ALGO_PEEK, 1}).remaining, 0);
}

static void a_log_retains_and_refunds_the_newest_uses(void **unused)
{
	const uint64_t later_ns = 60 * NS_PER_S;

	(void)unused;
	begin();
	log_state.now_ns += later_ns;
	assert_true(call(&(struct algo_call){ALGO_REPLACE, 1}).allowed);
	assert_true(call(&(struct algo_call){ALGO_REPLACE, 1}).allowed);
	assert_false(call(&(struct algo_call){ALGO_ACQUIRE, 1}).allowed);
	/* Three of the first five count, and two that are a minute younger. */
	assert_int_equal(call(&(struct algo_call){ALGO_REFUND_REPLACED, 2}).remaining, 2);
	log_state.now_ns = NOW + 3600 * NS_PER_S + 1;
	assert_int_equal(call(&(struct algo_call){ALGO_PEEK, 1}).remaining, 2);
	log_state.now_ns = NOW + 3600 * NS_PER_S + 5;
	assert_int_equal(call(&(struct algo_call){ALGO_PEEK, 1}).remaining, COUNT);
}

static void a_log_with_capacity_appends_as_usual(void **unused)
{
	(void)unused;
	begin();
	call(&(struct algo_call){ALGO_REFUND, 3});
	assert_int_equal(call(&(struct algo_call){ALGO_REPLACE, 1}).remaining, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_full_log_admits_no_other_request_while_its_oldest_uses_are_replaced),
	    cmocka_unit_test(a_log_retains_and_refunds_the_newest_uses),
	    cmocka_unit_test(a_log_with_capacity_appends_as_usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
