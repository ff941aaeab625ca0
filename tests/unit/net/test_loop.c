/* Runs a loop with many connections: bounds, fairness, the limit of connections, timeouts,
 * stopping. */
#include "lines.h"

/* The descriptor that the system gives next. */
static int lowest_free(void)
{
	int fd = dup(0);

	assert_true(fd >= 0);
	close(fd);
	return fd;
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

/* Input that is there before the loop runs for the first time is seen at once. */
static void an_iteration_is_bounded_and_a_new_client_waits_for_one_only(void **state)
{
	enum { CROWD = 50, LINES = 20, SIZE = 10000, ROUND = 512 << 10 };
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, CROWD + 1, 0);
	int crowd[CROWD], stranger;

	(void)state;
	f->share = LINES / 4;
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = dial(f);
		for (int n = 0; n < LINES; n++)
			say(crowd[i], "big 10000\n");
	}
	stranger = dial(f);
	say(stranger, "hello\n");
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	expect(stranger, "hello\n");
	close(stranger);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(swallow(crowd[i], LINES * SIZE), LINES * SIZE);
		close(crowd[i]);
	}
	stop(f);
	assert_true(f->bigs_before_hello <= ROUND / SIZE + BATCH);
	assert_true(f->most_output <= ROUND + BATCH * SIZE);
	close_fixture(f);
}

/* Each gets its next share when all others had theirs. */
static void shares_are_used_in_rotation(void **state)
{
	enum { CROWD = 20, LINES = 50 };
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, CROWD, 0);
	int crowd[CROWD];

	(void)state;
	f->share = 1;
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = dial(f);
		for (int n = 0; n < LINES; n++)
			say(crowd[i], "x\n");
	}
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	for (int i = 0; i < CROWD; i++)
		for (int n = 0; n < LINES; n++)
			expect(crowd[i], "x\n");
	stop(f);
	assert_int_equal(f->most_in_a_turn, CROWD);
	assert_true(f->turns >= LINES);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
	close_fixture(f);
}

static void a_connection_is_read_once_a_turn(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	enum { LINES = 40000, WIDTH = 6 };
	char *all = malloc(LINES * WIDTH + 1), *got = malloc(LINES * WIDTH);
	struct sender sender = {dial(f), all, LINES * WIDTH};
	pthread_t thread;

	(void)state;
	for (int i = 0; i < LINES; i++)
		snprintf(all + i * WIDTH, WIDTH + 1, "%05d\n", i);
	assert_int_equal(pthread_create(&thread, NULL, send_all, &sender), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	assert_int_equal(recv(sender.fd, got, LINES * WIDTH, MSG_WAITALL), LINES * WIDTH);
	assert_memory_equal(all, got, LINES * WIDTH);
	pthread_join(thread, NULL);
	close(sender.fd);
	stop(f);
	assert_true(f->most_input <= 64 << 10);
	close_fixture(f);
	free(all);
	free(got);
}

/* By TCP in each case: Linux has no error for a Unix socket that was shut down. */
static void a_broken_listener_is_closed_and_reported_once(void **state)
{
	enum { LINES = 200 };
	struct fixture *f = start_at("127.0.0.1:0", &NET_OPTIONS_DEFAULT, 10, 0);
	int fd = dial(f);
	size_t before;

	(void)state;
	say(fd, "x\n");
	expect(fd, "x\n");
	before = f->turns;
	shutdown(f->listener, SHUT_RDWR); /* accept() fails with EINVAL from now on */
	for (int i = 0; i < LINES; i++) {
		say(fd, "x\n");
		expect(fd, "x\n");
	}
	assert_int_equal(f->troubles, 1);
	assert_true(f->turns - before <= 2 * LINES);
	close(fd);
	finish(f);
}

/* The timer that would try again is far away. */
static void without_descriptors_the_next_is_accepted_when_one_closes(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct rlimit before, tight;
	struct fixture *f;
	int first, second;

	(void)state;
	options.tick_ms = 3600 * 1000;
	f = start(&options, 10, 0);
	first = dial(f);
	say(first, "x\n");
	expect(first, "x\n");
	second = dial(f);
	say(second, "y\n");
	expect(second, "y\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int i = 0; i < 10; i++) {
		int third = socket(f->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		tight = (struct rlimit){(rlim_t)lowest_free(), before.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
		assert_int_equal(connect(third, &f->address.any, net_address_size(&f->address)), 0);
		say(third, "z\n");
		while (f->troubles <= i) {
			say(second, "y\n");
			expect(second, "y\n");
		}
		close(first);
		first = third;
		expect(first, "z\n");
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	}
	close(first);
	close(second);
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

static void requests_before_a_half_close_are_answered(void **state)
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

/* It is connected and was seen by the loop. */
static int enter(struct fixture *f)
{
	int fd = dial(f);

	say(fd, "x\n");
	expect(fd, "x\n");
	return fd;
}

static void past_the_maximum_operators_are_answered_and_others_refused(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 2, 0);
	int a = enter(f), b = enter(f), c = dial(f), d = dial(f);

	(void)state;
	say(c, "op\nop\n");
	expect(c, "op\n");
	expect_end(c);
	assert_true(f->full);
	say(d, "x\n");
	expect(d, "full\n");
	expect_end(d);
	assert_int_equal(f->conn_limit.rejected_count, 1);
	say(a, "x\n");
	expect(a, "x\n");
	close(a);
	close(b);
	finish(f);
}

static void one_in_the_reserve_enters_when_there_is_room(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int a, b;

	(void)state;
	options.tick_ms = 10;
	f = start(&options, 1, 0);
	a = enter(f);
	b = dial(f);
	while (f->conn_limit.reserve_count == 0)
		usleep(1000);
	assert_true(f->full);
	close(a);
	while (f->closed == 0)
		usleep(1000);
	for (int i = 0; i < 2; i++) {
		say(b, "x\n");
		expect(b, "x\n");
	}
	assert_int_equal(f->conn_limit.reserve_count, 0);
	close(b);
	while (f->full)
		usleep(1000);
	finish(f);
}

static void one_in_the_reserve_has_a_second_and_the_oldest_makes_room(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 1, 0);
	int a = enter(f), reserve[NET_RESERVE + 1];

	(void)state;
	for (int i = 0; i <= NET_RESERVE; i++)
		reserve[i] = dial(f);
	expect_end(reserve[0]);
	assert_int_equal(f->conn_limit.rejected_count, 1);
	say(reserve[NET_RESERVE], "op\n");
	expect(reserve[NET_RESERVE], "op\n");
	expect_end(reserve[NET_RESERVE]);
	say(reserve[1], "half");
	for (int i = 1; i < NET_RESERVE; i++)
		expect_end(reserve[i]);
	assert_int_equal(f->conn_limit.rejected_count, NET_RESERVE);
	close(a);
	finish(f);
}

static void a_changed_idle_timeout_applies_to_open_connections_without_pending_answers(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int idle, held;

	(void)state;
	options.tick_ms = 10;
	f = start(&options, 10, 0);
	idle = enter(f);
	held = enter(f);
	say(held, "hold\n");
	for (int i = 0; i < 3; i++) { /* while ticks go by */
		usleep(20000);
		say(idle, "x\n");
		expect(idle, "x\n");
	}
	f->idle_ms = 1;
	expect_end(idle);
	f->due_ns = 0;
	net_loop_wake(f->loop);
	expect(held, "hold\n");
	expect_end(held);
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

/* Each connection has ended in another way; lines.h checks that each was closed, and once. */
static void however_a_connection_ends_it_is_closed_once(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int fds[6];

	(void)state;
	options.stop_timeout_ms = 10;
	f = start(&options, 10, 0);
	for (int i = 0; i < 6; i++)
		fds[i] = enter(f);
	close(fds[0]);
	setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fds[1]); /* reset */
	shutdown(fds[2], SHUT_WR);
	say(fds[3], "quit\n");
	say(fds[4], "big 50000000\n");
	while (f->closed < 3)
		usleep(1000);
	setsockopt(fds[4], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fds[4]); /* reset, while output waits */
	expect(fds[3], "quit\n");
	expect_end(fds[3]);
	expect_end(fds[2]);
	while (f->closed < 5)
		usleep(1000);
	finish(f); /* the last by the loop's end */
	expect_end(fds[5]);
}

static void stopping_answers_received_requests_in_bounded_time(void **state)
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

static void connections_in_the_backlog_are_answered_when_stopping(void **state)
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
	    cmocka_unit_test(an_iteration_is_bounded_and_a_new_client_waits_for_one_only),
	    cmocka_unit_test(shares_are_used_in_rotation),
	    cmocka_unit_test(a_connection_is_read_once_a_turn),
	    cmocka_unit_test(a_broken_listener_is_closed_and_reported_once),
	    cmocka_unit_test(without_descriptors_the_next_is_accepted_when_one_closes),
	    cmocka_unit_test(input_that_waits_for_output_to_drain_is_not_taken_for_too_long),
	    cmocka_unit_test(requests_before_a_half_close_are_answered),
	    cmocka_unit_test(quit_is_answered_even_when_more_input_follows),
	    cmocka_unit_test(past_the_maximum_operators_are_answered_and_others_refused),
	    cmocka_unit_test(one_in_the_reserve_enters_when_there_is_room),
	    cmocka_unit_test(one_in_the_reserve_has_a_second_and_the_oldest_makes_room),
	    cmocka_unit_test(
	        a_changed_idle_timeout_applies_to_open_connections_without_pending_answers),
	    cmocka_unit_test(a_half_sent_line_and_an_idle_connection_time_out),
	    cmocka_unit_test(however_a_connection_ends_it_is_closed_once),
	    cmocka_unit_test(stopping_answers_received_requests_in_bounded_time),
	    cmocka_unit_test(connections_in_the_backlog_are_answered_when_stopping),
	    cmocka_unit_test(a_loop_that_never_ran_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
