/*
 * Tests when configurations are freed. Real workers hold a reference to the configuration that they
 * have seen, however often it was replaced, and release it in the iteration that a reload wakes
 * them for. A request that waits holds a reference to its own configuration.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os/os.h"
#include "server/config/config.h"
#include "server/loop/worker.h"

#include "loopback.h"

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
	static const char text[] =
	    "limits: { uses: { algorithm: token_bucket, rate: 2/h, burst: 1 } }\n";
	struct server_config *config = calloc(1, sizeof *config);

	config->references = 1;
	assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &config->rules, NULL), 0);
	assert_int_equal(
	    server_config_compile(config, NULL, shared->table, &shared->stores, shared->metrics, NULL),
	    0);
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

struct fixture {
	struct worker_shared shared;
	struct server_config *config;
	struct worker workers[WORKERS];
	struct sockaddr_in address[WORKERS];
};

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	f->shared.bounds = CODEC_BOUNDS_DEFAULT;
	f->shared.threads = WORKERS;
	f->shared.conn_limit.max = 10;
	f->shared.metrics = metrics_open(WORKERS);
	f->shared.top = top_open(WORKERS);
	assert_int_equal(weir_table_open(NULL, &f->shared.table, NULL), 0);
	f->config = make(&f->shared);
	for (size_t i = 0; i < WORKERS; i++) {
		assert_int_equal(worker_open(&f->workers[i], &f->shared, i, f->config), 0);
		assert_int_equal(
		    worker_listen(&f->workers[i], &worker_resp, false, listen_somewhere(&f->address[i])),
		    0);
	}
	freed = 0;
	*state = f;
	return 0;
}

static void start_all(struct fixture *f)
{
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(worker_start(&f->workers[i]), 0);
}

/* Returns how many configurations the workers have freed; the last one is freed afterwards. */
static unsigned end(struct fixture *f)
{
	unsigned before;

	for (size_t i = 0; i < WORKERS; i++) {
		net_loop_stop(f->workers[i].loop);
		worker_join(&f->workers[i]);
		worker_close(&f->workers[i]);
	}
	before = freed;
	server_config_release(f->config);
	assert_int_equal(freed, before + 1);
	weir_table_close(f->shared.table);
	metrics_close(f->shared.metrics);
	top_close(f->shared.top);
	free(f);
	return before;
}

/* Replaces the configuration `times` times. */
static void reload(struct fixture *f, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		server_config_replace(&f->config, make(&f->shared));
}

static void workers_retain_the_configuration_they_have_seen_and_its_successors(void **state)
{
	struct fixture *f = *state;

	reload(f, 3);
	/* The workers refer to the first configuration alone, and each one refers to the next. */
	assert_int_equal(freed, 0);
	start_all(f);
	wake_all(f->workers);
	wait_for_freed(3);
	reload(f, 1);
	wake_all(f->workers);
	wait_for_freed(4);
	assert_int_equal(end(f), 4);
}

/* Sends a command, and reads the whole answer, which must be `want`. */
static void send_and_expect(int fd, const char *command, const char *want)
{
	char got[64];
	size_t len = strlen(want);

	assert_int_equal(send(fd, command, strlen(command), MSG_NOSIGNAL), strlen(command));
	if (len > 0) {
		assert_int_equal(recv(fd, got, len, MSG_WAITALL), len);
		assert_memory_equal(got, want, len);
	}
}

static void wait_for_held(const struct fixture *f, size_t worker, uint64_t n)
{
	uint64_t end_ns = os_monotonic_ns() + 60 * NS_PER_S;

	while (atomic_load(&metrics_loop(f->shared.metrics, worker)->pending_answers) != n) {
		assert_true(os_monotonic_ns() < end_ns);
		sched_yield();
	}
}

static void a_waiting_request_retains_its_configuration(void **state)
{
	static const char acquire[] = "WEIR.ACQUIRE uses k WAIT 3000000\r\n", pong[] = "+PONG\r\n";
	struct fixture *f = *state;
	int clients[3];

	start_all(f);
	for (size_t i = 0; i < 3; i++) /* the first passes; the others wait on both loops */
		clients[i] = dial_to(&f->address[i % WORKERS]);
	send_and_expect(clients[0], acquire, "*7\r\n:1\r\n");
	send_and_expect(clients[1], acquire, "");
	wait_for_held(f, 1, 1);
	reload(f, 1);
	send_and_expect(clients[2], "PING\r\n", pong); /* its loop has seen the second configuration */
	send_and_expect(clients[2], acquire, "");
	wait_for_held(f, 0, 1);
	reload(f, 2);
	wake_all(f->workers);
	for (size_t i = 0; i < WORKERS; i++) {
		int other = dial_to(&f->address[i]);

		send_and_expect(other, "PING\r\n", pong);
		close(other);
	}
	assert_int_equal(freed, 0);
	close(clients[1]);
	wait_for_held(f, 1, 0);
	wait_for_freed(1);
	close(clients[2]);
	wait_for_freed(3);
	close(clients[0]);
	assert_int_equal(end(f), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(workers_retain_the_configuration_they_have_seen_and_its_successors,
	                           begin),
	    cmocka_unit_test_setup(a_waiting_request_retains_its_configuration, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
