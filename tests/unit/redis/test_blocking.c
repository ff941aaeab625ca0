/* The blocking transport, with a client that the test implements. */
#include "server.h"

#include <netdb.h>

#include "base/number.h"
#include "base/os/os.h"
#include "redis/network/blocking.h"
#include "redis/network/connection.h"
#include "redis/network/redis_address.h"
#include "redis/redis.h"

struct redis_attempt {
	struct connection *connection;
	void *line; /* NULL if there is none */
	size_t lost;
	char why[160];
};

/* A command of the client, and its outcome. */
struct asked {
	struct pending_reply call; /* first */
	char text[64];
};

static struct fixture {
	struct store_client client;
	struct redis_url url;
	struct blocking *blocking;
	struct redis_transport *transport;
	struct redis_attempt attempt;
	size_t pending, ticks;
	bool dials_again; /* when a node is lost */
} f;

struct connection *redis_attempt_connection(struct redis_attempt *attempt)
{
	return attempt->connection;
}

void redis_attempt_receive(struct redis_attempt *attempt, struct slice bytes)
{
	if (connection_receive(attempt->connection, bytes) == WEIR_OK)
		return;
	snprintf(attempt->why, sizeof attempt->why, "%s", connection_error(attempt->connection));
	f.transport->kind->hang_up(f.transport, attempt->line);
	attempt->line = NULL;
	connection_close(attempt->connection);
	attempt->connection = NULL;
}

/* The test is the connection, too, whose name is looked up. */
static void dial(unsigned port)
{
	f.url.hosts[0].port = (uint16_t)port;
	assert_int_equal(connection_open(&f.attempt.connection, &f.url, CONNECTION_STORE, "h"),
	                 WEIR_OK);
	f.attempt.line = f.transport->kind->look_up(f.transport, NULL, &f.url.hosts[0]);
	assert_non_null(f.attempt.line);
}

void redis_attempt_lost(struct redis_attempt *attempt, const char *why)
{
	attempt->lost++;
	attempt->line = NULL;
	snprintf(attempt->why, sizeof attempt->why, "%s", why);
	connection_close(attempt->connection);
	attempt->connection = NULL;
	if (f.dials_again)
		dial(f.url.hosts[0].port);
}

void redis_dialer_found(struct redis_dialer *dialer, const struct redis_address *addresses,
                        size_t n, const char *why)
{
	assert_null(dialer);
	if (n == 0)
		redis_attempt_lost(&f.attempt, why);
	else /* of IPv6 the last is not */
		assert_true(
		    f.transport->kind->dial(f.transport, &f.attempt, &addresses[n - 1], &f.attempt.line));
}

void redis_client_tick(struct store_client *client, uint64_t monotonic_ns)
{
	assert_ptr_equal(client, &f.client);
	assert_true(monotonic_ns <= os_monotonic_ns());
	f.ticks++;
	f.pending = 0;
}

bool redis_client_is_awaited(const struct store_client *client)
{
	(void)client;
	return f.pending > 0;
}

static void replied(struct pending_reply *call, const struct redis_reply *reply)
{
	struct asked *asked = (struct asked *)call;

	snprintf(asked->text, sizeof asked->text, "%.*s", reply ? (int)reply->text.len : 4,
	         reply ? reply->text.data : "lost");
	f.pending--;
}

static void ask(struct asked *asked, const char *word)
{
	const struct slice words[] = {SLICE("ECHO"), slice_of(word)};

	*asked = (struct asked){.call = {.replied = replied}};
	connection_write_words(connection_command_buffer(f.attempt.connection), words, 2);
	connection_expect_reply(f.attempt.connection, &asked->call);
	f.transport->kind->send(f.transport, f.attempt.line);
	f.pending++;
}

static void begin(const char *host)
{
	char text[300];

	snprintf(text, sizeof text, "redis://%s", host);
	f = (struct fixture){.blocking = blocking_open()};
	f.transport = blocking_transport(f.blocking);
	blocking_serve(f.blocking, &f.client);
	assert_int_equal(redis_url_read(text, &f.url, NULL), WEIR_OK);
}

static void end(void)
{
	if (f.attempt.line)
		f.transport->kind->hang_up(f.transport, f.attempt.line);
	if (f.attempt.connection)
		connection_close(f.attempt.connection);
	blocking_close(f.blocking);
	redis_url_free(&f.url);
}

static void a_call_ends_with_the_reply(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "localhost"};
	struct server server = server_start(NULL);
	struct asked one, two;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		begin(hosts[i]);
		dial(server.port);
		ask(&one, "one");
		blocking_run(f.blocking, &f.pending);
		assert_string_equal(one.text, "one");
		ask(&one, "three");
		ask(&two, "two");
		blocking_run(f.blocking, &f.pending);
		assert_string_equal(one.text, "three");
		assert_string_equal(two.text, "two");
		assert_int_equal(f.attempt.lost + f.ticks, 0);
		end();
	}
	server_stop(&server);
}

static void a_refused_connection_is_reported_once(void **state)
{
	struct asked asked;

	(void)state;
	begin("127.0.0.1");
	dial(server_free_port());
	ask(&asked, "x");
	blocking_run(f.blocking, &f.pending);
	assert_string_equal(asked.text, "lost");
	assert_string_equal(f.attempt.why, "Connection refused");
	assert_int_equal(f.attempt.lost, 1);
	end();
}

static void an_unknown_name_is_reported(void **state)
{
	struct asked asked;

	(void)state;
	begin("not..a..name");
	dial(1);
	ask(&asked, "x");
	blocking_run(f.blocking, &f.pending);
	assert_string_equal(f.attempt.why, gai_strerror(EAI_NONAME));
	end();
}

static void a_lookup_that_nobody_waits_for_ends_by_itself(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		begin("localhost");
		dial(1);
		end();
	}
}

static void an_alarm_ends_a_call_to_a_hanging_server(void **state)
{
	struct server server = server_start(NULL);
	struct asked asked;

	(void)state;
	begin("127.0.0.1");
	dial(server.port);
	ask(&asked, "x");
	blocking_run(f.blocking, &f.pending);
	kill(server.pid, SIGSTOP);
	ask(&asked, "y");
	f.transport->kind->alarm(f.transport, os_monotonic_ns() + 20 * NS_PER_MS);
	blocking_run(f.blocking, &f.pending);
	assert_int_equal(f.ticks, 1);
	assert_string_equal(asked.text, "");
	end();
	server_stop(&server);
}

/* Otherwise the next call would be lost. */
static void a_connection_that_ended_between_calls_is_noticed_before_the_next_call(void **state)
{
	struct server server = server_start(NULL);
	struct asked asked;

	(void)state;
	begin("127.0.0.1");
	dial(server.port);
	ask(&asked, "x");
	blocking_run(f.blocking, &f.pending);
	server_kill(&server);
	server_start_in(&server, "--port", NULL);
	f.dials_again = true;
	for (int ms = 0; f.attempt.lost == 0 && ms < SERVER_WAIT_MS; ms++) {
		blocking_poll(f.blocking);
		poll(NULL, 0, 1);
	}
	assert_int_equal(f.attempt.lost, 1);
	assert_string_equal(f.attempt.why, "it has closed the connection");
	ask(&asked, "again");
	blocking_run(f.blocking, &f.pending);
	assert_string_equal(asked.text, "again");
	end();
	server_stop(&server);
}

static void a_large_command_is_written_in_parts(void **state)
{
	struct server server = server_start(NULL);
	size_t len = (size_t)3 << 20;
	char *word = calloc(1, len + 1);
	struct asked asked;

	(void)state;
	memset(word, 'w', len);
	begin("127.0.0.1");
	dial(server.port);
	ask(&asked, word);
	blocking_run(f.blocking, &f.pending);
	assert_int_equal(strlen(asked.text), sizeof asked.text - 1);
	end();
	server_stop(&server);
	free(word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_call_ends_with_the_reply),
	    cmocka_unit_test(a_refused_connection_is_reported_once),
	    cmocka_unit_test(an_unknown_name_is_reported),
	    cmocka_unit_test(a_lookup_that_nobody_waits_for_ends_by_itself),
	    cmocka_unit_test(an_alarm_ends_a_call_to_a_hanging_server),
	    cmocka_unit_test(a_connection_that_ended_between_calls_is_noticed_before_the_next_call),
	    cmocka_unit_test(a_large_command_is_written_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
