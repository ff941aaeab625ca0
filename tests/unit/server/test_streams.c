/*
 * A codec whose answers name their requests: each is written when it is done, whatever waits
 * before it. A worker speaks lines: "a" acquires a unit of the only limit, and waits for it;
 * "r" gives one back; all else is answered at once. The answer is the line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/config.h"
#include "server/worker.h"

#include "loopback.h"

static void lines_open(void *session, const struct codec_limits *limits, uint64_t id)
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
	    .kind = verb == 'a' || verb == 'r' ? REQUEST_LIMIT : REQUEST_LOCAL,
	    .op = verb == 'r' ? REQUEST_REFUND : REQUEST_ACQUIRE,
	    .verb = verb,
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
	char line[] = {(char)request->verb, '\n'};

	(void)session;
	assert_true(request->kind == REQUEST_LOCAL || reply->decision.allowed);
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

/* Sends `said` as a client, and compares the answer. */
static void converse(bool streams, const char *said, const char *want)
{
	static const char text[] = "limits: { uses: { algorithm: token_bucket, rate: 2/h, burst: 1 } }\n";
	struct worker_shared shared = {.limits = CODEC_LIMITS_DEFAULT, .threads = 1, .gate.max = 10};
	struct server_config *config = calloc(1, sizeof *config);
	struct codec codec = lines;
	struct worker_protocol protocol = {&codec, METRICS_RESP};
	struct sockaddr_in address;
	struct worker worker;
	char got[16] = {0};
	int fd;

	codec.streams = streams ? always : NULL;
	codec.send = send_as_they_are;
	shared.metrics = metrics_open(1);
	shared.top = top_open(1);
	config->references = 1;
	assert_int_equal(weir_table_open(NULL, &shared.table, NULL), 0);
	assert_int_equal(weir_config_read_yaml(text, strlen(text), NULL, &config->rules, NULL), 0);
	assert_int_equal(server_config_compile(config, NULL, shared.table, &shared.stores, shared.metrics, NULL), 0);
	assert_int_equal(worker_open(&worker, &shared, 0, config), 0);
	assert_int_equal(worker_listen(&worker, &protocol, false, listen_somewhere(&address)), 0);
	assert_int_equal(worker_start(&worker), 0);
	fd = dial_to(&address);
	assert_int_equal(send(fd, said, strlen(said), MSG_NOSIGNAL), strlen(said));
	assert_int_equal(recv(fd, got, strlen(want), MSG_WAITALL), strlen(want));
	assert_string_equal(got, want);
	close(fd);
	net_loop_stop(worker.loop);
	worker_join(&worker);
	worker_close(&worker);
	server_config_drop(config);
	weir_table_close(shared.table);
	metrics_close(shared.metrics);
	top_close(shared.top);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_answer_is_written_when_it_is_done),
	    cmocka_unit_test(without_streams_the_order_is_that_of_the_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
