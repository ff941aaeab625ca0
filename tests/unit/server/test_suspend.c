/*
 * Tests works at a store that completes steps later. A worker and clients use the loopback address.
 * The store has its states in memory, and completes steps when the test asks it to, on the worker's
 * thread, as store clients do.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "engine/table.h"
#include "server/config/config.h"
#include "server/loop/worker.h"

#include "../failing.h"
#include "loopback.h"

/* As many as all clients of a test have together: a late worker may submit them at once. */
#define JOBS_MAX (1 << 16)

static const char text[] =
    "limits:\n"
    "  far: { algorithm: fixed_window, rate: 100/h, align: first_request }\n"
    "  places: { algorithm: concurrency, max: 2, lease: 1h, max_wait: 1h }\n"
    "  paced: { algorithm: pacer, rate: 1/h, slack: 0, max_wait: 6h }\n"
    "  near: { algorithm: fixed_window, rate: 100/h, align: first_request, store: memory }\n"
    "  wide: { algorithm: concurrency, max: 10000, lease: 1h, store: memory }\n";

struct fixture {
	struct worker_shared shared;
	struct server_config *config;
	struct worker worker;
	struct sockaddr_in address;
	struct store store;
	struct store_client client;
	struct store *states;
	struct net_descriptor *descriptor;
	int complete_fd;
	struct store_operation *jobs[JOBS_MAX];
	_Atomic size_t count;
	_Atomic bool completes_by_itself; /* completes all by itself, in a later iteration */
	uint64_t seed;
};

static uint64_t draw(uint64_t *seed, uint64_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (*seed >> 33) % n;
}

static void submit(struct store_client *client, struct store_operation *chain)
{
	struct fixture *f = (struct fixture *)((char *)client - offsetof(struct fixture, client));
	size_t n = f->count;

	for (; chain; chain = chain->next) {
		assert_true(n < JOBS_MAX);
		f->jobs[n++] = chain;
	}
	f->count = n;
	if (f->completes_by_itself)
		eventfd_write(f->complete_fd, 1);
}

static const struct store_kind kind = {submit};

static void carry_out(struct fixture *f, struct store_operation *job)
{
	struct store_step step = job->step;
	const struct algo_limit *by = step.limit;

	step.store = f->states;
	assert_int_equal(store_admit(f->states, by, step.key.hash, &step.key), WEIR_OK);
	job->until_ns = store_run(&step, &by, &job->outcome);
}

/* Completes all steps so far, in any order. */
static void complete(void *context, unsigned events)
{
	struct fixture *f = context;
	eventfd_t ignored;

	(void)events;
	eventfd_read(f->complete_fd, &ignored);
	while (f->count > 0) {
		size_t i = draw(&f->seed, f->count);
		struct store_operation *job = f->jobs[i];

		f->jobs[i] = f->jobs[f->count - 1];
		f->count--;
		carry_out(f, job);
		job->done(job);
	}
}

static int start(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct worker_shared *shared = &f->shared;

	f->store = (struct store){.kind = &kind};
	f->client.store = &f->store;
	f->seed = os_wall_ns();
	f->complete_fd = eventfd(0, EFD_NONBLOCK);
	shared->bounds = CODEC_BOUNDS_DEFAULT;
	shared->threads = 1;
	shared->conn_limit.max = 10000;
	shared->metrics = metrics_open(1);
	shared->top = top_open(1);
	shared->stores.main = &f->store;
	assert_int_equal(weir_table_open(NULL, &shared->table, NULL), 0);
	f->states = shared->table->store;
	shared->table->remote = &f->store;
	f->config = calloc(1, sizeof *f->config);
	f->config->references = 1;
	assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &f->config->rules, NULL), 0);
	assert_int_equal(server_config_compile(f->config, NULL, shared->table, &shared->stores,
	                                       shared->metrics, NULL),
	                 0);
	assert_int_equal(worker_open(&f->worker, shared, 0, f->config), 0);
	f->worker.store_clients.by_store[0] = &f->client;
	assert_int_equal(worker_listen(&f->worker, &worker_resp, false, listen_somewhere(&f->address)),
	                 0);
	assert_int_equal(
	    net_descriptor_open(&f->descriptor, f->worker.loop, f->complete_fd, complete, f), 0);
	net_descriptor_set_events(f->descriptor, NET_READABLE);
	assert_int_equal(worker_start(&f->worker), 0);
	*state = f;
	return 0;
}

static int finish(void **state)
{
	struct fixture *f = *state;

	net_loop_stop(f->worker.loop);
	worker_join(&f->worker);
	net_descriptor_close(f->descriptor);
	worker_close(&f->worker);
	server_config_release(f->config);
	weir_table_close(f->shared.table);
	metrics_close(f->shared.metrics);
	top_close(f->shared.top);
	close(f->complete_fd);
	free(f);
	return 0;
}

#define UNTIL(condition)                                                                           \
	for (uint64_t end_ns = os_monotonic_ns() + 60 * NS_PER_S; !(condition); usleep(200))           \
	assert_true(os_monotonic_ns() < end_ns)

static void tell(struct fixture *f)
{
	eventfd_write(f->complete_fd, 1);
}

static void send_text(int fd, const char *words)
{
	assert_int_equal(send(fd, words, strlen(words), MSG_NOSIGNAL), strlen(words));
}

/* Compares the answer with `want`, where ? stands for any integer. */
static void expect(int fd, const char *want)
{
	char byte;

	for (; *want; want++) {
		assert_int_equal(recv(fd, &byte, 1, 0), 1);
		if (*want == '?') {
			while (byte != '\r')
				assert_int_equal(recv(fd, &byte, 1, 0), 1);
			want++;
		}
		assert_int_equal(byte, *want);
	}
}

static void read_line(int fd, char line[200])
{
	size_t len = 0;

	do
		assert_int_equal(recv(fd, line + len, 1, 0), 1);
	while (line[len++] != '\n' && len < 200);
	line[len - 2] = '\0';
}

static bool is_silent(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 0;
}

static size_t unanswered(const struct fixture *f)
{
	return atomic_load(&metrics_loop(f->shared.metrics, 0)->pending_answers);
}

/* Units in use at the limit's key "k". */
static uint64_t in_use(const struct fixture *f, const char *name)
{
	const struct weir_limit *limit = weir_engine_limit(f->config->engine, name, strlen(name));
	struct store_step step = {f->states, &limit->algo, .call = {ALGO_PEEK},
	                          .at = clock_moment(store_clock(f->states))};
	const struct algo_limit *by = step.limit;
	struct algo_decision outcome;

	assert_int_equal(
	    store_admit(f->states, by, store_hash(f->states, by->identity, "k", 1), &step.key), 0);
	store_run(&step, &by, &outcome);
	return by->quota - outcome.remaining;
}

/* Answers to WEIR.ACQUIRE with `left` units left, and to CL.THROTTLE. */
#define PASSED(left)    "*7\r\n:1\r\n:100\r\n:" left "\r\n:0\r\n:?\r\n$2\r\nok\r\n$0\r\n\r\n"
#define THROTTLED(left) "*5\r\n:0\r\n:5\r\n:" left "\r\n:-1\r\n:?\r\n"
#define TEXT(byte)      "$1\r\n" byte "\r\n"

static void answers_come_in_order_and_memory_does_not_wait_for_stores(void **state)
{
	struct fixture *f = *state;
	int slow = dial_to(&f->address), quick = dial_to(&f->address);

	send_text(slow,
	          "PING a\r\nWEIR.ACQUIRE far k\r\nPING b\r\nWEIR.ACQUIRE near k\r\n"
	          "CL.THROTTLE k 4 5 3600\r\nMULTI\r\nPING c\r\nWEIR.ACQUIRE far k\r\n"
	          "WEIR.ACQUIRE near k\r\nCL.THROTTLE other 4 5 3600\r\nPING d\r\nEXEC\r\nPING e\r\n");
	expect(slow, TEXT("a"));
	UNTIL(f->count == 2); /* the transaction waits for a key that the store has */
	send_text(quick, "WEIR.ACQUIRE near k\r\nPING f\r\n");
	expect(quick, PASSED("98") TEXT("f"));
	assert_true(is_silent(slow));
	tell(f);
	expect(slow, PASSED("?") TEXT("b") PASSED("99") THROTTLED("4"));
	expect(slow, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
	UNTIL(f->count == 2);
	assert_true(is_silent(slow));
	tell(f);
	expect(slow, "*5\r\n" TEXT("c") PASSED("?") PASSED("97") THROTTLED("4") TEXT("d") TEXT("e"));
	assert_int_equal(unanswered(f), 0);
	assert_int_equal(in_use(f, "far"), 2);
	assert_int_equal(in_use(f, "near"), 3);
	close(slow);
	close(quick);
}

/*
 * When the clients leave, their plans and batches are at the store, or wait for the first request
 * of every other client. Together they stay below the quota, so that the last client is answered
 * like the others.
 */
static void clients_that_leave_refund_charges_without_an_answer(void **state)
{
	struct fixture *f = *state;
	int clients[19];

	for (size_t i = 0; i < 19; i++) {
		clients[i] = dial_to(&f->address);
		if (i % 2 == 0)
			send_text(clients[i], "WEIR.ACQUIRE far k\r\nWEIR.ACQUIRE near k\r\n"
			                      "WEIR.ACQUIRE far k COST 3\r\n");
		send_text(clients[i], "MULTI\r\nWEIR.ACQUIRE near k\r\nWEIR.ACQUIRE far k\r\n"
		                      "WEIR.ACQUIRE places k\r\nEXEC\r\n");
	}
	UNTIL(f->count == 10 + 2 * 9);
	UNTIL(unanswered(f) == 3 * 10 + 9);
	assert_int_equal(in_use(f, "near"), 10 + 9);
	for (size_t i = 0; i < 18; i++)
		close(clients[i]);
	UNTIL(unanswered(f) == 3);
	f->completes_by_itself = true;
	tell(f);
	expect(clients[18], PASSED("?") PASSED("?") PASSED("?"));
	UNTIL(in_use(f, "near") == 2);
	UNTIL(in_use(f, "far") == 5);
	assert_true(in_use(f, "places") <= 1);
	close(clients[18]);
}

/*
 * A place becomes free while the work that is woken for it is at the store; the queue keeps its
 * order.
 */
static void works_wait_for_keys_that_are_at_a_store(void **state)
{
	struct fixture *f = *state;
	int clients[4];

	f->completes_by_itself = true;
	for (size_t i = 0; i < 4; i++) {
		clients[i] = dial_to(&f->address);
		send_text(clients[i], "WEIR.ACQUIRE places k WAIT 60000\r\nPING a\r\n");
		UNTIL(i < 2 ? !is_silent(clients[i]) : unanswered(f) == i - 1);
	}
	for (size_t i = 0; i < 4; i++) {
		char permit[200], refund[300], head[64];

		expect(clients[i], "*7\r\n:1\r\n:2\r\n:?\r\n:0\r\n:?\r\n$2\r\nok\r\n$?\r\n");
		read_line(clients[i], permit);
		expect(clients[i], TEXT("a"));
		snprintf(refund, sizeof refund, "WEIR.REFUND places k PERMIT %s\r\n", permit);
		send_text(clients[i], refund);
		assert_true(recv(clients[i], head, sizeof head, 0) > 4);
	}
	UNTIL(in_use(f, "places") == 0);
	for (size_t i = 0; i < 4; i++)
		close(clients[i]);
}

static void a_start_that_a_store_grants_is_awaited(void **state)
{
	struct fixture *f = *state;
	int client = dial_to(&f->address), other = dial_to(&f->address);

	f->completes_by_itself = true;
	send_text(client, "WEIR.ACQUIRE paced k\r\n");
	UNTIL(!is_silent(client));
	send_text(other, "WEIR.ACQUIRE paced k\r\nWEIR.ACQUIRE far k\r\n");
	UNTIL(in_use(f, "far") == 1);
	assert_true(is_silent(other));
	UNTIL(unanswered(f) == 1);
	close(other); /* an hour before it may start */
	UNTIL(in_use(f, "far") == 0 && unanswered(f) == 0);
	close(client);
}

/* Sends items with so much work that the next ones need another iteration. */
static void send_wide_items(int fd)
{
	for (size_t i = 0; i < 13; i++)
		send_text(fd, "WEIR.PEEK wide k\r\n");
}

/* In each iteration the batch has items at the store. The next one begins when they are done. */
static void send_batch_of_three_iterations(int fd)
{
	send_text(fd, "WEIR.ACQUIRE near k\r\nMULTI\r\nWEIR.ACQUIRE far k\r\nWEIR.ACQUIRE near k\r\n");
	send_wide_items(fd);
	send_text(fd, "WEIR.ACQUIRE far k\r\nWEIR.ACQUIRE far other\r\nWEIR.ACQUIRE near k\r\n");
	send_wide_items(fd);
	send_text(
	    fd,
	    "WEIR.ACQUIRE far k\r\nWEIR.ACQUIRE near k\r\nEXEC\r\nWEIR.ACQUIRE near k\r\nPING e\r\n");
}

static void expect_wide(int fd)
{
	for (size_t i = 0; i < 13; i++)
		expect(fd, "*7\r\n:1\r\n:10000\r\n:10000\r\n:0\r\n:0\r\n$2\r\nok\r\n$0\r\n\r\n");
}

static void a_batch_continues_when_stores_have_done_its_items(void **state)
{
	struct fixture *f = *state;
	int slow = dial_to(&f->address), quick = dial_to(&f->address);

	send_batch_of_three_iterations(slow);
	expect(slow, PASSED("99") "+OK\r\n");
	for (size_t i = 0; i < 2 + 13 + 3 + 13 + 2; i++)
		expect(slow, "+QUEUED\r\n");
	for (size_t turn = 0; turn < 3; turn++) {
		UNTIL(f->count == (turn == 1 ? 2 : 1));
		send_text(quick, "PING f\r\n");
		expect(quick, TEXT("f"));
		assert_int_equal(f->count, turn == 1 ? 2 : 1);
		assert_int_equal(in_use(f, "near"), turn + 2);
		assert_true(is_silent(slow));
		tell(f);
	}
	expect(slow, "*33\r\n" PASSED("99") PASSED("98"));
	expect_wide(slow);
	expect(slow, PASSED("98") PASSED("99") PASSED("97"));
	expect_wide(slow);
	expect(slow, PASSED("97") PASSED("96") PASSED("95") TEXT("e"));
	assert_int_equal(in_use(f, "far"), 3);
	close(slow);
	close(quick);
}

/* Items at the store are given back, items in memory stay charged, and the rest does not begin. */
static void a_client_leaves_during_its_batch(void **state)
{
	struct fixture *f = *state;
	int slow = dial_to(&f->address);

	send_batch_of_three_iterations(slow);
	UNTIL(f->count == 1);
	tell(f);
	UNTIL(f->count == 2);
	close(slow);
	UNTIL(unanswered(f) == 0);
	f->completes_by_itself = true;
	tell(f);
	UNTIL(in_use(f, "far") == 1 && f->count == 0);
	assert_int_equal(in_use(f, "near"), 3);
}

/* Each key ends with as much in use as clients know of. */
static void no_charge_is_lost_whichever_client_leaves(void **state)
{
	static const char *const requests[] = {
	    "WEIR.ACQUIRE near k\r\n",
	    "WEIR.ACQUIRE far k\r\n",
	    "PING x\r\n",
	    "CL.THROTTLE k 4 5 3600\r\n",
	    "MULTI\r\nWEIR.ACQUIRE far k\r\nWEIR.ACQUIRE near k\r\nEXEC\r\n",
	    "WEIR.ACQUIRE places k WAIT 100\r\n",
	    "WEIR.PEEK far k\r\n",
	    "WEIR.RESET CL.THROTTLE k\r\n"};
	struct fixture *f = *state;
	uint64_t seed = f->seed;

	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned round = 0; round < 300; round++) {
		int clients[4];

		f->completes_by_itself = draw(&seed, 4) > 0;
		for (size_t i = 0; i < 4; i++) {
			clients[i] = dial_to(&f->address);
			for (uint64_t n = draw(&seed, 12); n > 0; n--)
				send_text(clients[i], requests[draw(&seed, sizeof requests / sizeof *requests)]);
		}
		if (draw(&seed, 2) == 0)
			tell(f);
		for (size_t i = 0; i < 4; i++)
			close(clients[i]); /* with answers unread or not yet given */
	}
	f->completes_by_itself = true;
	tell(f);
	UNTIL(unanswered(f) == 0 && f->count == 0 && f->shared.conn_limit.open_count == 0);
}

/* Leaves nothing in use at the limit's key "k". */
static void forget(const struct fixture *f, const char *name)
{
	const struct weir_limit *limit = weir_engine_limit(f->config->engine, name, strlen(name));
	struct store_step step = {f->states, &limit->algo, .call = {ALGO_RESET},
	                          .at = clock_moment(store_clock(f->states))};
	const struct algo_limit *by = step.limit;
	struct algo_decision outcome;

	assert_int_equal(
	    store_admit(f->states, by, store_hash(f->states, by->identity, "k", 1), &step.key), 0);
	store_run(&step, &by, &outcome);
}

static unsigned count_of(const char *answer, const char *words)
{
	unsigned n = 0;

	for (; (answer = strstr(answer, words)); answer++)
		n++;
	return n;
}

#define LAST "PING last\r\n"

/*
 * Sends a request on a connection that was used before, and reads up to LAST. Returns false if the
 * connection was closed first.
 */
static bool request_answer(struct fixture *f, const char *request, unsigned nth, char *answer,
                           size_t size)
{
	int fd = dial_to(&f->address);
	size_t len = 0;

	send_text(fd, "PING a\r\nWEIR.ACQUIRE far warm\r\n");
	expect(fd, TEXT("a") PASSED("?"));
	failing = nth;
	send_text(fd, request);
	answer[0] = '\0';
	while (!strstr(answer, "$4\r\nlast\r\n")) {
		ssize_t got = recv(fd, answer + len, size - 1 - len, 0);

		if (got <= 0)
			break;
		len += (size_t)got;
		answer[len] = '\0';
	}
	close(fd);
	UNTIL(unanswered(f) == 0 && f->count == 0 && f->shared.conn_limit.open_count == 0);
	return strstr(answer, "$4\r\nlast\r\n");
}

/*
 * Makes each allocation fail once, for one request and for many, from reading to answering. A key
 * then has in use as much as the client knows of, and nothing if it got no answer.
 */
static void charges_at_a_store_are_answered_or_refunded_without_memory(void **state)
{
	static const char *const limits[] = {"far", "near", "places"};
	static char answer[1 << 16], many[1 << 13] = "MULTI\r\n";
	const char *const requests[] = {
	    "WEIR.ACQUIRE far k\r\n" LAST,
	    "WEIR.ACQUIRE places k PERMIT\r\nWEIR.ACQUIRE near k\r\nWEIR.ACQUIRE far k\r\n" LAST,
	    many,
	};
	struct fixture *f = *state;
	unsigned errors = 0, ends = 0;

	for (unsigned i = 0; i < 30; i++)
		strcat(many, "WEIR.ACQUIRE far k\r\nWEIR.ACQUIRE near k\r\nCL.THROTTLE k 99 99 3600\r\n");
	strcat(many, "WEIR.ACQUIRE places k PERMIT\r\nEXEC\r\n" LAST);
	f->completes_by_itself = true;
	request_answer(f, many, 0, answer, sizeof answer); /* the store itself needs no more memory */
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++, failing = 0)
		/* until the request needs no more allocations */
		for (unsigned nth = 1; failing == 0; nth++) {
			for (size_t j = 0; j < sizeof limits / sizeof *limits; j++)
				forget(f, limits[j]);
			ends += !request_answer(f, requests[i], nth, answer, sizeof answer);
			errors += count_of(answer, "out of memory");
			/* The units are given back in an iteration after the client's end. */
			UNTIL(in_use(f, "far") + in_use(f, "near") == count_of(answer, "*7\r\n:1\r\n:100\r\n"));
			UNTIL(in_use(f, "places") == count_of(answer, "*7\r\n:1\r\n:2\r\n"));
		}
	assert_true(errors > 0 && ends > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_batch_continues_when_stores_have_done_its_items, start,
	                                    finish),
	    cmocka_unit_test_setup_teardown(a_client_leaves_during_its_batch, start, finish),
	    cmocka_unit_test_setup_teardown(answers_come_in_order_and_memory_does_not_wait_for_stores,
	                                    start, finish),
	    cmocka_unit_test_setup_teardown(clients_that_leave_refund_charges_without_an_answer, start,
	                                    finish),
	    cmocka_unit_test_setup_teardown(works_wait_for_keys_that_are_at_a_store, start, finish),
	    cmocka_unit_test_setup_teardown(a_start_that_a_store_grants_is_awaited, start, finish),
	    cmocka_unit_test_setup_teardown(no_charge_is_lost_whichever_client_leaves, start, finish),
	    cmocka_unit_test_setup_teardown(charges_at_a_store_are_answered_or_refunded_without_memory,
	                                    start, finish),
	};

	signal(SIGPIPE, SIG_IGN); /* as the server does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
