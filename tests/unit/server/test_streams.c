/*
 * Tests a codec whose answers name their requests: each is written when it is done, whatever waits
 * before it. A worker speaks lines: "a" acquires a unit of the only limit, and waits for it; "r"
 * refunds one; "e" follows the events; all others are answered at once. The answer is the line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/config/config.h"
#include "server/loop/worker.h"

#include "loopback.h"

static void lines_open(void *session, const struct codec_bounds *limits, uint64_t id)
{
	(void)session;
	(void)limits;
	(void)id;
}

static enum codec_result lines_parse(void *session, struct slice data, size_t *consumed,
                                     struct arena *arena, struct request *request)
{
	const char *end = memchr(data.data, '\n', data.len);
	char verb = *data.data;

	(void)session;
	(void)arena;
	if (!end)
		return CODEC_MORE;
	*consumed = (size_t)(end + 1 - data.data);
	*request = (struct request){
	    .kind = verb == 'a' || verb == 'r' ? REQUEST_LIMIT
	            : verb == 'e'              ? REQUEST_EVENTS
	                                       : REQUEST_LOCAL,
	    .class = verb == 'e' ? REQUEST_ADMIN : REQUEST_FREE,
	    .op = verb == 'r' ? REQUEST_REFUND : REQUEST_ACQUIRE,
	    .reply_code = verb,
	    .limit = SLICE("uses"),
	    .key = SLICE("k"),
	    .cost = 1,
	    .wait_ns = 3000 * NS_PER_S,
	};
	return CODEC_REQUEST;
}

static void lines_reply(void *session, const struct request *request, const struct reply *reply,
                        struct buffer *out)
{
	char line[] = {(char)request->reply_code, '\n'};

	(void)session;
	assert_true(request->kind != REQUEST_LIMIT || reply->decision.allowed);
	buffer_add(out, line, sizeof line);
}

static const struct codec lines = {.name = "lines",
                                   .session_size = 1,
                                   .open = lines_open,
                                   .parse = lines_parse,
                                   .reply = lines_reply};

static bool always(const void *session)
{
	(void)session;
	return true;
}

static void send_as_they_are(void *session, struct slice answers, struct buffer *out)
{
	(void)session;
	buffer_add_slice(out, answers);
}

struct fixture {
	struct worker_shared shared;
	struct server_config *config; /* the reference of the server's thread */
	struct codec codec;
	struct worker_protocol protocol;
	struct worker worker;
	int client;
};

static struct server_config *compile(struct fixture *fixture, const char *text)
{
	struct server_config *config = calloc(1, sizeof *config);

	config->references = 1;
	assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &config->rules, NULL), 0);
	assert_int_equal(server_config_compile(config, fixture->config, fixture->shared.table,
	                                       &fixture->shared.stores, fixture->shared.metrics, NULL),
	                 0);
	return config;
}

static void begin(struct fixture *fixture, bool streams)
{
	static const char text[] =
	    "limits: { uses: { algorithm: token_bucket, rate: 2/h, burst: 1 } }\n";
	struct sockaddr_in address;

	*fixture = (struct fixture){
	    .shared = {.bounds = CODEC_BOUNDS_DEFAULT, .threads = 1, .conn_limit.max = 10},
	    .codec = lines};
	fixture->protocol = (struct worker_protocol){&fixture->codec, METRICS_RESP};
	fixture->codec.answers_in_any_order = streams ? always : NULL;
	fixture->codec.frame_answers = send_as_they_are;
	fixture->shared.metrics = metrics_open(1);
	fixture->shared.top = top_open(1);
	fixture->shared.events = events_open(EVENTS_OF_LOG);
	assert_int_equal(weir_table_open(NULL, &fixture->shared.table, NULL), 0);
	fixture->config = compile(fixture, text);
	assert_int_equal(worker_open(&fixture->worker, &fixture->shared, 0, fixture->config), 0);
	assert_int_equal(
	    worker_listen(&fixture->worker, &fixture->protocol, false, listen_somewhere(&address)), 0);
	assert_int_equal(worker_start(&fixture->worker), 0);
	fixture->client = dial_to(&address);
}

static void send_line(const struct fixture *fixture, const char *line)
{
	assert_int_equal(send(fixture->client, line, strlen(line), MSG_NOSIGNAL), strlen(line));
}

static void expect(const struct fixture *fixture, const char *want)
{
	char got[64] = {0};

	assert_int_equal(recv(fixture->client, got, strlen(want), MSG_WAITALL), strlen(want));
	assert_string_equal(got, want);
}

static void end(struct fixture *fixture)
{
	close(fixture->client);
	net_loop_stop(fixture->worker.loop);
	worker_join(&fixture->worker);
	worker_close(&fixture->worker);
	server_config_release(fixture->config);
	weir_table_close(fixture->shared.table);
	metrics_close(fixture->shared.metrics);
	top_close(fixture->shared.top);
	events_close(fixture->shared.events);
}

static void converse(bool streams, const char *line, const char *want)
{
	struct fixture fixture;

	begin(&fixture, streams);
	send_line(&fixture, line);
	expect(&fixture, want);
	end(&fixture);
}

static void each_answer_is_written_when_it_is_done(void **state)
{
	(void)state;
	converse(true, "a\na\nx\nr\ny\n", "a\nx\nr\ny\na\n");
}

static void without_streams_the_order_is_that_of_the_requests(void **state)
{
	(void)state;
	converse(false, "a\na\nx\nr\ny\n", "a\na\nx\nr\ny\n");
}

/* Events */

static struct {
	struct fixture *fixture;
	struct server_config *_Atomic next; /* set by the test's thread, read by the worker's */
} reload;

uint64_t __real_events_read(struct events *events, uint64_t next, size_t room, struct buffer *out);
uint64_t __wrap_events_read(struct events *events, uint64_t next, size_t room, struct buffer *out);

/* A reload happens just before the worker reads events, and is the last event that it finds. */
uint64_t __wrap_events_read(struct events *events, uint64_t next, size_t room, struct buffer *out)
{
	struct server_config *config = atomic_exchange(&reload.next, NULL);

	if (config) {
		server_config_replace(&reload.fixture->config, config);
		events_add(events, "reloaded", SLICE("{}"));
	}
	return __real_events_read(events, next, room, out);
}

static void add_event(struct fixture *fixture, const char *name)
{
	events_add(fixture->shared.events, name, SLICE("{}"));
	net_loop_wake(fixture->worker.loop);
}

static void a_user_without_the_permission_gets_no_event_of_that_reload(void **state)
{
	static const char users[] =
	    "limits: { uses: { algorithm: token_bucket, rate: 2/h, burst: 1 } }\n"
	    "users: [{ name: one, may: [ask], token: "
	    "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\" }]\n";
	struct fixture fixture;
	char rest[64];

	(void)state;
	begin(&fixture, false);
	send_line(&fixture, "e\n");
	expect(&fixture, "e\n");
	add_event(&fixture, "first");
	expect(&fixture, "id: 1\nevent: first\ndata: {}\n\n");
	reload.fixture = &fixture;
	reload.next = compile(&fixture, users);
	add_event(&fixture, "second");
	assert_true(recv(fixture.client, rest, sizeof rest, 0) <= 0);
	assert_null(atomic_load(&reload.next));
	end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_answer_is_written_when_it_is_done),
	    cmocka_unit_test(without_streams_the_order_is_that_of_the_requests),
	    cmocka_unit_test(a_user_without_the_permission_gets_no_event_of_that_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
