/*
 * When configurations are freed: real workers hold on to the one that they have seen, however
 * many took over since, and let go of it in the turn that they are woken for.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "server/config.h"
#include "server/worker.h"

#define WORKERS 2

static _Atomic unsigned freed;

void __real_weir_engine_close(weir_engine *engine);
void __wrap_weir_engine_close(weir_engine *engine);

void __wrap_weir_engine_close(weir_engine *engine)
{
	__real_weir_engine_close(engine);
	freed++;
}

static struct server_config *make(struct worker_shared *shared)
{
	static const char text[] = "limits: { uses: { algorithm: token_bucket, rate: 1/s } }\n";
	struct server_config *config = calloc(1, sizeof *config);

	config->references = 1;
	assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &config->rules, NULL), 0);
	assert_int_equal(server_config_compile(config, shared->table, shared->metrics, NULL), 0);
	return config;
}

static void wake_all(struct worker *workers)
{
	for (size_t i = 0; i < WORKERS; i++)
		net_loop_wake(workers[i].loop);
}

static void wait_for_freed(unsigned n)
{
	uint64_t end_ns = os_monotonic_ns() + 60 * NS_PER_S;

	while (freed < n) {
		assert_true(os_monotonic_ns() < end_ns);
		sched_yield();
	}
	assert_int_equal(freed, n);
}

static void workers_keep_what_they_have_seen_and_all_that_took_over(void **state)
{
	struct worker_shared shared = {
	    .limits = CODEC_LIMITS_DEFAULT, .threads = WORKERS, .gate.max = 10};
	struct server_config *config;
	struct worker workers[WORKERS];

	(void)state;
	shared.metrics = metrics_open(WORKERS);
	shared.top = top_open(WORKERS);
	assert_int_equal(weir_table_open(NULL, &shared.table, NULL), 0);
	config = make(&shared);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(worker_open(&workers[i], &shared, i, config), 0);
	for (size_t i = 0; i < 3; i++)
		server_config_succeed(&config, make(&shared));
	/* The workers refer to the first alone, and each refers to the next. */
	assert_int_equal(freed, 0);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(worker_start(&workers[i]), 0);
	wake_all(workers);
	wait_for_freed(3);
	server_config_succeed(&config, make(&shared));
	wake_all(workers);
	wait_for_freed(4);
	for (size_t i = 0; i < WORKERS; i++) {
		net_loop_stop(workers[i].loop);
		worker_join(&workers[i]);
		worker_close(&workers[i]);
	}
	assert_int_equal(freed, 4);
	server_config_drop(config);
	assert_int_equal(freed, 5);
	weir_table_close(shared.table);
	metrics_close(shared.metrics);
	top_close(shared.top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(workers_keep_what_they_have_seen_and_all_that_took_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
