/*
 * Tests requests that run out of memory after they were charged. One worker and a client use the
 * loopback address. The program's own code allocates several times for a request. One allocation
 * after another fails, until the request needs no more of them.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os/os.h"
#include "server/config/config.h"
#include "server/loop/worker.h"

#include "../failing.h"
#include "loopback.h"

static const char text[] = "limits:\n"
                           "  turns: { algorithm: pacer, rate: 1/h, slack: 0, max_wait: 6h }\n"
                           "  uses: { algorithm: token_bucket, rate: 1000/h }\n"
                           "  places: { algorithm: concurrency, max: 100, lease: 1h }\n";

struct fixture {
	struct worker_shared shared;
	struct server_config *config;
	struct worker worker;
	struct sockaddr_in address;
};

static int start(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct worker_shared *shared = &f->shared;

	shared->bounds = CODEC_BOUNDS_DEFAULT;
	shared->conn_limit.max = 10;
	shared->metrics = metrics_open(1);
	shared->top = top_open(1);
	assert_int_equal(weir_table_open(NULL, &shared->table, NULL), 0);
	f->config = calloc(1, sizeof *f->config);
	f->config->references = 1;
	assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &f->config->rules, NULL), 0);
	assert_int_equal(server_config_compile(f->config, NULL, shared->table, &shared->stores,
	                                       shared->metrics, NULL),
	                 0);
	assert_int_equal(worker_open(&f->worker, shared, 0, f->config), 0);
	assert_int_equal(worker_listen(&f->worker, &worker_http, false, listen_somewhere(&f->address)),
	                 0);
	assert_int_equal(worker_start(&f->worker), 0);
	*state = f;
	return 0;
}

static int finish(void **state)
{
	struct fixture *f = *state;

	net_loop_stop(f->worker.loop);
	worker_join(&f->worker);
	worker_close(&f->worker);
	server_config_release(f->config);
	weir_table_close(f->shared.table);
	metrics_close(f->shared.metrics);
	top_close(f->shared.top);
	free(f);
	return 0;
}

static uint64_t left(const struct fixture *f, const char *limit)
{
	struct weir_decision d;

	assert_int_equal(weir_peek(f->shared.table,
	                           weir_engine_limit(f->config->engine, limit, strlen(limit)),
	                           (struct weir_key){"k", 1}, 1, WEIR_NOW, &d),
	                 0);
	return d.remaining;
}

/* Appends a request, and returns its end. */
static char *write_request(char *to, const char *body)
{
	return to + sprintf(to,
	                    "POST /v1/%s HTTP/1.1\r\nHost: localhost\r\n"
	                    "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
	                    *body == '[' ? "batch" : "acquire", strlen(body), body);
}

/* In one write: the connection may be closed for lack of memory as soon as a part is read. */
static void send_request(int fd, const char *body)
{
	static char sent[1 << 15];
	size_t len = (size_t)(write_request(sent, body) - sent);

	assert_int_equal(send(fd, sent, len, MSG_NOSIGNAL), len);
}

static bool is_pending(const struct fixture *f)
{
	return atomic_load(&metrics_loop(f->shared.metrics, 0)->pending_answers) > 0;
}

/* The body of an answer; NULL if it is pending, or the connection was closed without one. */
static const char *read_answer(const struct fixture *f, int fd)
{
	static char answer[1 << 18];
	size_t len = 0, body_len;

	while (!is_pending(f)) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};
		const char *body;
		ssize_t got;

		if (poll(&readable, 1, 1) == 0)
			continue;
		got = recv(fd, answer + len, sizeof answer - 1 - len, 0);
		if (got <= 0)
			return NULL;
		len += (size_t)got;
		answer[len] = '\0';
		body = strstr(answer, "\r\n\r\n");
		if (body && sscanf(strcasestr(answer, "content-length:"), "%*s %zu", &body_len) == 1 &&
		    strlen(body + 4) == body_len)
			return body + 4;
	}
	return NULL;
}

static unsigned count(const char *answer, const char *word)
{
	unsigned n = 0;

	for (; answer && (answer = strstr(answer, word)); answer++)
		n++;
	return n;
}

/* Sends a request on a connection that was used before; returns the answer like read_answer(). */
static const char *request_answer(const struct fixture *f, const char *body, unsigned nth)
{
	const char *answer;
	int fd = dial_to(&f->address);

	send_request(fd, "{\"limit\":\"uses\",\"key\":\"warm\"}");
	assert_non_null(read_answer(f, fd));
	failing = nth;
	send_request(fd, body);
	answer = read_answer(f, fd);
	close(fd);
	while (is_pending(f)) /* until the server notices that the client has left */
		usleep(100);
	return answer;
}

static void an_answer_that_cannot_be_stored_refunds_its_start(void **state)
{
	struct fixture *f = *state;
	const char *answer;
	unsigned nth = 0, errors = 0;
	uint64_t before;

	/* at once, because none has come before */
	answer = request_answer(f, "{\"limit\":\"turns\",\"key\":\"k\"}", 0);
	assert_int_equal(count(answer, "\"allowed\":true"), 1);
	before = left(f, "turns");
	do {
		answer = request_answer(f, "{\"limit\":\"turns\",\"key\":\"k\"}", ++nth);
		errors += count(answer, "out of memory");
		assert_int_equal(count(answer, "out of memory"), answer != NULL);
		assert_int_equal(left(f, "turns"), before);
	} while (failing == 0); /* the last request needed no more allocations */
	failing = 0;
	assert_true(errors > 0);
}

/*
 * Makes one request for each limit, with a permit: so many that their texts need several blocks of
 * memory.
 */
static char *make_batch(unsigned items, const char *first)
{
	static const char *const limits[] = {"uses", "places"};
	char *batch = malloc(items * 80 + 200), *end = batch;

	end += sprintf(end, "[%s", first);
	for (unsigned i = 0; i < items; i++)
		end += sprintf(end, "%s{\"limit\":\"%s\",\"key\":\"k\",\"permit\":true}",
		               i == 0 && !*first ? "" : ",", limits[i % 2]);
	sprintf(end, "]");
	return batch;
}

static void reset(const struct fixture *f, const char *limit)
{
	struct weir_decision d;

	weir_reset(f->shared.table, weir_engine_limit(f->config->engine, limit, strlen(limit)),
	           (struct weir_key){"k", 1}, WEIR_NOW, &d);
}

static void charges_without_an_answer_are_refunded(void **state)
{
	struct fixture *f = *state;
	char *batch = make_batch(150, "");
	unsigned nth = 0, errors = 0;

	do {
		const char *answer = request_answer(f, batch, ++nth);
		unsigned granted = count(answer, "\"allowed\":true");

		errors += count(answer, "out of memory");
		if (answer) /* otherwise no client knows of it: there was no memory for the answer */
			assert_int_equal(1000 - left(f, "uses") + 100 - left(f, "places"), granted);
		reset(f, "uses");
		reset(f, "places");
	} while (failing == 0);
	failing = 0;
	assert_true(errors > 0);
	free(batch);
}

static void a_batch_that_cannot_be_stored_refunds_everything(void **state)
{
	struct fixture *f = *state;
	char *batch = make_batch(10, "{\"limit\":\"turns\",\"key\":\"k\"},"
	                             "{\"limit\":\"turns\",\"key\":\"k\"}");
	const char *answer;
	unsigned nth = 0, errors = 0;

	reset(f, "turns");
	do {
		answer = request_answer(f, batch, ++nth);
		errors += answer && *answer == '{';
		if (answer && *answer == '{') { /* one error for all items */
			assert_int_equal(left(f, "uses"), 1000);
			assert_int_equal(left(f, "places"), 100);
		}
		reset(f, "uses");
		reset(f, "places");
		reset(f, "turns");
	} while (failing == 0);
	failing = 0;
	assert_true(errors > 0);
	free(batch);
}

/* Waits until `n` places are free of those that a departed client gives back. */
static void wait_for_places(const struct fixture *f, uint64_t n)
{
	uint64_t end_ns = os_monotonic_ns() + 60 * NS_PER_S;

	while (left(f, "places") != n) {
		assert_true(os_monotonic_ns() < end_ns);
		usleep(100);
	}
}

/* Sends a request that waits and one after it. Returns how many the answers say have passed. */
static unsigned request_behind_waiting(const struct fixture *f, unsigned nth)
{
	char answers[4096] = "", both[1000];
	char *behind = write_request(both, "{\"limit\":\"turns\",\"key\":\"k\"}");
	size_t len = (size_t)(write_request(behind, "{\"limit\":\"places\",\"key\":\"k\"}") - both);
	int fd = dial_to(&f->address);

	send_request(fd, "{\"limit\":\"uses\",\"key\":\"warm\"}");
	assert_non_null(read_answer(f, fd));
	failing = nth;
	/* In one write: after the first one the connection may have been closed for lack of memory. */
	assert_int_equal(send(fd, both, len, MSG_NOSIGNAL), len);
	len = 0;
	while (count(answers, "HTTP/1.1 ") < 2 && !(is_pending(f) && left(f, "places") == 99)) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (poll(&readable, 1, 1) == 0)
			continue;
		got = recv(fd, answers + len, sizeof answers - 1 - len, 0);
		if (got <= 0)
			break;
		len += (size_t)got;
		answers[len] = '\0';
	}
	close(fd);
	while (is_pending(f))
		usleep(100);
	return count(answers, "\"allowed\":true");
}

/* A connection whose answers can't be given in order is closed without any of them. */
static void answers_behind_a_waiting_one_are_stored_or_refunded(void **state)
{
	struct fixture *f = *state;
	unsigned nth = 0;
	uint64_t before;

	reset(f, "places");
	reset(f, "turns");
	request_answer(f, "{\"limit\":\"turns\",\"key\":\"k\"}", 0);
	before = left(f, "turns");
	do {
		wait_for_places(f, 100 - request_behind_waiting(f, ++nth));
		assert_int_equal(left(f, "turns"), before);
		reset(f, "places");
	} while (failing == 0);
	failing = 0;
	assert_true(nth > 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_answer_that_cannot_be_stored_refunds_its_start),
	    cmocka_unit_test(charges_without_an_answer_are_refunded),
	    cmocka_unit_test(a_batch_that_cannot_be_stored_refunds_everything),
	    cmocka_unit_test(answers_behind_a_waiting_one_are_stored_or_refunded),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
