/*
 * A loop with an owner that speaks in lines: it echoes them when the turn comes.
 * "big N" is answered by N bytes, "quit" ends the connection. More than BATCH
 * big ones at once are answered before further ones are taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/number.h"
#include "net/address.h"
#include "net/net.h"

#define BATCH 4

struct line {
	struct net_conn *conn;
	struct slice text;
};

struct fixture {
	struct net_loop *loop;
	struct net_gate gate;
	struct net_address address;
	pthread_t thread;
	struct line lines[1 << 16];
	size_t count;
	size_t output; /* bytes of replies since the loop's last turn */
	_Atomic size_t most_in_a_turn, most_output;
	_Atomic int opened, closed;
};

static void line_open(void *context, struct net_conn *conn)
{
	struct fixture *f = context;

	(void)conn;
	f->opened++;
}

static void line_close(void *context, struct net_conn *conn)
{
	struct fixture *f = context;

	for (size_t i = 0; i < f->count; i++)
		assert_ptr_not_equal(f->lines[i].conn, conn);
	f->closed++;
}

static void line_trouble(void *context, const char *what, const char *why)
{
	(void)context;
	(void)what;
	(void)why;
}

static void answer(struct fixture *f);

static size_t line_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct fixture *f = context;
	size_t used = 0;
	const char *end;

	while (!net_conn_blocked(conn) &&
	       (end = memchr(bytes.data + used, '\n', bytes.len - used)) != NULL) {
		struct slice text = {bytes.data + used, (size_t)(end - bytes.data) - used};

		f->lines[f->count++] = (struct line){conn, text};
		used = (size_t)(end - bytes.data) + 1;
		if (f->count >= BATCH && text.len > 4 && memcmp(text.data, "big ", 4) == 0) {
			answer(f);
			net_loop_flush(f->loop);
		}
		if (slice_equal(text, SLICE("quit"))) {
			net_conn_finish(conn);
			break;
		}
	}
	return used;
}

static void answer(struct fixture *f)
{
	if (f->count > f->most_in_a_turn)
		f->most_in_a_turn = f->count;
	for (size_t i = 0; i < f->count; i++) {
		struct slice text = f->lines[i].text;
		struct buffer *out = net_conn_out(f->lines[i].conn);
		size_t before = out->len;
		uint64_t big;

		if (text.len > 4 && memcmp(text.data, "big ", 4) == 0 &&
		    parse_u64((struct slice){text.data + 4, text.len - 4}, &big)) {
			char *to = buffer_reserve(out, big);

			memset(to, 'x', big);
			out->len += big;
		} else {
			buffer_add_slice(out, text);
			buffer_add_text(out, "\n");
		}
		f->output += out->len - before;
	}
	if (f->output > f->most_output)
		f->most_output = f->output;
	f->count = 0;
}

static void line_turn(void *context)
{
	struct fixture *f = context;

	answer(f);
	f->output = 0;
}

static const struct net_owner owner = {line_open, line_data, line_turn, line_close, line_trouble};

static void *run(void *argument)
{
	net_loop_run(((struct fixture *)argument)->loop);
	return NULL;
}

/* Listens, but does not run yet. */
static struct fixture *prepare(const struct net_options *options, size_t max_connections,
                             uint64_t idle_ms)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct net_listener listener = {.idle_timeout_ms = idle_ms};

	f->gate.max = max_connections;
	assert_int_equal(net_loop_open(&f->loop, options, &owner, f, &f->gate), WEIR_OK);
	assert_int_equal(net_address_parse(SLICE("127.0.0.1:0"), &f->address, NULL), WEIR_OK);
	assert_int_equal(net_address_listen(&f->address, &listener.socket, 1, NULL), WEIR_OK);
	assert_int_equal(net_loop_listen(f->loop, &listener), WEIR_OK);
	return f;
}

static struct fixture *start(const struct net_options *options, size_t max_connections,
                             uint64_t idle_ms)
{
	struct fixture *f = prepare(options, max_connections, idle_ms);

	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	return f;
}

static void close_fixture(struct fixture *f)
{
	net_loop_close(f->loop);
	assert_int_equal(f->opened, f->closed);
	assert_int_equal(f->gate.open, 0);
	free(f);
}

static void finish(struct fixture *f)
{
	net_loop_stop(f->loop);
	pthread_join(f->thread, NULL);
	close_fixture(f);
}

static int dial(const struct fixture *f)
{
	struct timeval patience = {.tv_sec = 20};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	assert_int_equal(connect(fd, &f->address.any, net_address_size(&f->address)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void expect(int fd, const char *text)
{
	char got[256];
	size_t len = strlen(text);

	assert_int_equal(recv(fd, got, len, MSG_WAITALL), (ssize_t)len);
	assert_memory_equal(got, text, len);
}

static void expect_end(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

/* Reads until the end, or `max` bytes; returns how many. */
static size_t swallow(int fd, size_t max)
{
	static char sink[1 << 16];
	size_t total = 0;

	while (total < max) {
		ssize_t n = recv(fd, sink, max - total < sizeof sink ? max - total : sizeof sink, 0);

		if (n <= 0)
			break;
		total += (size_t)n;
	}
	return total;
}

struct sender {
	int fd;
	const char *data;
	size_t len;
};

static void *send_all(void *argument)
{
	struct sender *sender = argument;
	ssize_t n;

	while (sender->len > 0 && (n = send(sender->fd, sender->data, sender->len, MSG_NOSIGNAL)) > 0) {
		sender->data += n;
		sender->len -= (size_t)n;
	}
	return NULL;
}

static void lines_in_pieces_and_many_in_one_piece_are_all_answered_in_order(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	int fd = dial(f);

	(void)state;
	say(fd, "on");
	say(fd, "e\ntwo\nth");
	expect(fd, "one\ntwo\n");
	say(fd, "ree\nfour\n");
	expect(fd, "three\nfour\n");
	close(fd);
	finish(f);
}

static void a_line_longer_than_one_read_arrives_whole(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	enum { LEN = 700 << 10 };
	char *line = malloc(LEN), *got = malloc(LEN);
	struct fixture *f;
	int fd;

	(void)state;
	options.input_max = LEN;
	f = start(&options, 10, 0);
	fd = dial(f);
	for (size_t i = 0; i < LEN; i++)
		line[i] = (char)('a' + i % 23);
	line[LEN - 1] = '\n';
	for (int round = 0; round < 3; round++) {
		assert_int_equal(send(fd, line, LEN, 0), LEN);
		assert_int_equal(recv(fd, got, LEN, MSG_WAITALL), LEN);
		assert_memory_equal(line, got, LEN);
	}
	close(fd);
	finish(f);
	free(line);
	free(got);
}

static void pipelines_longer_than_the_scratch_lose_nothing(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	enum { N = 20000, WIDTH = 8 };
	char *all = malloc(N * WIDTH + 1), *got = malloc(N * WIDTH);
	int fd = dial(f);

	(void)state;
	for (int i = 0; i < N; i++)
		snprintf(all + i * WIDTH, WIDTH + 1, "%07u\n", (unsigned)i % 10000000);
	for (int round = 0; round < 5; round++) {
		assert_int_equal(send(fd, all, N * WIDTH, 0), N * WIDTH);
		assert_int_equal(recv(fd, got, N * WIDTH, MSG_WAITALL), N * WIDTH);
		assert_memory_equal(all, got, N * WIDTH);
	}
	assert_true(f->most_in_a_turn > 100);
	close(fd);
	finish(f);
	free(all);
	free(got);
}

static void more_than_input_max_without_a_line_ends_the_connection_only(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int bad, good;
	char flood[4096];

	(void)state;
	options.input_max = 1 << 16;
	f = start(&options, 10, 0);
	bad = dial(f);
	good = dial(f);
	memset(flood, 'x', sizeof flood);
	for (int i = 0; i < 1000; i++)
		if (send(bad, flood, sizeof flood, MSG_NOSIGNAL) < 0)
			break;
	assert_int_equal(swallow(bad, 1), 0);
	close(bad);
	say(good, "still here\n");
	expect(good, "still here\n");
	close(good);
	finish(f);
}

/* Nor does it get more in one turn while the kernel still takes what it is sent. */
static void a_peer_that_does_not_read_is_not_read_and_resumes_without_loss(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	enum { LINES = 400, SIZE = 200000 };
	int slow = dial(f), other = dial(f);

	(void)state;
	for (int i = 0; i < LINES; i++)
		say(slow, "big 200000\n");
	say(other, "hello\n");
	expect(other, "hello\n");
	assert_true(f->most_output <= NET_OUT_MAX + BATCH * SIZE);
	assert_int_equal(swallow(slow, (size_t)LINES * SIZE), (size_t)LINES * SIZE);
	say(slow, "after\n");
	expect(slow, "after\n");
	close(slow);
	close(other);
	finish(f);
}

static void input_that_waits_for_output_to_drain_is_not_taken_for_too_long(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	enum { LINES = 20000, SIZE = 2000, WIDTH = 11 };
	char *all = malloc(LINES * WIDTH + 1);
	struct sender sender = {dial(f), all, LINES * WIDTH};
	pthread_t thread;

	(void)state;
	for (int i = 0; i < LINES; i++)
		memcpy(all + i * WIDTH, "big 002000\n", WIDTH);
	assert_int_equal(pthread_create(&thread, NULL, send_all, &sender), 0);
	assert_int_equal(swallow(sender.fd, (size_t)LINES * SIZE), (size_t)LINES * SIZE);
	pthread_join(thread, NULL);
	close(sender.fd);
	finish(f);
	free(all);
}

static void after_a_half_close_what_was_sent_is_answered(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	int fd = dial(f);

	(void)state;
	say(fd, "one\nbig 900000\nhalf a li");
	shutdown(fd, SHUT_WR);
	expect(fd, "one\n");
	assert_int_equal(swallow(fd, 1 << 30), 900000);
	expect_end(fd);
	finish(f);
}

static void quit_is_answered_even_when_more_input_follows(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	struct sender sender = {dial(f), NULL, 1 << 20};
	char *flood = calloc(1, sender.len);
	pthread_t thread;

	(void)state;
	memset(flood, 'x', sender.len);
	memcpy(flood, "quit\nnever\n", 11);
	sender.data = flood;
	assert_int_equal(pthread_create(&thread, NULL, send_all, &sender), 0);
	expect(sender.fd, "quit\n");
	assert_int_equal(swallow(sender.fd, 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(sender.len, 0); /* no reset, which might have overtaken the reply */
	close(sender.fd);
	finish(f);
	free(flood);
}

static void connections_past_the_maximum_are_closed_and_counted(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 2, 0);
	int a = dial(f), b = dial(f), c;

	(void)state;
	say(a, "a\n");
	expect(a, "a\n");
	say(b, "b\n");
	expect(b, "b\n");
	c = dial(f);
	assert_int_equal(swallow(c, 1), 0);
	close(c);
	assert_int_equal(f->gate.rejected, 1);
	close(a);
	close(b);
	finish(f);
}

static void a_half_sent_line_and_an_idle_connection_time_out(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int half, idle;

	(void)state;
	options.request_timeout_ms = 1;
	f = start(&options, 10, 1);
	half = dial(f);
	idle = dial(f);
	say(half, "half");
	assert_int_equal(swallow(half, 1), 0);
	close(half);
	assert_int_equal(swallow(idle, 1), 0);
	close(idle);
	finish(f);
}

static void stopping_answers_what_was_received_and_ends_in_bounded_time(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int sent, half, silent;

	(void)state;
	options.stop_timeout_ms = 10;
	f = start(&options, 10, 0);
	sent = dial(f);
	half = dial(f);
	silent = dial(f);
	say(sent, "x\n");
	expect(sent, "x\n");
	say(half, "half a li");
	say(silent, "big 50000000\n");
	say(sent, "last words\n");
	finish(f);
	expect(sent, "last words\n");
	expect_end(sent);
	close(half);
	close(silent);
}

static void what_waits_to_be_accepted_when_stopping_is_answered(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 10, 0);
	int fd = dial(f);

	(void)state;
	say(fd, "last words\n");
	net_loop_stop(f->loop);
	net_loop_run(f->loop);
	expect(fd, "last words\n");
	expect_end(fd);
	close_fixture(f);
}

static void a_loop_that_never_ran_closes(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 10, 0);
	int fd = dial(f);

	(void)state;
	close_fixture(f);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_in_pieces_and_many_in_one_piece_are_all_answered_in_order),
	    cmocka_unit_test(a_line_longer_than_one_read_arrives_whole),
	    cmocka_unit_test(pipelines_longer_than_the_scratch_lose_nothing),
	    cmocka_unit_test(more_than_input_max_without_a_line_ends_the_connection_only),
	    cmocka_unit_test(a_peer_that_does_not_read_is_not_read_and_resumes_without_loss),
	    cmocka_unit_test(input_that_waits_for_output_to_drain_is_not_taken_for_too_long),
	    cmocka_unit_test(after_a_half_close_what_was_sent_is_answered),
	    cmocka_unit_test(quit_is_answered_even_when_more_input_follows),
	    cmocka_unit_test(connections_past_the_maximum_are_closed_and_counted),
	    cmocka_unit_test(a_half_sent_line_and_an_idle_connection_time_out),
	    cmocka_unit_test(stopping_answers_what_was_received_and_ends_in_bounded_time),
	    cmocka_unit_test(what_waits_to_be_accepted_when_stopping_is_answered),
	    cmocka_unit_test(a_loop_that_never_ran_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
