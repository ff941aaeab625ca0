/* Connects to other servers: successes, failures, timeouts, and what a stopped loop does. */
#include <fcntl.h>
#include <poll.h>

#include "lines.h"

/* An owner that says "hello" before it is connected, and keeps what it is told. */
struct ours {
	struct net_conn *conn;
	_Atomic int opened, closed;
	const char *_Atomic error;
	char got[64];
	_Atomic size_t got_len;
	int times; /* it dials again when the connection ends */
	uint64_t timeout_ms;
	struct net_address to;
};

static void redial(struct fixture *f, struct ours *ours);

static struct ours *ours_of(struct net_conn *conn)
{
	return *(struct ours **)net_conn_data(conn);
}

static void ours_open(void *context, struct net_conn *conn)
{
	(void)context;
	ours_of(conn)->opened++;
}

static size_t ours_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct ours *ours = ours_of(conn);

	assert_true(ours->got_len + bytes.len < sizeof ours->got);
	memcpy(ours->got + ours->got_len, bytes.data, bytes.len);
	ours->got_len += bytes.len;
	if (begins(bytes, "leave"))
		net_conn_abort(conn);
	if (begins(bytes, "answer"))
		((struct fixture *)context)->due_ns = 0;
	return bytes.len;
}

static void ours_close(void *context, struct net_conn *conn)
{
	struct ours *ours = ours_of(conn);

	ours->error = net_conn_error(conn);
	ours->conn = NULL;
	if (ours->times > 0)
		redial(context, ours);
	ours->closed++;
}

static const struct net_kind ours_kind = {ours_open, ours_data, ours_close,
                                          .conn_size = sizeof(struct ours *)};

static void redial(struct fixture *f, struct ours *ours)
{
	ours->times--;
	ours->conn = net_loop_dial(f->loop, &ours_kind, &ours->to, ours->timeout_ms);
	if (!ours->conn)
		return;
	*(struct ours **)net_conn_data(ours->conn) = ours;
	buffer_add_text(net_conn_output(ours->conn), "hello\n");
}

/* A server that listens, and that is dialled when the loop runs. */
static int listen_at(struct fixture *f, struct ours *ours, int times, const char *address)
{
	int listener;

	assert_int_equal(net_address_parse(slice_of(address), &ours->to, NULL), WEIR_OK);
	assert_int_equal(net_address_listen(&ours->to, &listener, 1, NULL), WEIR_OK);
	assert_int_equal(fcntl(listener, F_SETFL, 0), 0); /* it blocks from now on */
	if (ours->timeout_ms == 0)
		ours->timeout_ms = 20000;
	ours->times = times;
	redial(f, ours);
	return listener;
}

static int listen_for(struct fixture *f, struct ours *ours, int times)
{
	return listen_at(f, ours, times, "127.0.0.1:0");
}

static void run_thread(struct fixture *f)
{
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
}

#define UNTIL(condition)                                                                           \
	do                                                                                             \
		usleep(1000);                                                                              \
	while (!(condition))

static void output_before_the_connection_is_made_is_sent_later(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {0};
	int listener = listen_for(f, &ours, 1), peer, client;

	(void)state;
	run_thread(f);
	peer = accept(listener, NULL, NULL);
	expect(peer, "hello\n");
	say(peer, "welcome");
	UNTIL(ours.got_len == 7);
	assert_memory_equal(ours.got, "welcome", 7);
	client = dial(f); /* one connection may be open, and none is */
	say(client, "x\n");
	expect(client, "x\n");
	assert_int_equal(f->conn_limit.open_count, 1);
	assert_int_equal(ours.opened, 1);
	close(client);
	finish(f);
	assert_int_equal(ours.closed, 1);
	assert_null(ours.error);
	expect_end(peer);
	close(listener);
}

static void a_refused_connection_is_closed_with_the_reason_and_dialled_again(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {0};
	int listener = listen_for(f, &ours, 3), peer;

	(void)state;
	assert_int_equal(listen(listener, 1), 0);
	run_thread(f);
	peer = accept(listener, NULL, NULL);
	close(listener);
	expect(peer, "hello\n");
	close(peer);
	UNTIL(ours.closed == 3);
	assert_int_equal(ours.opened, 1);
	assert_non_null(ours.error);
	assert_string_equal(ours.error, "connection refused");
	finish(f);
}

static void connecting_has_a_deadline(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {.timeout_ms = 20};
	int listener = listen_for(f, &ours, 1), fills[4];

	(void)state;
	net_conn_abort(ours.conn);
	/* The system answers no more than one beyond its backlog. */
	assert_int_equal(listen(listener, 0), 0);
	for (int i = 0; i < 4; i++) {
		fills[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fills[i], &ours.to.any, net_address_size(&ours.to));
	}
	ours.times = 1; /* when the aborted one is closed */
	run_thread(f);
	UNTIL(ours.closed == 2);
	assert_int_equal(ours.opened, 0);
	assert_string_equal(ours.error, "connection timed out");
	finish(f);
	for (int i = 0; i < 4; i++)
		close(fills[i]);
	close(listener);
}

static void an_aborted_connection_ends_at_once_and_is_closed_once(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {0};
	int listener = listen_for(f, &ours, 2), peer;

	(void)state;
	run_thread(f);
	peer = accept(listener, NULL, NULL);
	say(peer, "leave");
	expect(peer, "hello\n");
	expect_end(peer);
	peer = accept(listener, NULL, NULL); /* its owner has dialled again */
	expect(peer, "hello\n");
	finish(f);
	assert_int_equal(ours.opened, 2);
	assert_int_equal(ours.closed, 2);
	expect_end(peer);
	close(listener);
}

/* Clients' answers may depend on it. */
static void it_lasts_while_a_loop_that_stops_answers_the_others(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct ours ours = {0};
	struct fixture *f;
	int listener, peer, client;

	(void)state;
	options.stop_timeout_ms = 20000;
	f = prepare(&options, 1, 0);
	listener = listen_for(f, &ours, 1);
	run_thread(f);
	client = dial(f);
	say(client, "one\nhold\n");
	expect(client, "one\n");
	peer = accept(listener, NULL, NULL);
	expect(peer, "hello\n");
	net_loop_stop(f->loop);
	for (size_t before = f->turns; f->turns < before + 3;) /* it drains */
		net_loop_wake(f->loop);
	say(peer, "answer");
	expect(client, "hold\n");
	pthread_join(f->thread, NULL);
	expect_end(client);
	expect_end(peer);
	assert_int_equal(ours.closed, 1);
	close_fixture(f);
	close(listener);
}

static void a_loop_that_never_ran_closes_dialled_connections(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {0};
	int listener = listen_for(f, &ours, 2);

	(void)state;
	close_fixture(f);
	assert_int_equal(ours.closed, 1);
	assert_int_equal(ours.times, 0);
	assert_null(ours.conn); /* it may not be dialled again */
	close(listener);
}

static void a_unix_socket_is_dialled_as_well(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {0};
	char directory[] = "/tmp/weir-dial-XXXXXX", address[64];
	int listener, peer;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(address, sizeof address, "unix:%s/s", directory);
	listener = listen_at(f, &ours, 3, address);
	assert_int_equal(ours.opened, 0); /* never before the loop runs */
	net_conn_abort(ours.conn);        /* nor when it was closed before */
	run_thread(f);
	peer = accept(listener, NULL, NULL);
	expect_end(peer);
	close(peer);
	peer = accept(listener, NULL, NULL);
	expect(peer, "hello\n");
	say(peer, "welcome");
	UNTIL(ours.got_len == 7);
	net_address_remove(&ours.to);
	close(listener);
	close(peer);
	UNTIL(ours.closed == 3); /* the third finds no file */
	assert_int_equal(ours.opened, 1);
	assert_string_equal(ours.error, "no such file or directory");
	finish(f);
	assert_int_equal(rmdir(directory), 0);
}

/* Clients wait for it, and it may read again only when its own answers are taken. */
static void a_dialled_peer_that_does_not_read_is_still_read(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct ours ours = {0};
	int listener = listen_for(f, &ours, 1), peer;
	struct buffer *out = net_conn_output(ours.conn);

	(void)state;
	memset(buffer_reserve(out, 64 * NET_OUT_MAX), 'x', 64 * NET_OUT_MAX);
	out->len += 64 * NET_OUT_MAX;
	run_thread(f);
	peer = accept(listener, NULL, NULL);
	expect(peer, "hello\n");
	for (size_t said = 1; said <= 20; said++) {
		say(peer, "x");
		UNTIL(ours.got_len == said);
	}
	close(peer);
	UNTIL(ours.closed == 1);
	finish(f);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(output_before_the_connection_is_made_is_sent_later),
	    cmocka_unit_test(a_refused_connection_is_closed_with_the_reason_and_dialled_again),
	    cmocka_unit_test(connecting_has_a_deadline),
	    cmocka_unit_test(an_aborted_connection_ends_at_once_and_is_closed_once),
	    cmocka_unit_test(it_lasts_while_a_loop_that_stops_answers_the_others),
	    cmocka_unit_test(a_unix_socket_is_dialled_as_well),
	    cmocka_unit_test(a_dialled_peer_that_does_not_read_is_still_read),
	    cmocka_unit_test(a_loop_that_never_ran_closes_dialled_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
